"""A day's numbers for Prometheus: as text in the OpenMetrics format."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.follow.changes import Status
from spark_jobs.quota.codes import SEVERITIES, VERDICTS
from spark_jobs.wording.visible_text import shortened, visible

METRICS_NAME = "metrics.prom"
ENTITIES_MAX = 1000
"""Each entity is a time series, and clients can name themselves as they like."""
_ENTITY = ("quota_type", "user", "client_id")
_OTHERS = ("other", "other")
_DATA_QUALITY = ("passed", "warnings", "not validated", "failed", "broken")


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
    decided = verdicts.agree + verdicts.wrong
    if decided:
        agreement = _gauge(registry, "agreement_ratio", "Decisions as configured, of those judged.")
        agreement.labels(cluster).set(verdicts.agree / decided)
    quality = _gauge(registry, "data_quality", "1: the outcome of validation.", "outcome")
    for outcome in _DATA_QUALITY:
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


def _by_entity(throttled: tuple[ThrottledSensor, ...]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return throttle ms and requests by entity over all brokers; the least are one per type."""
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for one in throttled:
        sensor = one.sensor
        total = found[sensor.quota_type, _label(sensor.quota_user), _label(sensor.quota_client_id)]
        total[0] += one.throttle_time_ms
        total[1] += one.requests
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    kept = {entity: (total[0], total[1]) for entity, total in ordered[:ENTITIES_MAX]}
    for (quota_type, *_), total in ordered[ENTITIES_MAX:]:
        others = (quota_type, *_OTHERS)
        before = kept.get(others, (0, 0))
        kept[others] = (before[0] + total[0], before[1] + total[1])
    return kept


def _label(name: str) -> str:
    return shortened(visible(name))
