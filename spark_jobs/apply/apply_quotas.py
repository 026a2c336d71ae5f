"""The commands apply and rollback: a plan, shown; carried out where told; recorded."""

from __future__ import annotations

import datetime as dt
import getpass
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from spark_jobs.apply.applied_changes import only_one_run, read_applications, record_application
from spark_jobs.apply.changes.change_key import chosen_changes, parse_selection
from spark_jobs.apply.changes.change_plan import (
    DONE,
    CarriedOutChange,
    PlannedChange,
    carry_out,
    plan_changes,
    refusal,
    validated,
)
from spark_jobs.apply.changes.history import (
    APPLY,
    ROLLBACK,
    Application,
    Predictions,
    application_to_take_back,
    check_not_taken_back,
    cut_off_applications,
    intended_rows,
    predictions_of,
    rows_of_run,
    taken_back,
)
from spark_jobs.apply.changes.quota_admin import ClusterFacts, QuotaAdmin
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, proposed_alterations
from spark_jobs.apply.kafka_quota_admin import kafka_quota_admin
from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.settings import IngestSettings, KafkaAdminSettings
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, recommended_day

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """The cluster to change, and how: ``execute`` False shows what would be done.

    ``applied_by`` None is the user of the operating system, ``asked_by`` None nobody else.
    ``plan`` is the digest of what was approved; None: nobody was asked.
    """

    warehouse: Path
    cluster: str
    bootstrap_servers: str
    command_config: Path | None = None
    execute: bool = False
    applied_by: str | None = None
    note: str | None = None
    asked_by: str | None = None
    plan: str | None = None
    settings: KafkaAdminSettings = field(default_factory=KafkaAdminSettings)


