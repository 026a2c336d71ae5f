"""Findings: wrong decisions of one sensor gathered into intervals, said in a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.judge.causes.finding_id import finding
from spark_jobs.judge.causes.known_faults import known_fault
from spark_jobs.judge.causes.sentences import explain, explain_hypothesis
from spark_jobs.judge.causes.stretch_findings import ExplainedStretch, gathered
from spark_jobs.judge.causes.stretches import maximal_runs
from spark_jobs.quota.sensor_key import SensorKey

# Wrong decisions further apart than this are two things to look at.
INTERVAL_GAP_MS = 60_000
# Enforcement is absent, not merely wrong, when at most this share of what was due happened.
NOT_ENFORCED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class SensorSecond:
    """What one sensor did in one second; counts of decisions with a bound in force."""

    key: SensorKey
    second_ms: int
    decisions: int
    due: int  # the rule throttles or refuses
    enforced: int  # of those, the broker throttled or refused too
    under_throttled: int
    over_throttled: int
    wrongly_admitted: int
    wrongly_refused: int
    unbound_throttled: int  # throttled although no bound was in force
    agreeing: int  # throttled, or due to be, and as the rule says
    open_under_throttled: int  # throttled for less than the rule says, which proves nothing
    open_over_throttled: int
    bound_min: float | None
    bound_max: float | None
    logged_throttle_time_ms: int
    replayed_throttle_time_ms: int
    difference_max_ms: int

    def wrong(self, kind: str) -> int:
        """Return the decisions of this second that ``kind`` counts."""
        own: int = getattr(self, kind)
        return own + (self.unbound_throttled if kind == "over_throttled" else 0)

    def undecided(self, kind: str) -> int:
        """Return the decisions of this second that deviate as those of ``kind``, without proof."""
        return int(getattr(self, f"open_{kind}", 0))


@dataclass(frozen=True, slots=True)
class Interval:
    """Neighbouring seconds of one sensor with the same kind of wrong decision.

    It begins and ends with those that deviate in the same way, whether that is proven or not.
    """

    key: SensorKey
    kind: str
    from_ms: int
    until_ms: int
    evidence: Mapping[str, Any]

    @property
    def decisions(self) -> int:
        """Return the number of wrong decisions of the interval."""
        return int(self.evidence["wrong_decisions"])


KINDS = ("wrongly_admitted", "wrongly_refused", "under_throttled", "over_throttled")


def find(
    seconds: Iterable[SensorSecond],
    *,
    cluster: str,
    versions: Mapping[int, str | None],
    min_decisions: int,
    stretches: Iterable[ExplainedStretch] = (),
) -> list[dict[str, Any]]:
    """Return the rows of the ``findings`` table, worst first.

    ``versions`` is the broker version where known, to name a known fault. Fewer wrong decisions
    than ``min_decisions`` are reported as ``info``: seen, but not enough to act on. Up to half of
    them may be some that only deviate in the same way. Wrong decisions inside one of ``stretches``
    whose cause is a fault are that finding's, not one of their own.
    """
    explained: dict[SensorKey, list[ExplainedStretch]] = defaultdict(list)
    for stretch in stretches:
        explained[stretch.key].append(stretch)
    by_sensor: dict[SensorKey, list[SensorSecond]] = defaultdict(list)
    for second in seconds:
        if not any(stretch.covers(second.second_ms) for stretch in explained[second.key]):
            by_sensor[second.key].append(second)
    rows: list[dict[str, Any]] = []
    for key in sorted(
        by_sensor.keys() | explained.keys(),
        key=lambda k: (k.quota_type, k.quota_user, k.quota_client_id, k.broker_id),
    ):
        ordinal: dict[str, int] = defaultdict(int)
        for stretch in gathered(explained[key]):
            ordinal[stretch.kind] += 1
            rows.append(_stretch_row(stretch, ordinal[stretch.kind], cluster, versions))
        history = sorted(by_sensor[key], key=lambda s: s.second_ms)
        for interval in _intervals(history):
            ordinal[interval.kind] += 1
            rows.append(_row(interval, ordinal[interval.kind], cluster, versions, min_decisions))
    order = {"critical": 0, "warning": 1, "info": 2}
    rows.sort(key=lambda r: (order[r["severity"]], -r["decisions"], r["finding_id"]))
    return rows


def _intervals(history: list[SensorSecond]) -> Iterator[Interval]:
    for kind in KINDS:
        deviating = _deviating(history, kind)
        for run in _near(s for s in history if s.wrong(kind) or s.second_ms in deviating):
            yield _interval(kind, run, history)


def _near(seconds: Iterable[SensorSecond]) -> Iterator[list[SensorSecond]]:
    """Yield the seconds in runs, those within INTERVAL_GAP_MS of the one before together."""
    run: list[SensorSecond] = []
    for second in seconds:
        if run and second.second_ms - run[-1].second_ms > INTERVAL_GAP_MS:
            yield run
            run = []
        run.append(second)
    if run:
        yield run


def _deviating(history: list[SensorSecond], kind: str) -> set[int]:
    """Return the seconds (ms) of stretches in which more decisions deviate than agree.

    In each of them one is wrong for sure: the others tell when that began, and when it ended.
    """
    found: set[int] = set()
    for near in _near(history):
        scores = [s.wrong(kind) + s.undecided(kind) - s.agreeing for s in near]
        for first, end in maximal_runs(scores):
            if any(s.wrong(kind) for s in near[first:end]):
                found.update(s.second_ms for s in near[first:end])
    return found


def _interval(kind: str, run: list[SensorSecond], history: list[SensorSecond]) -> Interval:
    from_ms, until_ms = run[0].second_ms, run[-1].second_ms + 1000
    open_decisions = sum(s.undecided(kind) for s in history if from_ms <= s.second_ms < until_ms)
    run = [s for s in run if s.wrong(kind)]
    inside = [s for s in history if run[0].second_ms <= s.second_ms <= run[-1].second_ms]
    bounds = [b for s in inside for b in (s.bound_min, s.bound_max) if b is not None]
    due, enforced = sum(s.due for s in inside), sum(s.enforced for s in inside)
    evidence = {
        "wrong_decisions": sum(s.wrong(kind) for s in run),
        "decisions": sum(s.decisions for s in inside),
        "due": due,
        "enforced": enforced,
        "unbound_throttled": sum(s.unbound_throttled for s in inside),
        "bound_min": min(bounds, default=None),
        "bound_max": max(bounds, default=None),
        "logged_throttle_time_ms": sum(s.logged_throttle_time_ms for s in inside),
        "replayed_throttle_time_ms": sum(s.replayed_throttle_time_ms for s in inside),
        "difference_max_ms": max(s.difference_max_ms for s in run),
        "open_decisions": open_decisions,
    }
    too_lenient = kind in ("wrongly_admitted", "under_throttled")
    if too_lenient and due and enforced <= due * NOT_ENFORCED_SHARE:
        kind = "not_enforced"
    return Interval(run[0].key, kind, from_ms, until_ms, evidence)


def _row(
    interval: Interval,
    ordinal: int,
    cluster: str,
    versions: Mapping[int, str | None],
    min_decisions: int,
) -> dict[str, Any]:
    key = interval.key
    fault = known_fault(interval.kind, key.quota_type, versions.get(key.broker_id))
    evidence = {**interval.evidence, "known_fault": fault.key if fault else None}
    return finding(
        cluster,
        key,
        interval.kind,
        ordinal,
        evidence,
        from_ms=interval.from_ms,
        until_ms=interval.until_ms,
        decisions=interval.decisions,
        severity=_severity(interval, min_decisions),
        explanation=explain(interval.kind, key, interval.evidence, fault),
    )


def _stretch_row(
    stretch: ExplainedStretch, ordinal: int, cluster: str, versions: Mapping[int, str | None]
) -> dict[str, Any]:
    key = stretch.key
    is_removed = stretch.evidence["configured_bound"] is None
    sign = "removed_but_enforced" if is_removed else stretch.kind
    fault = known_fault(sign, key.quota_type, versions.get(key.broker_id))
    evidence = {**stretch.evidence, "known_fault": fault.key if fault else None}
    severity = "critical" if stretch.kind == "not_enforced" else "warning"
    return finding(
        cluster,
        key,
        stretch.kind,
        ordinal,
        evidence,
        from_ms=stretch.from_ms,
        until_ms=stretch.until_ms,
        decisions=max(stretch.evidence["explained"], 1),
        severity=severity if stretch.is_fault else "info",
        explanation=explain_hypothesis(stretch, fault),
        hypothesis=stretch.hypothesis,
        hypothesis_share=stretch.share,
        runner_up=stretch.runner_up,
        runner_up_share=stretch.runner_up_share,
        estimated_bound=stretch.estimated_bound,
    )


def _severity(interval: Interval, min_decisions: int) -> str:
    wrong = interval.decisions
    # What deviates in the same way counts beside as many that are wrong for sure.
    if wrong + min(wrong, interval.evidence["open_decisions"]) < min_decisions:
        return "info"
    return "critical" if interval.kind == "not_enforced" else "warning"
