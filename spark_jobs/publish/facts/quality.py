"""Whether the tables can be trusted: what validation found, and where every line went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.warehouse.pipeline import AUDIT_STAGES
from spark_jobs.warehouse.read import read_batches, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.visible_text import visible

SAMPLES_MAX = 3
_WORST_LAST = ("passed", "warnings", "not validated", "failed", "broken")
_SAMPLE_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table and whether it holds; ``error``: it could not be evaluated.

    ``sample`` are the first of the rows that break it, by column; their number is ``failed_rows``.
    """

    rule: str
    description: str = ""
    severity: str = "info"
    success: bool = False
    failed_rows: int = 0
    found: str | None = None
    error: str | None = None
    sample: tuple[dict[str, Any], ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether the rule was evaluated and holds."""
        return self.success and self.error is None


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The rules of one table."""

    table: str
    rows: int = 0
    rules: tuple[Rule, ...] = ()

    @property
    def holding(self) -> int:
        """Return how many of the rules hold."""
        return sum(rule.holds for rule in self.rules)


@dataclass(frozen=True, slots=True)
class StageQuality:
    """What validation wrote of one stage; ``outcome`` is ``not validated`` where it did not."""

    stage: str
    outcome: str = "not validated"
    tables: tuple[CheckedTable, ...] = ()

    @property
    def broken_rules(self) -> tuple[tuple[CheckedTable, Rule], ...]:
        """Return the rules that do not hold or could not be evaluated, with their table."""
        return tuple((t, rule) for t in self.tables for rule in t.rules if not rule.holds)


@dataclass(frozen=True, slots=True)
class LinesOfFile:
    """Where the lines of one file went."""

    source_file: str
    broker_id: int | None
    bytes_read: int
    lines_read: int
    requests: int
    quarantined: int
    other: int
    other_days: int
    duplicated: int
    duplicate_of: str | None = None

    @property
    def lost(self) -> int:
        """Return the lines that went nowhere; 0 in a sound run."""
        accounted = self.requests + self.quarantined + self.other + self.other_days
        return self.lines_read - accounted - self.duplicated


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    """Lines that could not be read for one reason, and the first of them."""

    reason: str
    lines: int
    samples: tuple[tuple[str, int, str], ...]  # file, line, text


def stages_of(scope: RunScope) -> tuple[StageQuality, ...]:
    """Return what validation found at each stage."""
    return tuple(stage_of(scope, stage) for stage in AUDIT_STAGES)


def stage_of(scope: RunScope, stage: str) -> StageQuality:
    """Return what validation found at ``stage``; its outcome says where nothing can be read."""
    path = scope.output_dir("data_quality") / f"{stage}.json"
    if not path.is_file():
        return StageQuality(stage)
    try:
        return msgspec.json.decode(path.read_bytes(), type=StageQuality)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The report still helps; whoever reads it must know that this part is missing.
        return StageQuality(stage, outcome=f"not readable: {path.name}")


def worst_quality(stages: tuple[StageQuality, ...]) -> str:
    """Return the worst outcome of the stages; what cannot be read is ``broken``."""
    known = [s.outcome if s.outcome in _WORST_LAST else _WORST_LAST[-1] for s in stages]
    return max(known, key=_WORST_LAST.index, default="not validated")


def data_docs_of(scope: RunScope) -> tuple[tuple[str, str], ...]:
    """Return each stage that has Data Docs, with their address as seen from the report."""
    folder = scope.output_dir("data_docs")
    found = [(stage, folder / stage / "index.html") for stage in AUDIT_STAGES]
    return tuple(
        (stage, f"../../../{quote(page.relative_to(scope.warehouse).as_posix())}")
        for stage, page in found
        if page.is_file()
    )


def lines_of_files(scope: RunScope) -> tuple[LinesOfFile, ...]:
    """Return where the lines of each file went, files in order of their name."""
    names = [f.name for f in fields(LinesOfFile)]
    rows = read_table(scope, "files", names).sort_by("source_file").to_pylist()
    # A day that was ingested before copies were told of has none.
    return tuple(LinesOfFile(**row | {"duplicated": row["duplicated"] or 0}) for row in rows)


def total_lines(files: tuple[LinesOfFile, ...]) -> LinesOfFile:
    """Return the sum over ``files``."""
    names = [f.name for f in fields(LinesOfFile) if f.type == "int"]
    return LinesOfFile("all files", None, *(sum(getattr(f, n) for f in files) for n in names))


def quarantine_reasons(scope: RunScope) -> tuple[QuarantineReason, ...]:
    """Return why lines could not be read, the most frequent reason first."""
    lines: Counter[str] = Counter()
    first: dict[str, list[dict[str, Any]]] = {}
    columns = ["reason", "source_file", "source_line", "text"]
    for batch in read_batches(scope, "quarantine", columns):
        rows = pa.Table.from_batches([batch]).sort_by(
            [("source_file", "ascending"), ("source_line", "ascending")]
        )
        lines.update(rows["reason"].to_pylist())
        for reason in pc.unique(rows["reason"]).to_pylist():
            own = rows.filter(pc.equal(rows["reason"], reason)).slice(0, SAMPLES_MAX)
            seen = [*first.get(reason, []), *own.to_pylist()]
            seen.sort(key=lambda row: (row["source_file"], row["source_line"]))
            first[reason] = seen[:SAMPLES_MAX]
    return tuple(
        QuarantineReason(
            reason,
            number,
            tuple((s["source_file"], s["source_line"], _cut(s["text"])) for s in first[reason]),
        )
        for reason, number in sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    )


def _cut(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _SAMPLE_LENGTH_MAX else f"{text[: _SAMPLE_LENGTH_MAX - 1]}…"
