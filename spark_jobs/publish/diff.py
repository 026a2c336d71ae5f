"""Two audits side by side: of two days, or of one log by two versions of this program.

They are compared, and told as plain text or as one object for other programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.judge.decision_counts import VerdictCounts, count_decisions, verdict_counts
from spark_jobs.judge.throttles import throttled_by_second
from spark_jobs.publish.facts.news import problem_name
from spark_jobs.publish.follow.changes import Change, DayFindings, Status
from spark_jobs.publish.follow.problem import problems_of
from spark_jobs.publish.read_facts import changes_on
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS, SensorKey
from spark_jobs.warehouse.read import program_of, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import VERDICTS, counted, entity_name, in_words
from spark_jobs.wording.numbers import count, duration
from spark_jobs.wording.visible_text import shortened, visible

EXAMPLES_MAX = 10
_KEY = [*ENTITY_COLUMNS, "source_file", "source_line"]
_ORDER = ["source_file", "source_line", *ENTITY_COLUMNS, "place"]
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
        differing = joined.filter(_is_other(joined))
        for row in differing.sort_by([(name, "ascending") for name in _ORDER]).to_pylist():
            yield ChangedDecision(
                broker_id,
                *(row[name] for name in _KEY),
                *(_said(row, side) for side in ("before", "after")),
            )


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


LISTED_MAX = 10
_NAMED = {
    Status.NEW: "only in the second",
    Status.GONE: "only in the first",
    Status.STILL: "in both",
}


def diff_text(diff: Diff) -> str:
    """Return the differences as text, the decisions of the same log first."""
    lines = [f"first:  {_audit(diff.before)}", f"second: {_audit(diff.after)}", ""]
    lines += _decision_lines(diff)
    lines += ["", *_verdict_lines(diff), "", *_finding_lines(diff), "", *_throttle_lines(diff)]
    return "\n".join(lines) + "\n"


def diff_object(diff: Diff) -> dict[str, Any]:
    """Return the differences for JSON; ``changed`` is null where the logs are not the same."""
    changed = [
        {"before": before, "after": after, "decisions": number}
        for (before, after), number in sorted((diff.changed or {}).items())
    ]
    return {
        "before": _side_object(diff.before),
        "after": _side_object(diff.after),
        "is_same_log": diff.is_same_log,
        "changed": changed if diff.is_same_log else None,
        "examples": [asdict(one) for one in diff.examples],
        "problems": [_problem_object(change) for change in diff.problems],
    }


def _audit(side: Side) -> str:
    scope = side.scope
    run = f", run {scope.run}" if scope.run else ""
    by = f", by quota-audit {side.program}" if side.program else ""
    return (
        f"{scope.cluster} {scope.day} in {scope.warehouse}{run}: {count(side.requests)} requests, "
        f"{counted(side.verdicts.decided, 'decision')}{by}"
    )


def _decision_lines(diff: Diff) -> Iterator[str]:
    if not diff.is_same_log:
        yield "Not the same log: decisions are not compared one by one."
        return
    if not diff.changed_decisions:
        yield "The same log, and every decision is the same."
        return
    yield f"The same log; {counted(diff.changed_decisions, 'decision')} not the same:"
    for (before, after), number in sorted((diff.changed or {}).items(), key=lambda one: -one[1]):
        words = f"{in_words(before, VERDICTS)} → {in_words(after, VERDICTS)}"
        if before == after:
            words += ", by another arithmetic"
        yield f"  {count(number):>12}  {words}"
    yield "for example"
    yield from (f"  {_example(one)}" for one in diff.examples)


def _example(one: ChangedDecision) -> str:
    line = f"{shortened(visible(one.source_file))}:{one.source_line}"
    whose = entity_name(one.quota_user, one.quota_client_id)
    return (
        f"{line}, {one.quota_type} of {whose} on broker {one.broker_id}: "
        f"{_replayed(one.before)} → {_replayed(one.after)}"
    )


def _replayed(said: Any) -> str:
    if said is None:
        return "no decision"
    throttle_ms = said["replayed_throttle_time_ms"]
    replayed = "" if throttle_ms is None else f", {count(throttle_ms)} ms"
    why = f" ({said['reason']})" if said["reason"] else ""
    return f"{said['verdict']}{why}{replayed} (logged {count(said['logged_throttle_time_ms'])} ms)"


def _verdict_lines(diff: Diff) -> Iterator[str]:
    sides = diff.before.verdicts.by_verdict, diff.after.verdicts.by_verdict
    yield f"{'Decisions':<28}{'first':>14}{'second':>14}{'difference':>14}"
    for verdict in [name for name in VERDICTS if any(name in side for side in sides)]:
        one, other = (side.get(verdict, 0) for side in sides)
        more = f"{other - one:+,}" if other != one else "0"
        yield f"  {in_words(verdict, VERDICTS):<26}{count(one):>14}{count(other):>14}{more:>14}"


def _finding_lines(diff: Diff) -> Iterator[str]:
    if not diff.problems:
        yield "Findings: none in either"
        return
    yield "Findings"
    for change in diff.problems[:LISTED_MAX]:
        said = _NAMED.get(change.status, str(change.status))
        level = change.problem.level
        now = f"{counted(level.decisions, 'decision')}{_was(change)}"
        yield f"  {said}: {level.severity}  {problem_name(change)}, {now}"
    if len(diff.problems) > LISTED_MAX:
        yield f"  and {count(len(diff.problems) - LISTED_MAX)} more: --json has all"


def _was(change: Change) -> str:
    before = change.before
    is_in_both = change.status in (Status.WORSE, Status.STILL)
    if not is_in_both or before is None or before == change.problem.level:
        return ""
    return f", in the first {before.severity}, {counted(before.decisions, 'decision')}"


def _throttle_lines(diff: Diff) -> Iterator[str]:
    before, after = diff.before.throttle_time_ms, diff.after.throttle_time_ms
    differences = {
        sensor: after.get(sensor, 0) - before.get(sensor, 0) for sensor in {*before, *after}
    }
    changed = sorted(
        (sensor for sensor, more in differences.items() if more),
        key=lambda sensor: (-abs(differences[sensor]), sensor),
    )
    if not changed:
        yield "Throttled: the same clients for the same time"
        return
    yield f"{'Throttle time, first':>20}{'second':>12}{'difference':>12}"
    for sensor in changed[:LISTED_MAX]:
        one, other = before.get(sensor, 0), after.get(sensor, 0)
        sign = "+" if other > one else "-"
        more = sign + duration(abs(other - one))
        whose = f"{sensor.quota_type} of {entity_name(*sensor.tags)} on broker {sensor.broker_id}"
        yield f"{duration(one):>20}{duration(other):>12}{more:>12}  {whose}"
    if len(changed) > LISTED_MAX:
        yield f"  and {count(len(changed) - LISTED_MAX)} more"


def _side_object(side: Side) -> dict[str, Any]:
    scope = side.scope
    return {
        "warehouse": str(scope.warehouse),
        "cluster": scope.cluster,
        "day": scope.day.isoformat(),
        "run": scope.run,
        "program": side.program,
        "requests": side.requests,
        "verdicts": dict(side.verdicts.by_verdict),
        "throttle_time_ms": sum(side.throttle_time_ms.values()),
    }


def _problem_object(change: Change) -> dict[str, Any]:
    problem = change.problem
    return {
        "finding_id": problem.problem_id,
        "status": str(change.status),
        **problem.sensor._asdict(),
        "kind": problem.kind,
        "severity": problem.level.severity,
        "decisions": problem.level.decisions,
        "decisions_before": change.before and change.before.decisions,
    }
