"""What was found in an archive: in its request logs, and in what lies beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from spark_jobs.check.clock import ClockSign

_Counted = TypeVar("_Counted")


class Group(NamedTuple):
    """What requests have in common that are counted together."""

    broker_id: int
    listener: str
    user: str
    client_id: str | None
    api_name: str
    is_forwarded: bool
    is_replica: bool
    is_answered: bool  # acks other than 0
    is_sized: bool  # the bytes that a quota counts are known, or are recovered from its throttle


@dataclass(slots=True)
class FileLook:
    """One request log: what it is, how much of it was read, and what that held."""

    source_file: str
    broker_id: int | None
    size_bytes: int  # as it is, packed or not
    modified_ms: int | None
    is_packed: bool
    lines: int = 0
    requests: int = 0
    other: int = 0
    unpacked_bytes: int = 0  # that were read
    packed_bytes: int = 0  # that they were unpacked from
    is_whole: bool = False
    reaches_end: bool = False
    digest: str | None = None  # of a file that was read whole
    refused: str | None = None  # why it cannot be read at all
    cut: str | None = None  # why it ends early
    first_ms: int | None = None
    last_ms: int | None = None  # of what was read; of the file where that reaches its end
    hours: Counter[int] = field(default_factory=Counter)  # since the epoch: its requests
    quarantined: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    envelopes: Counter[str] = field(default_factory=Counter)
    protocols: set[tuple[str, str]] = field(default_factory=set)  # (listener, protocol)
    addresses: set[str] = field(default_factory=set)  # the broker's, where no folder names it
    versions: set[str] = field(default_factory=set)  # that brokers give of themselves
    groups: Counter[Group] = field(default_factory=Counter)
    served_beyond: dict[int, dict[int, int]] = field(default_factory=dict)  # as FileReport has it
    mutations: list[dict[str, Any]] = field(default_factory=list)
    alterations: list[dict[str, Any]] = field(default_factory=list)
    client_lines: list[pa.RecordBatch] = field(default_factory=list)
    signs: list[ClockSign] = field(default_factory=list)
    has_offsets: bool = False  # stamps name their offset from UTC

    @property
    def estimated_bytes(self) -> float:
        """Return the unpacked bytes of the whole file, from what was read of it."""
        if self.is_whole or not self.packed_bytes:
            return self.unpacked_bytes
        return self.size_bytes * self.unpacked_bytes / self.packed_bytes

    @property
    def scale(self) -> float:
        """Return the factor by which the whole file holds more than was read."""
        return self.estimated_bytes / self.unpacked_bytes if self.unpacked_bytes else 1.0

    @property
    def is_empty(self) -> bool:
        """Return True if the file was read whole and has no line."""
        return self.is_whole and not self.lines and self.refused is None


@dataclass(frozen=True, slots=True)
class Looked:
    """All request logs of an archive: those looked at, those passed by, and copies of others."""

    files: tuple[FileLook, ...]
    passed_by: tuple[tuple[int | None, int], ...] = ()  # (broker, size)
    copies: tuple[str, ...] = ()
    groups: Counter[Group] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Return True if every readable line was read."""
        return not self.passed_by and all(f.is_whole or f.refused for f in self.files)

    @property
    def requests(self) -> int:
        """Return the number of requests seen."""
        return sum(f.requests for f in self.files)

    @property
    def lines(self) -> int:
        """Return the number of lines read."""
        return sum(f.lines for f in self.files)

    @property
    def quarantined(self) -> Counter[str]:
        """Return the number of lines that an ingest would quarantine, by reason."""
        return summed(f.quarantined for f in self.files)

    @property
    def hours(self) -> Counter[int]:
        """Return the number of requests seen of each hour since the epoch."""
        return summed(f.hours for f in self.files)

    @property
    def broker_ids(self) -> list[int]:
        """Return the brokers of whom requests were seen."""
        return sorted({group.broker_id for group in self.groups})

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """Return the first and the last time seen, None without any."""
        firsts = [f.first_ms for f in self.files if f.first_ms is not None]
        lasts = [f.last_ms for f in self.files if f.last_ms is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    def estimated(self, seen: str) -> float:
        """Return an estimate of all files together, from the field ``seen`` of each.

        Files passed by are taken to be like the others.
        """
        known: float = sum(getattr(f, seen) * f.scale for f in self.files)
        size = sum(f.size_bytes for f in self.files)
        beside = sum(size for _, size in self.passed_by)
        return known + (beside * known / size if size else 0.0)


@dataclass(slots=True)
class Gathered:
    """What is known of all files so far; of files with the same lines of a broker one counts."""

    files: list[FileLook] = field(default_factory=list)
    groups: Counter[Group] = field(default_factory=Counter)
    copies: list[str] = field(default_factory=list)
    _indexes: dict[tuple[int | None, str], int] = field(default_factory=dict)

    def add(self, look: FileLook) -> None:
        """Take a file into account; of copies the one counts whose name comes first."""
        key = (look.broker_id, look.digest) if look.digest is not None and look.lines else None
        if key is None or key not in self._indexes:
            if key is not None:
                self._indexes[key] = len(self.files)
            self.groups.update(look.groups)
            self.files.append(look)
        else:
            index = self._indexes[key]
            kept, copy = sorted((self.files[index], look), key=lambda f: f.source_file)
            self.files[index] = kept
            self.copies.append(copy.source_file)
        look.groups = Counter()

    def looked(self, passed_by: Iterable[tuple[int | None, int]]) -> Looked:
        """Return the files looked at, in the order of their names, those passed by, and copies."""
        files = sorted(self.files, key=lambda f: f.source_file)
        return Looked(tuple(files), tuple(passed_by), tuple(sorted(self.copies)), self.groups)


@dataclass(frozen=True, slots=True)
class Beside:
    """Counts and names; ``events`` are known quota values and changes by their source."""

    server_logs: int = 0
    server_logs_read: int = 0
    server_log_brokers: frozenset[int] = frozenset()
    property_brokers: frozenset[int] = frozenset()
    snapshots: int = 0
    journals: int = 0
    versions: tuple[str, ...] = ()  # "1: 4.1.0"
    listeners: Mapping[int, frozenset[str]] = field(default_factory=dict)  # as configured
    events: Mapping[str, int] = field(default_factory=dict)
    throttle_records: int = 0
    starts: int = 0
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # for what an ingest would end


def summed(counters: Iterable[Counter[_Counted]]) -> Counter[_Counted]:
    """Return the sum of all counters."""
    total: Counter[_Counted] = Counter()
    for counter in counters:
        total.update(counter)
    return total
