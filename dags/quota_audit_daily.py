"""Audit one day of one Kafka cluster: did the brokers enforce the client quotas as configured.

Archived broker request logs in; judged quota decisions, findings, recommendations and a report
out. Each task is one step of the `quota-audit` command line, run as a process of its own: the
command is the first line of the task's log, and runs in a terminal as it stands.

**Which day**: the param `day`; without it the day of the run's data interval; without that (a run
triggered with no logical date) yesterday, UTC. The log says which.

**When it is red**: exit code 1 is a failed audit or bad data, 2 an input that cannot be used;
neither is retried, and nothing is published: what readers see is as it was before the run.
Clearing and running again is safe: a run publishes its own day and cluster only, in its last task.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from airflow.sdk import Asset, CronDataIntervalTimetable, Param, chain, dag, task
from airflow.sdk.exceptions import AirflowFailException

from spark_jobs.run_form import PLACE_PATTERN, shared_fields
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.submit import ASSETS, PUBLISHES, STEPS, audit_of_run, run_step
from spark_jobs.submitted_step import asset_uri

SETTINGS = DailyAuditSettings()
OUTLETS = {PUBLISHES: [Asset(name, asset_uri(folder)) for name, folder in ASSETS.items()]}
SHARED = shared_fields(SETTINGS)
PARAMS = {
    "day": Param(None, type=["null", "string"], format="date", title="Day (UTC)",
        description="The day to audit. Empty: the day of the run's data interval."),
    "cluster": Param(**SHARED["cluster"]),
    "archive": Param(str(SETTINGS.archive), type="string", pattern=PLACE_PATTERN,
        title="Archive", description="Absolute path of a folder, or s3://bucket/key, with "
        "[cluster=<name>/]broker=<id>/…/kafka-request.log* below."),
    "warehouse": Param(**SHARED["warehouse"]),
    "timezone": Param(**SHARED["timezone"]),
    "broker_version": Param(**SHARED["broker_version"]),
}  # fmt: skip


@task(retries=1, retry_delay=timedelta(seconds=30), execution_timeout=timedelta(hours=4))
def step(task_id, params=None, dag_run=None, data_interval_start=None, outlet_events=None) -> str:
    """Run one step on the run's day; Airflow fills in what defaults to None."""
    audit = audit_of_run(params, data_interval_start, dag_run.run_after)
    for asset in OUTLETS.get(task_id, []):
        outlet_events[asset].extra = audit.scope()
    log = logging.getLogger("quota_audit").info
    return run_step(task_id, audit, log, AirflowFailException, SETTINGS.launcher)


@dag(schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"), catchup=False,
     start_date=datetime(2020, 1, 1, tzinfo=UTC), max_active_runs=1, params=PARAMS,
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_audit_daily() -> None:
    """Chain the steps in their order."""
    chain(*(step.override(task_id=name, outlets=OUTLETS.get(name, []))(name) for name in STEPS))


quota_audit_daily()
