"""Two audits side by side, as plain text and as one object for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from spark_jobs.publish.diff import ChangedDecision, Diff, Side
from spark_jobs.publish.facts.news import problem_name
from spark_jobs.publish.follow.changes import Change, Status
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.wording.names import VERDICTS, counted, entity_name, in_words
from spark_jobs.wording.numbers import count, duration
from spark_jobs.wording.visible_text import shortened, visible

LISTED_MAX = 10
_NAMED = {Status.NEW: "only in the second", Status.GONE: "only in the first"}


def diff_text(diff: Diff) -> str:
    """Return the differences as text, the decisions of the same log first."""
    lines = [f"first:  {_audit(diff.before)}", f"second: {_audit(diff.after)}", ""]
    lines += _decisions(diff)
    lines += ["", *_verdicts(diff), "", *_findings(diff), "", *_throttled(diff)]
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


def _decisions(diff: Diff) -> Iterator[str]:
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
        f"{_said(one.before)} → {_said(one.after)}"
    )


def _said(said: Any) -> str:
    if said is None:
        return "no decision"
    throttle_ms = said["replayed_throttle_time_ms"]
    replayed = "" if throttle_ms is None else f", {count(throttle_ms)} ms"
    why = f" ({said['reason']})" if said["reason"] else ""
    return f"{said['verdict']}{why}{replayed} (logged {count(said['logged_throttle_time_ms'])} ms)"


def _verdicts(diff: Diff) -> Iterator[str]:
    sides = diff.before.verdicts.by_verdict, diff.after.verdicts.by_verdict
    yield f"{'Decisions':<28}{'first':>14}{'second':>14}{'difference':>14}"
    for verdict in [name for name in VERDICTS if any(name in side for side in sides)]:
        one, other = (side.get(verdict, 0) for side in sides)
        yield _row(in_words(verdict, VERDICTS), count(one), count(other), _more(other - one))


def _findings(diff: Diff) -> Iterator[str]:
    if not diff.problems:
        yield "Findings: none in either"
        return
    yield "Findings"
    for change in diff.problems[:LISTED_MAX]:
        said = _NAMED.get(change.status, str(change.status))
        if change.status is Status.STILL:
            said = "in both"
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


def _throttled(diff: Diff) -> Iterator[str]:
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
        yield f"{duration(one):>20}{duration(other):>12}{more:>12}  {_whose(sensor)}"
    if len(changed) > LISTED_MAX:
        yield f"  and {count(len(changed) - LISTED_MAX)} more"


def _whose(sensor: SensorKey) -> str:
    return f"{sensor.quota_type} of {entity_name(*sensor.tags)} on broker {sensor.broker_id}"


def _row(name: str, one: str, other: str, more: str) -> str:
    return f"  {name:<26}{one:>14}{other:>14}{more:>14}"


def _more(difference: int) -> str:
    sign = {True: "+", False: "-"}[difference > 0] if difference else ""
    return f"{sign}{count(abs(difference))}"


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
