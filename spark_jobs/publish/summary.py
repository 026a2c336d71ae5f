"""What a run found, as few numbers and sentences: for the terminal and for lists of runs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts, gather
from spark_jobs.publish.facts.headline import headline
from spark_jobs.publish.facts.news_words import news_in_a_line
from spark_jobs.publish.facts.proposals import proposal_in_words
from spark_jobs.publish.publish import report_path
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name


@dataclass(frozen=True, slots=True)
class ThrottledClient:
    """How much one client was throttled by one quota on one broker."""

    client: str
    quota_type: str
    broker_id: int
    requests: int
    refused: int
    throttle_time_ms: int


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """One run in short; ``span_ms`` is the log's first and last request in epoch ms."""

    cluster: str
    day: dt.date
    span_ms: tuple[int, int] | None
    brokers: int
    requests: int
    quarantined: int
    mood: str
    title: str
    decisions: int
    agree: int
    indeterminate: int
    wrong: int
    findings: tuple[tuple[str, str], ...]  # severity and sentence, the worst first
    throttled: tuple[ThrottledClient, ...]  # the most throttled first
    recommendations: tuple[str, ...]  # one sentence each
    # What changed since the audited day before; "" where there is none.
    news: str
    report: Path
    is_report_written: bool


def summarize(scope: RunScope) -> AuditSummary:
    """Return what the run of ``scope`` found, read from its published tables."""
    return summary_of(gather(scope))


def summary_of(facts: AuditFacts) -> AuditSummary:
    """Return ``facts`` in short."""
    answer = headline(facts)
    report = report_path(facts.scope)
    return AuditSummary(
        cluster=facts.scope.cluster,
        day=facts.scope.day,
        span_ms=facts.span_ms,
        brokers=len(facts.brokers),
        requests=sum(broker.requests for broker in facts.brokers),
        quarantined=sum(file.quarantined for file in facts.files),
        mood=answer.mood,
        title=answer.title,
        decisions=facts.verdicts.decided,
        agree=facts.verdicts.agree,
        indeterminate=facts.verdicts.indeterminate,
        wrong=facts.verdicts.wrong,
        findings=tuple((f.severity, f.explanation) for f in facts.findings),
        throttled=tuple(_client(throttled) for throttled in facts.throttled),
        recommendations=tuple(proposal_in_words(proposal) for proposal in facts.changes),
        news=news_in_a_line(facts.news),
        report=report,
        is_report_written=report.is_file(),
    )


def _client(throttled: ThrottledSensor) -> ThrottledClient:
    return ThrottledClient(
        client=entity_name(*throttled.sensor.tags),
        quota_type=throttled.sensor.quota_type,
        broker_id=throttled.sensor.broker_id,
        requests=throttled.requests,
        refused=throttled.refused,
        throttle_time_ms=throttled.throttle_time_ms,
    )
