"""Two audits side by side: of two days, or of one log by two versions of this program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.judge.decision_counts import VerdictCounts, count_decisions, verdict_counts
from spark_jobs.judge.throttles import throttled_by_second
from spark_jobs.publish.follow.changes import Change, DayFindings
from spark_jobs.publish.follow.problem import problems_of
from spark_jobs.publish.read_facts import changes_on
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS, SensorKey
from spark_jobs.warehouse.read import program_of, read_table
from spark_jobs.warehouse.scope import RunScope

EXAMPLES_MAX = 10
_KEY = [*ENTITY_COLUMNS, "source_file", "source_line"]
_SAID = ["verdict", "reason", "replayed_throttle_time_ms"]
_COMPARED = [*_KEY, "sensor_seq", *_SAID, "logged_throttle_time_ms"]


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """A decision on which two audits of one log differ; None: that audit does not have it."""

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str
    source_file: str
    source_line: int
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two audits."""

    scope: RunScope
    requests: int
    verdicts: VerdictCounts
    throttle_time_ms: Mapping[SensorKey, int]
    """As the brokers logged it, of sensors that throttled anybody."""
    program: str | None = None
    """Version of this program that decided; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs from ``before`` to ``after``.

    ``changed`` are decisions of the same log by the change of their verdict, with some examples;
    None where the logs are not the same.
    """

    before: Side
    after: Side
    problems: Sequence[Change]
    changed: Mapping[tuple[str, str], int] | None
    examples: Sequence[ChangedDecision]

    @property
    def is_same_log(self) -> bool:
        """Return True if both audits read the same lines."""
        return self.changed is not None

    @property
    def changed_decisions(self) -> int:
        """Return the number of decisions of the same log that differ."""
        return sum((self.changed or {}).values())


def diff_of(before: RunScope, after: RunScope) -> Diff:
    """Return the differences between two audits, each as its run has it."""
    changed: dict[tuple[str, str], int] | None = None
    examples: list[ChangedDecision] = []
    if _is_same_log(before, after):
        changed = {}
        for one in _changed_decisions(before, after):
            kind = _verdict(one.before), _verdict(one.after)
            changed[kind] = changed.get(kind, 0) + 1
            if len(examples) < EXAMPLES_MAX:
                examples.append(one)
    problems = changes_on(_findings(before, after))
    return Diff(_side(before), _side(after), problems, changed, examples)


def _verdict(said: Mapping[str, Any] | None) -> str:
    return "no decision" if said is None else str(said["verdict"])


def _side(scope: RunScope) -> Side:
    seconds = throttled_by_second(scope)
    totals = seconds.group_by(list(SENSOR_COLUMNS)).aggregate([("throttle_time_ms", "sum")])
    requests = pc.sum(
        read_table(scope, "files", ["requests"], of_any_version=True)["requests"]
    ).as_py()
    return Side(
        scope,
        requests or 0,
        verdict_counts(count_decisions(scope)),
        {SensorKey.of(row): row["throttle_time_ms_sum"] for row in totals.to_pylist()},
        program_of(scope),
    )


def _findings(*scopes: RunScope) -> list[DayFindings]:
    # One cluster for both, so that the same problem has the same id.
    cluster = scopes[-1].cluster
    found = [problems_of(read_table(one, "findings").to_pylist(), cluster) for one in scopes]
    # What only one of the audits has is new or gone, whether or not there were requests of it.
    seen = frozenset(problem.sensor for problems in found for problem in problems.values())
    return [
        DayFindings(scope.day, problems, seen)
        for scope, problems in zip(scopes, found, strict=True)
    ]


def _is_same_log(before: RunScope, after: RunScope) -> bool:
    """Return True if two audits read the same lines of their days.

    Older versions noted no digest of a day's lines: then the whole files have to be the same.
    """
    columns = ["broker_id", "day_digest", "digest"]
    sides = [
        read_table(scope, "files", columns, of_any_version=True).to_pylist()
        for scope in (before, after)
    ]
    said_by_all = all(row["day_digest"] is not None for side in sides for row in side)
    told = "day_digest" if said_by_all else "digest"
    one, other = ({(row["broker_id"], row[told]) for row in side} for side in sides)
    return one == other


def _changed_decisions(before: RunScope, after: RunScope) -> Iterator[ChangedDecision]:
    """Yield, a broker at a time, the decisions of one log that are not the same."""
    for broker_id in sorted(_brokers(before) | _brokers(after)):
        sides = [_decisions(scope, broker_id) for scope in (before, after)]
        if sides[0].equals(sides[1]):
            continue
        joined = sides[0].join(
            sides[1],
            keys=[*_KEY, "place"],
            join_type="full outer",
            left_suffix="_before",
            right_suffix="_after",
        )
        for row in joined.filter(_is_other(joined)).sort_by(_in_order()).to_pylist():
            yield ChangedDecision(
                broker_id,
                *(row[name] for name in _KEY),
                *(_said(row, side) for side in ("before", "after")),
            )


def _in_order() -> list[tuple[str, str]]:
    names = ("source_file", "source_line", "quota_type", "quota_user", "quota_client_id", "place")
    return [(name, "ascending") for name in names]


def _is_other(joined: pa.Table) -> pa.ChunkedArray:
    is_other = None
    for name in _SAID:
        one, other = joined[f"{name}_before"], joined[f"{name}_after"]
        nulls = pc.xor(pc.is_null(one), pc.is_null(other))
        differs = pc.or_(nulls, pc.fill_null(pc.not_equal(one, other), False))
        is_other = differs if is_other is None else pc.or_(is_other, differs)
    return is_other


def _said(row: Mapping[str, Any], side: str) -> dict[str, Any] | None:
    if row[f"verdict_{side}"] is None:
        return None
    return {name: row[f"{name}_{side}"] for name in (*_SAID, "logged_throttle_time_ms")}


def _decisions(scope: RunScope, broker_id: int) -> pa.Table:
    """Return a broker's decisions; ``place`` numbers those of one sensor and line from 0."""
    rows = read_table(scope, "decisions", _COMPARED, ds.field("broker_id") == broker_id)
    order = [(name, "ascending") for name in (*_KEY, "sensor_seq")]
    rows = rows.sort_by(order).combine_chunks()
    is_first = np.ones(len(rows), bool)
    for place, name in enumerate(_KEY):
        column = rows[name].combine_chunks()
        differs = pc.not_equal(column.slice(1), column.slice(0, max(len(rows) - 1, 0)))
        found = differs.to_numpy(zero_copy_only=False)
        is_first[1:] = found if place == 0 else is_first[1:] | found
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(rows)), 0))
    place_of = pa.array(np.arange(len(rows)) - starts)
    return rows.drop_columns(["sensor_seq"]).append_column("place", place_of)


def _brokers(scope: RunScope) -> set[int]:
    return set(read_table(scope, "brokers", ["broker_id"])["broker_id"].to_pylist())
