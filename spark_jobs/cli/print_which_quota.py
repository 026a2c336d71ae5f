"""Answering which quota values held for a client, at which level, and since when."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from rich.console import Console

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import SINCE_UNKNOWN_MS
from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.resolve.resolve_quotas import read_timeline
from spark_jobs.resolve.timeline.resolution import QuotaInForce, which_quota
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import (
    DAY_MS,
    day_of,
    moment_of,
    newest_day,
    since_epoch_ms,
)
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.wording.numbers import moment

_UNITS = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions/s",
}


def print_which_quota(
    warehouse: Path, cluster: str, user: str, client_id: str, broker_id: int | None, at: str
) -> None:
    """Print one line a quota type: value, level, since when and which source says so.

    ``at`` is an ISO moment, UTC where it names no zone; empty is the end of the last audited day.
    Raises BadInputError where the warehouse knows nothing of the cluster, the broker or the time.
    """
    days = days_of(warehouse, cluster)
    if not days:
        raise BadInputError(
            f"{warehouse} holds no audited day of the cluster {cluster!r}. Run "
            "'quota-audit run' on an archive first, or name another --cluster."
        )
    at_ms = _at_ms(at, newest_day(days, IngestSettings().latest_day()))
    scope = RunScope(warehouse, cluster, _nearest_day(days, at_ms)).held()
    broker_id = _broker(scope, broker_id)
    timeline = read_timeline(scope)
    console = Console(soft_wrap=True, highlight=False)
    console.print(
        f"user {user!r}, client-id {client_id!r}, broker {broker_id}, at {moment(at_ms)}:",
        markup=False,
    )
    for quota_type in QUOTA_TYPES:
        held = which_quota(timeline, quota_type, user, client_id, broker_id, at_ms)
        console.print(f"  {quota_type}: {_answer(quota_type, held)}", markup=False)


def _answer(quota_type: str, held: QuotaInForce) -> str:
    found = held.resolution
    if held.entity is None or found.bound is None:
        return "no quota"
    user, client_id = held.entity
    entity = ", ".join(
        f"{kind} {name}" for kind, name in (("user", user), ("client-id", client_id)) if name
    )
    since = found.set_at_ms
    line = f":{held.source_line}" if held.source_line is not None else ""
    begins = "before the log" if since is None or since <= SINCE_UNKNOWN_MS else moment(since)
    return (
        f"{found.bound:,.10g} {_UNITS[quota_type]} at level {found.quota_level} ({entity}), "
        f"since {begins}, by {held.source} {held.source_file or ''}{line}".rstrip()
    )


def _broker(scope: RunScope, broker_id: int | None) -> int:
    brokers = sorted(read_table(scope, "brokers", ["broker_id"])["broker_id"].to_pylist())
    if broker_id is None and len(brokers) == 1:
        return int(brokers[0])
    if broker_id is None or broker_id not in brokers:
        found = "none was given" if broker_id is None else f"{broker_id} is not one of them"
        raise BadInputError(
            f"--broker: the cluster {scope.cluster!r} has the brokers "
            f"{', '.join(map(str, brokers))}; {found}."
        )
    return broker_id


def _at_ms(at: str, last_day: dt.date) -> int:
    if not at:
        return since_epoch_ms(dt.datetime.combine(last_day, dt.time.max, dt.UTC))
    return since_epoch_ms(moment_of(at))


def _nearest_day(days: list[dt.date], at_ms: int) -> dt.date:
    day = day_of(at_ms // DAY_MS)
    earlier = [d for d in days if d <= day]
    return earlier[-1] if earlier else days[0]
