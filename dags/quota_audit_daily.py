"""Audit one day of one Kafka cluster: were the client quotas enforced as configured?

Archived broker request logs in; judged quota decisions, findings, recommendations and a report
out. Each task is one step of the `quota-audit` command line, run as a process of its own: the
command is the first line of the task's log, and runs in a terminal as it stands.

**Which day**: the param `day`; without it the day of the run's data interval; without that (a run
triggered with no logical date) yesterday, UTC. The log says which.

**When it is red**: exit code 1 is a failed audit or bad data, 2 an input that cannot be used;
neither is retried. The report (*Browse → Quota audit*) is not published then. Clearing and running
again is safe: a step overwrites its own day and cluster only.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone

from airflow.sdk import Asset, CronDataIntervalTimetable, Param, chain, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from spark_jobs.settings import DailyAuditSettings
from spark_jobs.submit import (
    CLUSTER_PATTERN, STEPS, VERSION_PATTERN, asset_uri, audit_of_run, run_step
)  # fmt: skip

SETTINGS = DailyAuditSettings()
OUTPUTS = {
    "replay_quotas": ("quota_decisions", "decisions"),
    "judge_decisions": ("quota_findings", "findings"),
    "recommend_quotas": ("quota_recommendations", "recommendations"),
    "publish_report": ("quota_report", "reports"),
}
ASSETS = {
    task_id: [Asset(name=name, uri=asset_uri(SETTINGS.warehouse, table))]
    for task_id, (name, table) in OUTPUTS.items()
}
PARAMS = {
    "day": Param(None, type=["null", "string"], format="date", title="Day (UTC)",
        description="The day to audit. Empty: the day of the run's data interval."),
    "cluster": Param(SETTINGS.cluster, type="string", pattern=CLUSTER_PATTERN, title="Cluster",
        description="As in the archive's folder cluster=<name>; any name where it has none."),
    "archive": Param(str(SETTINGS.archive), type="string", pattern="^/", title="Archive folder",
        description="Absolute path, with [cluster=<name>/]broker=<id>/…/kafka-request.log* below."),
    "warehouse": Param(str(SETTINGS.warehouse), type="string", pattern="^/", title="Warehouse",
        description="Absolute path of the folder the tables and reports are written to."),
    "timezone": Param(SETTINGS.timezone, type="string", pattern="^[A-Za-z][A-Za-z0-9_+/-]*$",
        title="Time zone of the log lines", examples=["UTC", "Europe/Berlin", "America/New_York"],
        description="A name of the IANA database, as the brokers' clocks were set."),
    "broker_version": Param(SETTINGS.broker_version, type=["null", "string"],
        pattern=VERSION_PATTERN, title="Broker version",
        description="4.1.0 for all brokers, or 1=3.7.2,2=4.1.0. Empty: found in the archive."),
}  # fmt: skip


@task(retries=1, retry_delay=timedelta(seconds=30), execution_timeout=timedelta(hours=4))
def step(task_id: str) -> str:
    context = get_current_context()
    run_after = context["dag_run"].run_after
    audit = audit_of_run(context["params"], context.get("data_interval_start"), run_after)
    for asset in ASSETS.get(task_id, []):
        context["outlet_events"][asset].extra = {"cluster": audit.cluster, "day": str(audit.day)}
    log = logging.getLogger("quota_audit").info
    return run_step(task_id, audit, log, AirflowFailException, SETTINGS.launcher)


@dag(schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"), catchup=False,
     start_date=datetime(2020, 1, 1, tzinfo=timezone.utc), max_active_runs=1, params=PARAMS,
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_audit_daily() -> None:
    chain(*(step.override(task_id=name, outlets=ASSETS.get(name, []))(name) for name in STEPS))


quota_audit_daily()
