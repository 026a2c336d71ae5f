"""What a worker says of one log file it has read: counts, and the Parquet files it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

REQUESTS_TABLE, QUARANTINE_TABLE = "requests", "quarantine"


@dataclass(frozen=True, slots=True)
class Count:
    """Rows of one table and UTC day number; None: lines of a file in which no line has a time."""

    table: str
    day: int | None
    reason: str | None  # of quarantined lines
    rows: int


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file, beside the warehouse until it is published."""

    table: str
    day: int | None
    path: str
    rows: int


@dataclass(slots=True)
class FileReport:
    """One file: ``lines_read`` = all ``counts`` + ``other`` + ``duplicated``."""

    source_file: str
    broker_id: int | None
    bytes_read: int
    lines_read: int = 0
    other: int = 0
    digest: str = ""  # of its unpacked bytes
    modified_ns: int | None = None
    day_digests: dict[int, str] = field(default_factory=dict)  # of the requests of each day
    duplicated: int = 0
    duplicate_of: str | None = None  # the file whose lines these are
    counts: list[Count] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    broker_ids: list[int] = field(default_factory=list)
    first_request_ms: int | None = None
    alterations: list[dict[str, Any]] = field(default_factory=list)
    refused: str | None = None  # why nothing of the file may be used
    warning: str | None = None

    def rows(self, table: str, day: int | None) -> int:
        """Return how many lines of a day went to a table."""
        return sum(c.rows for c in self.counts if (c.table, c.day) == (table, day))
