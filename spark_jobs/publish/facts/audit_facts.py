"""What one run found, and the first sentences of it: what page and terminal both say."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.judge.decision_counts import (
    DecisionCount,
    SensorUse,
    VerdictCounts,
)
from spark_jobs.judge.log_span import Broker
from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.findings import Finding, by_severity
from spark_jobs.publish.facts.news import News
from spark_jobs.publish.facts.proposals import (
    ChangeResult,
    ProposedQuota,
)
from spark_jobs.publish.facts.quality import LinesOfFile, StageQuality
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import counted, entity_name, plural
from spark_jobs.wording.numbers import count, duration, share


@dataclass(frozen=True, slots=True)
class SensorAgreement:
    """One sensor's row of ``tables.AGREEMENT``; counts of decisions."""

    sensor: SensorKey
    decisions: int
    same_decision: int
    throttles: int
    within_1ms: int
    residual_max_ms: int
    proven: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The sensors that throttled or should have, the least explained first."""

    sensors: tuple[SensorAgreement, ...]

    @property
    def throttles(self) -> int:
        """Return the number of throttles that were compared."""
        return sum(each.throttles for each in self.sensors)

    @property
    def within_1ms(self) -> int:
        """Return the number of compared throttles that the replay gives to the millisecond."""
        return sum(each.within_1ms for each in self.sensors)


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """One run's facts; ``span_ms`` is the log's first and last request in epoch ms.

    ``team``: those of one owner's clients only; None: of all.
    """

    scope: RunScope
    brokers: tuple[Broker, ...]
    span_ms: tuple[int, int] | None
    counted: tuple[DecisionCount, ...]
    verdicts: VerdictCounts
    findings: tuple[Finding, ...]
    uses: dict[SensorKey, SensorUse]
    throttled: tuple[ThrottledSensor, ...]
    throttled_by_second: pa.Table
    proposals: tuple[ProposedQuota, ...]
    stages: tuple[StageQuality, ...]
    files: tuple[LinesOfFile, ...]
    agreement: Agreement
    news: News
    applied: tuple[ChangeResult, ...] = ()
    team: str | None = None

    def broker(self, broker_id: int) -> Broker | None:
        """Return the broker with this id, if it is known."""
        return next((b for b in self.brokers if b.broker_id == broker_id), None)

    @property
    def requests(self) -> int:
        """Return the number of requests in the log."""
        return sum(broker.requests for broker in self.brokers)

    @property
    def changes(self) -> tuple[ProposedQuota, ...]:
        """Return the recommendations that change a quota."""
        return tuple(p for p in self.proposals if p.status == "proposed")

    @property
    def never_throttled(self) -> tuple[SensorUse, ...]:
        """Return the uses of sensors with a quota and no throttle, the closest to it first."""
        held_back = {throttled.sensor for throttled in self.throttled}
        free = [u for s, u in self.uses.items() if u.decisions and s not in held_back]
        return tuple(sorted(free, key=lambda use: (-use.use_of_bound, use.sensor)))


_JUDGED_SHARE_MIN = 0.5


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer in a title and up to four sentences.

    ``mood`` is good, warning, critical or unknown.
    """

    mood: str
    title: str
    sentences: tuple[str, ...]


def headline(facts: AuditFacts) -> Headline:
    """Return the answer that findings and verdicts give."""
    if not facts.verdicts.decided:
        return _nothing_to_judge(facts)
    mood, title = _answer(facts.verdicts, facts.findings)
    sentences = (_verdicts(facts.verdicts), throttled_in_words(facts), _to_do(facts))
    failed = not_as_predicted(facts)
    if failed:
        return Headline("warning" if mood == "good" else mood, title, (failed, *sentences))
    return Headline(mood, title, sentences)


def not_as_predicted(facts: AuditFacts) -> str | None:
    """Return the sentence on applied changes that did not do what was predicted; None: none."""
    failed = [change for change in facts.applied if not change.is_kept]
    if not failed:
        return None
    first = failed[0]
    more = f" And {count(len(failed) - 1)} more, below." if len(failed) > 1 else ""
    return (
        f"{count(len(failed))} of {count(len(facts.applied))} applied "
        f"{plural(len(facts.applied), 'change')} did not do what was predicted: {first.entity}, "
        f"{first.quota_type}. {first.explanation}{more}"
    )


