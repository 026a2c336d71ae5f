"""What one run found, read from its published tables and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow.dataset as ds

from spark_jobs.judge.decision_counts import count_decisions, sensor_uses, verdict_counts
from spark_jobs.judge.log_span import brokers_of, span_of
from spark_jobs.judge.throttles import (
    throttled_by_second,
    throttled_sensors,
)
from spark_jobs.publish.facts.audit_facts import Agreement, AuditFacts, SensorAgreement
from spark_jobs.publish.facts.findings import Finding, evidence_items, finding_of, severity_rank
from spark_jobs.publish.facts.proposals import FILES, ChangeResult, Proposal
from spark_jobs.publish.facts.timelines import (
    EntityTimeline,
    SensorHistory,
    quota_timelines,
    thinned,
)
from spark_jobs.publish.read_news import news_of
from spark_jobs.publish.read_quality import (
    lines_of_files,
    stages_of,
)
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.warehouse.read import read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.wording.visible_text import visible

_AGREEMENT = [
    "decisions", "same_decision", "throttles", "within_1ms", "residual_max_ms", "proven",
]  # fmt: skip
_HISTORY = [*SENSOR_COLUMNS, "second_ms", "rate", "tokens", "bound"]


def gather(scope: RunScope) -> AuditFacts:
    """Return the facts that the run of ``scope`` found."""
    counted = count_decisions(scope)
    uses = sensor_uses(counted)
    by_second = throttled_by_second(scope)
    brokers = brokers_of(scope)
    return AuditFacts(
        scope=scope,
        brokers=brokers,
        span_ms=span_of(brokers),
        counted=tuple(counted),
        verdicts=verdict_counts(counted),
        findings=findings_of(scope),
        uses=uses,
        throttled=throttled_sensors(by_second, uses),
        throttled_by_second=by_second,
        proposals=proposals_of(scope),
        stages=stages_of(scope),
        files=lines_of_files(scope),
        agreement=agreement_of(scope),
        news=news_of(scope),
        applied=change_results_of(scope),
    )


def findings_of(scope: RunScope) -> tuple[Finding, ...]:
    """Return the findings of the run, critical ones first, then those with most decisions."""
    findings = [finding_of(row) for row in read_table(scope, "findings").to_pylist()]
    findings.sort(key=lambda f: (severity_rank(f.severity), -f.decisions, f.from_ms, f.finding_id))
    return tuple(findings)


def proposals_of(scope: RunScope) -> tuple[Proposal, ...]:
    """Return the recommendations, in order of the throttle time they are about, longest first."""
    rows = read_table(scope, "recommendations").to_pylist()
    proposals = [
        Proposal(
            **row | {"reason": visible(row["reason"]), "evidence": evidence_items(row["evidence"])}
        )
        for row in rows
    ]
    proposals.sort(key=lambda p: (-(p.throttle_time_ms_before or 0), p.quota_type, p.entity))
    return tuple(proposals)


def change_results_of(scope: RunScope) -> tuple[ChangeResult, ...]:
    """Return the applied changes, those not as predicted first, then the newest first."""
    rows = read_table(scope, "change_results").to_pylist()
    names = set(ChangeResult.__dataclass_fields__) - {"explanation"}
    found = [
        ChangeResult(
            explanation=visible(row["explanation"]),
            **{name: row[name] for name in names},
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda r: (r.is_kept, -r.applied_ms, r.quota_type, r.entity)))


def written_files(scope: RunScope) -> tuple[tuple[str, str], ...]:
    """Return name and description of the recommendation files beside the report."""
    folder = scope.output_dir("reports")
    return tuple((name, what) for name, what in FILES.items() if (folder / name).is_file())


def agreement_of(scope: RunScope) -> Agreement:
    """Return the agreement of a day's replay, by sensor."""
    rows = read_table(scope, "agreement", [*SENSOR_COLUMNS, *_AGREEMENT]).to_pylist()
    found = (
        SensorAgreement(SensorKey.of(row), **{name: row[name] for name in _AGREEMENT})
        for row in rows
        if row["throttles"]
    )
    return Agreement(tuple(sorted(found, key=lambda s: (s.within_1ms - s.throttles, s.sensor))))


def read_timelines(scope: RunScope, span_ms: tuple[int, int]) -> tuple[EntityTimeline, ...]:
    """Return the quotas that held at some time of ``span_ms`` (first, last; epoch ms)."""
    first, last = span_ms
    begun = ds.field("valid_from_ms") <= last
    not_over = ds.field("valid_until_ms").is_null() | (ds.field("valid_until_ms") > first)
    rows = read_table(scope, "quota_changes", TABLES["quota_changes"].names, begun & not_over)
    return quota_timelines(rows.to_pylist(), span_ms)


def sensor_histories(
    scope: RunScope, sensors: Iterable[SensorKey], throttled: Mapping[SensorKey, set[int]]
) -> dict[SensorKey, SensorHistory]:
    """Return the history of each of ``sensors`` that has rows in ``rates``.

    ``throttled`` holds the seconds in which each sensor throttled.
    """
    chosen = list(sensors)
    rows = read_table(scope, "rates", _HISTORY, sensor_filter(chosen))
    histories = {}
    for sensor in chosen:
        own = rows.filter(sensor_filter([sensor])).sort_by("second_ms")
        if own.num_rows:
            histories[sensor] = thinned(sensor, own, throttled.get(sensor, set()))
    return histories
