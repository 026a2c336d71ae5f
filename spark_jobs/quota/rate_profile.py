"""Which of Kafka's three windowed rates a broker version follows."""

from __future__ import annotations

import re
from enum import StrEnum

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?:\.[A-Za-z].*|-.*)?")
_CONFLUENT = re.compile(r"-(ccs|ce)\b")


class RateProfile(StrEnum):
    """One arithmetic of ``SampledStat`` and ``Rate``, named after its first version.

    ``rate_0_9`` may divide by a window of 0 ms; ``rate_3_3`` takes 1 ms at least (pull request
    12184); ``rate_3_8`` also keeps a sample for as long as its last event is inside the window, in
    one more slot (pull request 15889).
    """

    RATE_0_9 = "rate_0_9"
    RATE_3_3 = "rate_3_3"
    RATE_3_8 = "rate_3_8"

    @property
    def keeps_overlapping_sample(self) -> bool:
        """Return True if a sample lives until its last event, not its start, left the window.

        Kafka: ``SampledStat.purgeObsoleteSamples``.
        """
        return self is RateProfile.RATE_3_8

    @property
    def allows_zero_window(self) -> bool:
        """Return True if a rate may be divided by a window of 0 ms. Kafka: ``Rate.windowSize``."""
        return self is RateProfile.RATE_0_9

    def slots(self, samples: int) -> int:
        """Return the most samples that are kept. Kafka: ``SampledStat.advance``.

        >>> RateProfile.RATE_3_3.slots(11), RateProfile.RATE_3_8.slots(11)
        (11, 12)
        """
        return samples + self.keeps_overlapping_sample


def profile_of_version(version: str) -> RateProfile:
    """Return the profile of an Apache Kafka broker version such as ``3.7.2`` or ``4.0.0-rc1``.

    Raises ValueError where the text is no Apache Kafka version with client quotas (0.9 and later);
    Confluent's own numbers (``7.4.0-ccs``) are refused, because they count otherwise.

    >>> [str(profile_of_version(v)) for v in ("3.2.3", "3.3.0", "3.7.2", "3.8.0", "4.1.0")]
    ['rate_0_9', 'rate_3_3', 'rate_3_3', 'rate_3_8', 'rate_3_8']
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None or _CONFLUENT.search(version):
        raise ValueError(
            f"broker version {version!r} is not an Apache Kafka version like 4.1.0; "
            "give the Apache Kafka version that the broker was built from"
        )
    number = int(match[1]), int(match[2])
    if number < (0, 9):
        raise ValueError(f"broker version {version!r} has no client quotas; they came with 0.9")
    if number < (3, 3):
        return RateProfile.RATE_0_9
    return RateProfile.RATE_3_3 if number < (3, 8) else RateProfile.RATE_3_8
