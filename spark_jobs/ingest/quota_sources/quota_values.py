"""A quota's value as people and tools write it."""

from __future__ import annotations

import math

from spark_jobs.errors import BadInputError


def read_bound(text: str, quota_type: str, where: str) -> float:
    """Return the bound that ``text`` says: bytes/s, percent or mutations/s.

    Raises BadInputError, naming ``where``, unless it is a finite number of at least 0.

    >>> read_bound("1.048576E7", "producer_byte_rate", "quotas.txt, line 1")
    10485760.0
    """
    try:
        bound = float(text)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound) or bound < 0:
        raise BadInputError(
            f"{where}: found {quota_type}={text!r}, expected a number of at least 0, such as "
            f"{quota_type}=1048576. Correct the file."
        )
    return bound
