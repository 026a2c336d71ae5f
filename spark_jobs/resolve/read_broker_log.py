"""What the ingested days know of brokers' own logs, without Spark."""

from __future__ import annotations

from typing import Any

from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, scopes_of_days


def read_starts(scope: RunScope) -> list[dict[str, Any]]:
    """Return the rows of ``broker_starts`` of all ingested days of the cluster, in no order."""
    return [
        row for day in scopes_of_days(scope) for row in read_table(day, "broker_starts").to_pylist()
    ]


def read_broker_log(scope: RunScope) -> BrokerLog:
    """Return the starts that any ingested day tells of, and the throttle records of this one."""
    return BrokerLog.of_rows(read_starts(scope), read_table(scope, "throttle_records"))
