"""What a run found, in one small file beside its report: for lists of runs and other programs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.findings import by_severity
from spark_jobs.publish.facts.headline import headline
from spark_jobs.publish.facts.quality import worst_quality
from spark_jobs.publish.follow.changes import Status
from spark_jobs.warehouse.read import program_of
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name

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


def outcome_path(scope: RunScope) -> Path:
    """Return the path of the outcome of ``scope``, written or not."""
    return scope.output_dir("reports") / OUTCOME_NAME


def outcome_text(outcome: AuditOutcome) -> str:
    """Return the outcome as JSON, the same text for the same outcome."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode() + "\n"


def read_outcome(path: Path) -> AuditOutcome | None:
    """Return the outcome that :func:`outcome_text` wrote; None where missing or not readable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=AuditOutcome)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
