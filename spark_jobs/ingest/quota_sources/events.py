"""One change of one quota value, by whichever source tells of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import QUOTA_TYPES

QuotaEntity = tuple[str | None, str | None]
"""(user, client-id) as configured: None = no such part, ``<default>`` = the default."""

SOURCES = ("server_log", "log", "journal", "snapshot", "static")
"""Where a change is known from; for one and the same change the earlier source is believed."""

SINCE_UNKNOWN_MS = 0
"""Stands in tables for the beginning of a value that was set before anything is known."""

# How long before ``latest_ms`` a change most likely took effect, where the source has an interval.
# log: 45 of the 50 ms after the controller's answer; journal: 0.1 s before the noted time.
_LIKELY_BEFORE_LATEST_MS = {"log": 45, "journal": 5_100}


@dataclass(frozen=True, slots=True)
class QuotaEvent:
    """One quota value set or removed (``bound`` None): a row of ``tables.QUOTA_EVENTS``.

    The moment it took effect on ``broker_id`` (None: on every broker) lies in
    ``[earliest_ms, latest_ms]``.
    """

    quota_type: str
    quota_user: str | None
    quota_client_id: str | None
    bound: float | None
    broker_id: int | None
    earliest_ms: int
    latest_ms: int
    source: str
    source_file: str | None = None
    source_line: int | None = None

    def __post_init__(self) -> None:
        assert self.quota_type in QUOTA_TYPES, self.quota_type
        assert self.source in SOURCES, self.source
        assert self.earliest_ms <= self.latest_ms, (self.earliest_ms, self.latest_ms)
        assert self.entity != (None, None), "a quota belongs to a user, a client-id or both"

    @property
    def entity(self) -> QuotaEntity:
        """Return the configured entity, (user, client-id)."""
        return self.quota_user, self.quota_client_id

    @property
    def likely_ms(self) -> int:
        """Return the most likely moment in ``[earliest_ms, latest_ms]``."""
        return max(self.earliest_ms, self.latest_ms - _LIKELY_BEFORE_LATEST_MS.get(self.source, 0))

    def row(self) -> dict[str, Any]:
        """Return the row of ``tables.QUOTA_EVENTS``."""
        return asdict(self)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> QuotaEvent:
        """Return the event of a row of ``tables.QUOTA_EVENTS``; other columns are left aside."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


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
