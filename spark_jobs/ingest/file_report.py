"""What a worker says of one log file it has read, and what people are told of all of them.

Of files that hold the same lines, byte for byte once unpacked, one counts and the others are told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_jobs.errors import BadInputError
from spark_jobs.wording.visible_text import visible

# The most files named: of refused ones, of those with the same lines.
_REFUSED, _SAME = 5, 3


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
    # By broker: the newest versions served, of requests of which no known release serves so much.
    served_beyond: dict[int, dict[int, int]] = field(default_factory=dict)
    refused: str | None = None  # why nothing of the file may be used
    warning: str | None = None

    def rows(self, table: str, day: int | None) -> int:
        """Return the number of a day's lines that went to a table."""
        return sum(c.rows for c in self.counts if (c.table, c.day) == (table, day))


def check_none_refused(reports: Iterable[FileReport]) -> None:
    """Raise BadInputError with the reasons of the files that could not be read as they are."""
    refused = [visible(report.refused) for report in reports if report.refused is not None]
    if refused:
        more = f"\nand {len(refused) - _REFUSED} more files" if len(refused) > _REFUSED else ""
        raise BadInputError("\n".join(refused[:_REFUSED]) + more)


def warnings_of(reports: Sequence[FileReport]) -> tuple[str, ...]:
    """Return the warnings about files that were read, in the order of their names."""
    told = sorted(reports, key=lambda report: report.source_file)
    return tuple(visible(report.warning) for report in told if report.warning is not None)


def counted_once(reports: Sequence[FileReport]) -> list[FileReport]:
    """Return ``reports``; of files with the same lines of a broker all but the first are empty.

    The first is that by name. The lines of the others are ``duplicated``, and what was written of
    them is named no more. A file without a line is no duplicate.
    """
    first_of: dict[tuple[int | None, str], FileReport] = {}
    for report in sorted(reports, key=lambda r: r.source_file):
        if report.lines_read:
            first_of.setdefault((report.broker_id, report.digest), report)
    counted = []
    for report in reports:
        first = first_of.get((report.broker_id, report.digest), report)
        counted.append(report if first is report else _duplicate(report, first))
    return counted


def _duplicate(report: FileReport, first: FileReport) -> FileReport:
    return replace(
        report,
        other=0,
        duplicated=report.lines_read,
        duplicate_of=first.source_file,
        counts=[],
        parts=[],
        broker_ids=[],
        first_request_ms=None,
        day_digests={},
        alterations=[],
        served_beyond={},
    )


def same_lines_sentences(reports: Sequence[FileReport]) -> list[str]:
    """Return sentences for people about files with the same lines."""
    sentences = []
    pairs = sorted((r.source_file, r.duplicate_of) for r in reports if r.duplicate_of is not None)
    if pairs:
        named = ", ".join(f"{file} (as {first})" for file, first in pairs[:_SAME])
        more = ", …" if len(pairs) > _SAME else ""
        sentences.append(
            f"{len(pairs)} file{'s hold' if len(pairs) > 1 else ' holds'} the lines of another and "
            f"count{'' if len(pairs) > 1 else 's'} only once: {named}{more}"
        )
    by_digest: defaultdict[str, list[FileReport]] = defaultdict(list)
    for report in reports:
        if report.lines_read and report.duplicate_of is None:
            by_digest[report.digest].append(report)
    for same in by_digest.values():
        if len(same) > 1:
            names = ", ".join(sorted(r.source_file for r in same)[:_SAME])
            sentences.append(
                f"the same lines are in the files of several brokers: {names}. Each broker counts "
                "them; look which folder they belong to"
            )
    return sentences
