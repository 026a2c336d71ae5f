"""Audit one day of one Kafka cluster: did the brokers enforce the client quotas as configured.

Archived broker request logs in; judged quota decisions, findings, recommendations and a report
out. Each task is one step of the `quota-audit` command line, run as a process of its own: the
command is the first line of the task's log, and runs in a terminal as it stands.

**Which day**: the param `day`; without it the day of the run's data interval; without that (a run
triggered with no logical date) yesterday, UTC. The log says which.

**When it is red**: exit code 1 is a failed audit or bad data, 2 an input that cannot be used;
neither is retried, and nothing is published: what readers see is as it was before the run.
Clearing and running again is safe: a run publishes its own day and cluster only, in one task.
Where settings `QUOTA_AUDIT_ALERT_…` name somebody, it ends with one message: what is bad and new.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from airflow.sdk import Asset, CronDataIntervalTimetable, Param, chain, dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.lineage import get_hook_lineage_collector

from quota_dags.alerts import ALERTS, alert
from quota_dags.forms import archive_field, shared_fields
from quota_dags.process import TaskTerms
from quota_dags.steps import ASSETS, FAILURE_KEY, PUBLISHES, asset_uri, audit_of_context, run_step
from spark_jobs.settings import AlertSettings, DailyAuditSettings
from spark_jobs.warehouse.pipeline import STEPS

SETTINGS, ALERTING = DailyAuditSettings(), AlertSettings()
LOG = logging.getLogger("quota_audit").info
TERMS = TaskTerms(LOG, AirflowFailException, AirflowSkipException, SETTINGS.launcher)
OUTLETS = {PUBLISHES: [Asset(name, asset_uri(folder)) for name, folder in ASSETS.items()]}
SHARED = shared_fields(SETTINGS)
PARAMS = {
    "day": Param(None, type=["null", "string"], format="date", title="Day (UTC)",
        description="The day to audit. Empty: the day of the run's data interval."),
    "cluster": Param(**SHARED["cluster"]),
    "archive": Param(**archive_field(SETTINGS)),
    "warehouse": Param(**SHARED["warehouse"]),
    "timezone": Param(**SHARED["timezone"]),
    "broker_version": Param(**SHARED["broker_version"]),
}  # fmt: skip


@task(retries=1, retry_delay=timedelta(seconds=30), execution_timeout=timedelta(hours=4))
def step(task_id, **context) -> str:
    """Run one step on the run's day."""
    audit = audit_of_context(context, SETTINGS, TERMS)
    for asset in OUTLETS.get(task_id, []):
        context["outlet_events"][asset].extra = audit.scope()
    failed = partial(context["ti"].xcom_push, FAILURE_KEY)
    return run_step(task_id, audit, TERMS, get_hook_lineage_collector(), failed)


@task(retries=3, retry_delay=timedelta(minutes=1), execution_timeout=timedelta(minutes=15))
def tell(task_id, **context) -> str:
    """Send the run's message, if there is something to tell."""
    return alert(task_id, audit_of_context(context, SETTINGS, TERMS), context, TERMS, ALERTING)


@dag(schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"), catchup=False,
     start_date=datetime(2020, 1, 1, tzinfo=UTC), max_active_runs=1, params=PARAMS,
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_audit_daily() -> None:
    """Chain the steps in their order."""
    steps = [step.override(task_id=name, outlets=OUTLETS.get(name, []))(name) for name in STEPS]
    chain(*steps)
    if ALERTING.channels:
        steps[-1] >> [tell.override(task_id=n, trigger_rule=r)(n) for n, r in ALERTS.items()]


quota_audit_daily()
