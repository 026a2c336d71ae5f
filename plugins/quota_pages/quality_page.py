"""The page of a day's data quality: rules that do not hold, lines that could not be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quota_pages.page import Place, render
from spark_jobs.publish.facts.quality import (
    CheckedTable,
    RuleResult,
    StageQuality,
    total_lines,
    worst_quality,
)
from spark_jobs.publish.read_facts import lines_of_files, quarantine_reasons, stage_of
from spark_jobs.quota.codes import severity_rank
from spark_jobs.warehouse.pipeline import AUDIT_STAGES, STAGES, WRITES
from spark_jobs.warehouse.runs import published_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.numbers import NONE, iso
from spark_jobs.wording.visible_text import shortened, visible

FILES_MAX = 200
_VALUE_LENGTH_MAX = 200
_LONG_VALUE = 40
# No length of time in a log is three years: what is larger is a moment.
_EPOCH_MS_MIN = 1e11
COMMANDS = {
    stage: tuple(name for name, tables in WRITES.items() if not set(tables).isdisjoint(checked))
    for stage, checked in STAGES.items()
}
"""The commands that write the tables of a stage."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a row that breaks a rule; ``exact`` is what the table holds."""

    text: str
    exact: str
    is_long: bool


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that does not hold, or tolerates rows that break it, with the first of them."""

    table: str
    rows: int
    rule: RuleResult
    columns: tuple[str, ...]
    sample: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class StagePart:
    """What one stage's validation found; ``docs`` are the files of its Data Docs that exist."""

    quality: StageQuality
    steps: tuple[str, ...]
    broken: tuple[BrokenRule, ...]
    tolerated: tuple[BrokenRule, ...]
    docs: frozenset[str]


def shown_run(day: RunScope) -> RunScope:
    """Return the run whose quality is shown: the published one, or one whose data kept it back."""
    published, newest = day.pinned(), day.newest()
    found = worst_quality(tuple(stage_of(newest, stage) for stage in AUDIT_STAGES))
    return newest if published.run is None or found in ("failed", "broken") else published


def quality_page(place: Place, scope: RunScope) -> str | None:
    """Return the page of the day's data quality; None where nothing was read or validated."""
    folder = scope.output_dir("data_quality")
    # Of every audit, and the others that were validated.
    there = (s for s in STAGES if s in AUDIT_STAGES or (folder / f"{s}.json").is_file())
    stages = [_stage(scope, stage) for stage in there]
    files = lines_of_files(scope)
    if not files and not any(stage.quality.tables for stage in stages):
        return None
    return render(
        "quality_page.html.j2",
        place,
        other_run=published_run(scope.runs) not in (None, scope.run),
        stages=stages,
        # Files with lost lines come first: they are what one looks for.
        files=sorted(files, key=lambda file: (file.lost == 0, file.source_file)),
        files_max=FILES_MAX,
        lines=total_lines(files),
        quarantine=quarantine_reasons(scope),
        shortened=shortened,
    )


def _stage(scope: RunScope, stage: str) -> StagePart:
    quality = stage_of(scope, stage)
    tolerated = [(t, r) for t in quality.tables for r in t.rules if r.holds and r.failed_rows]
    pages = scope.output_dir("data_docs") / stage
    return StagePart(
        quality=quality,
        steps=COMMANDS[stage],
        broken=_rules(quality.broken_rules),
        tolerated=_rules(tolerated),
        docs=frozenset(path.name for path in pages.glob("*.html")),
    )


def _rules(rules: Sequence[tuple[CheckedTable, RuleResult]]) -> tuple[BrokenRule, ...]:
    """Return ``rules`` with their rows in words: broken checks first, then the worst ones."""
    ranked = sorted(
        rules, key=lambda pair: (pair[1].error is None, severity_rank(pair[1].severity))
    )
    found = []
    for table, rule in ranked:
        columns = tuple(dict.fromkeys(name for row in rule.sample for name in row))
        sample = tuple(tuple(_value(row, name) for name in columns) for row in rule.sample)
        found.append(BrokenRule(table.table, table.rows, rule, columns, sample))
    return tuple(found)


def _value(row: Mapping[str, Any], name: str) -> Value:
    value = row.get(name)
    if value is None:
        return Value(NONE, "no value", is_long=False)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and name.endswith("_ms") and abs(value) >= _EPOCH_MS_MIN:
        return Value(_moment(value), str(value), is_long=False)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = shortened(visible(text), _VALUE_LENGTH_MAX)
    # An empty text and no text at all are not the same.
    return Value(shown or '""', shown or "empty", is_long=len(shown) > _LONG_VALUE)


def _moment(milliseconds: float) -> str:
    try:
        return iso(round(milliseconds))
    except OverflowError:
        return str(milliseconds)
