"""What a run found in numbers: in a small file for lists of runs, and as metrics for Prometheus."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts, headline
from spark_jobs.publish.facts.findings import by_severity
from spark_jobs.publish.facts.quality import WORST_LAST, worst_quality
from spark_jobs.publish.follow.changes import Status
from spark_jobs.quota.codes import SEVERITIES, VERDICTS
from spark_jobs.warehouse.read import program_of
from spark_jobs.warehouse.storage import is_irregular
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.visible_text import shortened, visible

OUTCOME_NAME = "audit.json"


class AuditOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One audited day in numbers."""

    cluster: str
    day: str
    # The run of Airflow, if it was one.
    dag_run_id: str | None = None
    # Version of this program that decided; None in older files.
    program: str | None = None
    mood: str  # good, warning, critical, unknown
    title: str
    brokers: int
    requests: int
    decisions: int  # with a bound in force
    agree: int
    indeterminate: int
    wrong: int
    throttles: int
    throttles_within_1ms: int
    throttled_clients: int
    throttled_requests: int
    throttle_time_ms: int
    findings: dict[str, int]  # by severity
    proposals: int
    data_quality: str  # the worst of the stages: passed, warnings, failed, broken, not validated
    broken_rules: int
    # Problems beside those of the audited day before; 0 in older files.
    new: int = 0
    worse: int = 0
    gone: int = 0


def outcome_of(facts: AuditFacts, dag_run_id: str | None) -> AuditOutcome:
    """Return ``facts`` as the numbers of :class:`AuditOutcome`."""
    answer = headline(facts)
    return AuditOutcome(
        cluster=facts.scope.cluster,
        day=facts.scope.day.isoformat(),
        dag_run_id=dag_run_id,
        program=program_of(facts.scope),
        mood=answer.mood,
        title=answer.title,
        brokers=len(facts.brokers),
        requests=facts.requests,
        decisions=facts.verdicts.decided,
        agree=facts.verdicts.agree,
        indeterminate=facts.verdicts.indeterminate,
        wrong=facts.verdicts.wrong,
        throttles=facts.agreement.throttles,
        throttles_within_1ms=facts.agreement.within_1ms,
        throttled_clients=len({entity_name(*one.sensor.tags) for one in facts.throttled}),
        throttled_requests=sum(one.requests for one in facts.throttled),
        throttle_time_ms=sum(one.throttle_time_ms for one in facts.throttled),
        findings=by_severity(facts.findings),
        proposals=len(facts.changes),
        data_quality=worst_quality(facts.stages),
        broken_rules=sum(len(stage.broken_rules) for stage in facts.stages),
        new=len(facts.news.of(Status.NEW)),
        worse=len(facts.news.of(Status.WORSE)),
        gone=len(facts.news.of(Status.GONE)),
    )


def outcome_text(outcome: AuditOutcome) -> str:
    """Return the outcome as JSON, the same text for the same outcome."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode() + "\n"


def read_outcome(path: Path) -> AuditOutcome | None:
    """Return the outcome that :func:`outcome_text` wrote; None where missing or not readable."""
    if is_irregular(path):
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=AuditOutcome)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


METRICS_NAME = "metrics.prom"
ENTITIES_MAX = 1000
"""Each entity is a time series, and clients can name themselves as they like."""
_ENTITY = ("quota_type", "user", "client_id")
_OTHERS = ("other", "other")


def metrics_text(facts: AuditFacts) -> str:
    """Return gauges of the day: decisions, agreement, findings, throttle seconds by entity."""
    registry = CollectorRegistry()
    _write_audit(facts, registry)
    _write_findings(facts, registry)
    _write_throttles(facts, registry)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode("utf-8")


def _gauge(registry: CollectorRegistry, name: str, meaning: str, *labels: str) -> Gauge:
    return Gauge(f"quota_audit_{name}", meaning, ("cluster", *labels), registry=registry)


def _write_audit(facts: AuditFacts, registry: CollectorRegistry) -> None:
    cluster, verdicts = facts.scope.cluster, facts.verdicts
    begin = dt.datetime.combine(facts.scope.day, dt.time(), dt.UTC).timestamp()
    day = _gauge(registry, "day_timestamp_seconds", "Begin of the UTC day that was audited last.")
    day.labels(cluster).set(begin)
    decisions = _gauge(registry, "decisions", "Replayed decisions of the day.", "verdict")
    for verdict in VERDICTS:
        decisions.labels(cluster, verdict).set(verdicts.by_verdict.get(verdict, 0))
    if verdicts.judged:
        agreement = _gauge(registry, "agreement_ratio", "Decisions as configured, of those judged.")
        agreement.labels(cluster).set(verdicts.agree / verdicts.judged)
    quality = _gauge(registry, "data_quality", "1: the outcome of validation.", "outcome")
    for outcome in WORST_LAST:
        quality.labels(cluster, outcome).set(outcome == facts.news.data_quality)


def _write_findings(facts: AuditFacts, registry: CollectorRegistry) -> None:
    problems = _gauge(
        registry, "problems", "Faults of sensors, by what became of them.", "severity", "status"
    )
    counted = Counter(
        (change.problem.level.severity, "acknowledged" if change.acknowledged else change.status)
        for change in facts.news.changes
    )
    for severity in SEVERITIES:
        for status in (*Status, "acknowledged"):
            number = counted[severity, status]
            problems.labels(facts.scope.cluster, severity, status.replace(" ", "_")).set(number)


def _write_throttles(facts: AuditFacts, registry: CollectorRegistry) -> None:
    seconds = _gauge(registry, "throttle_seconds", "Throttle time of the day.", *_ENTITY)
    requests = _gauge(registry, "throttled_requests", "Requests throttled or refused.", *_ENTITY)
    for (quota_type, *names), (time_ms, number) in _by_entity(facts.throttled).items():
        labels = (facts.scope.cluster, quota_type, *names)
        seconds.labels(*labels).set(time_ms / 1000)
        requests.labels(*labels).set(number)


def _by_entity(throttled: tuple[ThrottledSensor, ...]) -> dict[tuple[str, ...], list[int]]:
    """Return throttle ms and requests by entity over all brokers; the least are one per type."""
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for one in throttled:
        sensor = one.sensor
        total = found[sensor.quota_type, _label(sensor.quota_user), _label(sensor.quota_client_id)]
        total[0] += one.throttle_time_ms
        total[1] += one.requests
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    kept: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for rank, (entity, (time_ms, requests)) in enumerate(ordered):
        total = kept[entity if rank < ENTITIES_MAX else (entity[0], *_OTHERS)]
        total[0] += time_ms
        total[1] += requests
    return kept


def _label(name: str) -> str:
    return shortened(visible(name))