def _nothing_to_judge(facts: AuditFacts) -> Headline:
    requests = facts.requests
    if not requests:
        return Headline(
            "unknown",
            "Nothing to judge: the log holds no requests",
            ("No request of this cluster and day was read. Below is where the lines went.",),
        )
    if facts.throttled:
        return Headline(
            "warning",
            "Requests were throttled, but no quota is known",
            (
                throttled_in_words(facts),
                "Neither the log nor a snapshot sets a quota. If quotas were set before the log "
                "began, give them with --snapshot.",
            ),
        )
    return Headline(
        "unknown",
        "Nothing to judge: no quota was in force",
        (
            f"{counted(requests, 'request was', 'requests were')} read, but no "
            "quota was seen: neither the log nor a snapshot sets one.",
            "If quotas were set before the log began, give them with --snapshot.",
        ),
    )


def _answer(verdicts: VerdictCounts, findings: tuple[Finding, ...]) -> tuple[str, str]:
    severities = by_severity(findings)
    critical, warnings = severities.get("critical", 0), severities.get("warning", 0)
    if critical:
        not_enforced = sum(f.kind == "not_enforced" for f in findings if f.severity == "critical")
        if not_enforced == critical:
            return "critical", f"{counted(critical, 'quota was', 'quotas were')} not enforced"
        return "critical", counted(critical, "critical finding")
    if warnings:
        return "warning", f"Enforced as configured, except in {counted(warnings, 'case')}"
    if verdicts.judged < _JUDGED_SHARE_MIN * verdicts.decided:
        return "unknown", "This log cannot decide most of the decisions"
    if verdicts.wrong:
        return "good", "Enforced as configured, with differences too few to act on"
    if verdicts.indeterminate:
        return "good", "Every quota was enforced as configured, as far as the log tells"
    return "good", "Every quota was enforced as configured"


def _verdicts(verdicts: VerdictCounts) -> str:
    """Return the shares of what the log decides; what it cannot decide is beside them."""
    replayed = (
        f"{counted(verdicts.decided, 'decision')} of the brokers "
        f"{plural(verdicts.decided, 'was', 'were')} replayed"
    )
    if not verdicts.judged:
        return f"{replayed}, and none can be decided from this log."
    likely = f", {count(verdicts.likely)} of these by what is likely," if verdicts.likely else ""
    wrong = f"{_part(verdicts.wrong, verdicts)} {plural(verdicts.wrong, 'is', 'are')} wrong"
    told = (
        f"{_part(verdicts.agree, verdicts)} {plural(verdicts.agree, 'is', 'are')} as configured"
        f"{likely} and {wrong if verdicts.wrong else 'none is wrong'}."
    )
    if not verdicts.indeterminate:
        return f"{replayed}: {told}"
    open_ones = f"{count(verdicts.indeterminate)} cannot be decided from this log"
    return f"{replayed}; {open_ones}. Of the {count(verdicts.judged)} others, {told}"


def throttled_in_words(facts: AuditFacts) -> str:
    """Return the sentence on who was held back, how much, and who most."""
    if not facts.throttled:
        return "Nobody was throttled."
    clients = len({entity_name(*t.sensor.tags) for t in facts.throttled})
    requests = sum(t.requests for t in facts.throttled)
    total_ms = sum(t.throttle_time_ms for t in facts.throttled)
    worst = facts.throttled[0]
    sensor = worst.sensor
    by = f"{entity_name(*sensor.tags)} by {sensor.quota_type} on broker {sensor.broker_id}"
    who = (
        f"{counted(clients, 'client was', 'clients were')} throttled: "
        f"{counted(requests, 'request')}, {duration(total_ms)} of delay in total"
    )
    if len(facts.throttled) == 1:
        return f"{who}, {by}."
    return f"{who}; most of all {by} ({duration(worst.throttle_time_ms)})."


def _to_do(facts: AuditFacts) -> str:
    to_act = sum(f.severity != "info" for f in facts.findings)
    changes = len(facts.changes)
    found = f"{counted(to_act, 'finding needs', 'findings need')} a look"
    proposed = f"{counted(changes, 'quota is', 'quotas are')} proposed to change"
    if to_act and changes:
        return f"{found}, and {proposed}."
    if to_act:
        return f"{found}; no change of a quota is proposed."
    if changes:
        return f"Nothing needs a look; {proposed}."
    return "Nothing needs a look, and no change of a quota is proposed."


def _part(number: int, verdicts: VerdictCounts) -> str:
    return f"{count(number)} ({share(number, verdicts.judged)})"
