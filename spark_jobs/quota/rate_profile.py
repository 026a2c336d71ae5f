"""What follows from a broker's version: which of Kafka's three rates, and its longest throttle."""

from __future__ import annotations

import re
from enum import StrEnum

from spark_jobs.quota.java_math import INT_MAX

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?:\.[A-Za-z].*|-.*)?")
_CONFLUENT = re.compile(r"-(ccs|ce)\b")
_FIRST_THAT_HOLDS_THROTTLES = (4, 4)


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


def release_of_version(version: str) -> tuple[int, int]:
    """Return the release of an Apache Kafka broker version such as ``3.7.2`` or ``4.0.0-rc1``.

    Raises ValueError where the text is no Apache Kafka version with client quotas (0.9 and later);
    Confluent's own numbers (``7.4.0-ccs``) are refused, because they count otherwise.

    >>> release_of_version("3.7.2"), release_of_version(" 4.4.0-rc1")
    ((3, 7), (4, 4))
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None or _CONFLUENT.search(version):
        raise ValueError(
            f"broker version {version!r} is not an Apache Kafka version like 4.1.0; "
            "give the Apache Kafka version that the broker was built from"
        )
    release = int(match[1]), int(match[2])
    if release < (0, 9):
        raise ValueError(f"broker version {version!r} has no client quotas; they came with 0.9")
    return release


def profile_of_version(version: str) -> RateProfile:
    """Return the profile of an Apache Kafka broker version.

    Raises ValueError as :func:`release_of_version` does.

    >>> [str(profile_of_version(v)) for v in ("3.2.3", "3.3.0", "3.7.2", "3.8.0", "4.1.0")]
    ['rate_0_9', 'rate_3_3', 'rate_3_3', 'rate_3_8', 'rate_3_8']
    """
    release = release_of_version(version)
    if release < (3, 3):
        return RateProfile.RATE_0_9
    return RateProfile.RATE_3_3 if release < (3, 8) else RateProfile.RATE_3_8


def throttle_max_of_version(version: str) -> int | None:
    """Return the longest throttle (ms) of a broker version; None: it is cut to 32 bits.

    Since 4.4 a throttle is held at the largest int; before, a longer one wraps.
    Kafka: ``ClientQuotaManager.recordAndGetThrottleTimeMs``.

    >>> throttle_max_of_version("4.3.1"), throttle_max_of_version("4.4.0")
    (None, 2147483647)
    """
    return INT_MAX if release_of_version(version) >= _FIRST_THAT_HOLDS_THROTTLES else None