@dataclass(frozen=True, slots=True)
class WantedChanges:
    """What is to be changed, and why one may.

    ``kafka_cluster_id`` None: whatever cluster answers. ``cut_off`` are earlier runs of which
    nobody knows what they did; they are told of.
    """

    action: str
    alterations: Sequence[QuotaAlteration]
    evidence_day: str
    allow_delete: bool
    predictions: Predictions = field(default_factory=dict)
    takes_back: str | None = None
    kafka_cluster_id: str | None = None
    cut_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What was planned, and what became of it; no ``results`` where nothing was carried out."""

    wanted: WantedChanges
    facts: ClusterFacts
    plan: tuple[PlannedChange, ...]
    refused: str | None
    application_id: str | None = None
    results: tuple[CarriedOutChange, ...] = ()


class ChangesFailedError(AuditFailedError):
    """Something was to be changed and was not, or reads otherwise (exit 1)."""


def apply_quotas(
    target: ClusterTarget,
    day: dt.date | None,
    only: list[str],
    *,
    allow_delete: bool,
    show: Callable[[ChangeReport], None],
) -> None:
    """Apply what was proposed for a day (None: the newest with recommendations).

    ``only`` names entities, or changes, as :func:`parse_selection` takes them; empty = all.
    Raises BadInputError where nothing is proposed, or what was applied of the target's plan was
    taken back since, and what :func:`change_quotas` raises.
    """
    selections = [parse_selection(text) for text in only]
    scope = recommended_day(target.warehouse, target.cluster, day, IngestSettings().latest_day())
    rows = read_table(scope, "recommendations").to_pylist()
    alterations = chosen_changes(proposed_alterations(rows), selections)
    if not alterations:
        raise BadInputError(
            f"Nothing is proposed for {scope.day} of the cluster {target.cluster!r} in "
            f"{target.warehouse}, so there is nothing to apply. Run 'quota-audit recommend', or "
            "give another --day."
        )
    history = read_applications(target.warehouse, target.cluster)
    if target.plan:
        check_not_taken_back(history, target.plan)
    wanted = WantedChanges(
        action=APPLY,
        alterations=alterations,
        evidence_day=str(scope.day),
        allow_delete=allow_delete,
        predictions=predictions_of(rows),
        cut_off=cut_off_applications(history),
    )
    change_quotas(target, wanted, show)


def rollback_quotas(
    target: ClusterTarget, application_id: str | None, *, show: Callable[[ChangeReport], None]
) -> None:
    """Take back an application (None: the last one that stands).

    It deletes what the application had created, and nothing else. Raises BadInputError where there
    is nothing to take back, and what :func:`change_quotas` raises.
    """
    history = read_applications(target.warehouse, target.cluster)
    application = application_to_take_back(history, application_id)
    wanted = WantedChanges(
        action=ROLLBACK,
        alterations=taken_back(application),
        evidence_day=application.common("evidence_day"),
        allow_delete=True,
        takes_back=application.application_id,
        kafka_cluster_id=application.common("kafka_cluster_id"),
        cut_off=cut_off_applications(history),
    )
    change_quotas(target, wanted, show)


def change_quotas(
    target: ClusterTarget, wanted: WantedChanges, show: Callable[[ChangeReport], None]
) -> None:
    """Change the quotas of a cluster, or show what would be changed.

    ``show`` is given the report, once. Raises BadInputError where nothing was changed because
    nothing may be (drift, a value the cluster rejects, a deletion that is not allowed, a cluster
    that cannot be reached), ChangesFailedError where some of it was not done.
    """
    opened = kafka_quota_admin(target.bootstrap_servers, target.command_config, target.settings)
    alone = only_one_run(target.warehouse, target.cluster) if target.execute else nullcontext()
    with alone, opened as admin:
        report = _planned(target, wanted, admin)
        if report.refused or not target.execute:
            show(report)
            if report.refused:
                raise BadInputError(report.refused)
            return
        _execute(target, report, admin, show)


def _planned(target: ClusterTarget, wanted: WantedChanges, admin: QuotaAdmin) -> ChangeReport:
    facts = admin.facts()
    if wanted.kafka_cluster_id is not None and facts.cluster_id != wanted.kafka_cluster_id:
        raise BadInputError(
            f"{target.bootstrap_servers} is the Kafka cluster {facts.cluster_id}, and "
            f"{wanted.takes_back} was applied to {wanted.kafka_cluster_id}: give that one's "
            "--bootstrap-server. Nothing was changed."
        )
    found = admin.values([alteration.entity for alteration in wanted.alterations])
    plan = plan_changes(wanted.alterations, found, allow_delete=wanted.allow_delete)
    # A cluster is asked about a plan only when nothing else speaks against it.
    plan = plan if refusal(plan) else validated(plan, admin)
    return ChangeReport(wanted, facts, plan, refusal(plan))


def _execute(
    target: ClusterTarget,
    report: ChangeReport,
    admin: QuotaAdmin,
    show: Callable[[ChangeReport], None],
) -> None:
    application = _application(target, report)
    predictions = report.wanted.predictions
    started = dt.datetime.fromtimestamp(application.started_ms / 1000, dt.UTC)
    record = partial(record_application, RunScope(target.warehouse, target.cluster, started.date()))
    record(intended_rows(application, report.plan, predictions))
    results = carry_out(report.plan, admin, _pause_until(target.settings.read_back_ms))
    # Shown before it is recorded: a full disk must not hide what was changed.
    show(replace(report, application_id=application.application_id, results=results))
    record(rows_of_run(application, results, _now_ms(), predictions))
    undone = [result for result in results if result.outcome not in DONE]
    if undone:
        raise ChangesFailedError(
            f"{len(undone)} of {len(results)} changes were not made, or nobody knows; the rest "
            "stands. Each one's state is above, and in the table applied_changes as "
            f"{application.application_id}. Once the cause is gone, the same command does the rest."
        )


def _application(target: ClusterTarget, report: ChangeReport) -> Application:
    started_ms = _now_ms()
    moment = dt.datetime.fromtimestamp(started_ms / 1000, dt.UTC)
    return Application(
        application_id=f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
        action=report.wanted.action,
        takes_back=report.wanted.takes_back,
        started_ms=started_ms,
        applied_by=target.applied_by or _user(),
        asked_by=target.asked_by or None,
        plan=target.plan or None,
        note=target.note or None,
        bootstrap_servers=target.bootstrap_servers,
        kafka_cluster_id=report.facts.cluster_id,
        evidence_day=report.wanted.evidence_day,
    )


def _user() -> str:
    """Return the name of the user of the operating system; in a container there may be none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _pause_until(read_back_ms: int) -> Callable[[], bool]:
    """Return a function that waits 0.1 s; it returns False once its time (ms) is up."""
    ends: list[float] = []

    def pause() -> bool:
        if not ends:
            ends.append(time.monotonic() + read_back_ms / 1000)
        if time.monotonic() >= ends[0]:
            return False
        time.sleep(_POLL_S)
        return True

    return pause


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
