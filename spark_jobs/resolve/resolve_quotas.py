"""Step resolve_quotas: quota_events of every ingested day → the timeline ``quota_changes``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.restarts import SERVER_LOG, restarts_ms
from spark_jobs.resolve.broker_log import read_starts
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.resolve.timeline.intervals import Moments, moved_changes, quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, scopes_of_days
from spark_jobs.warehouse.tables import QUOTA_CHANGES
from spark_jobs.warehouse.write import write_table


def resolve_quotas(scope: RunScope) -> str:
    """Write the cluster's whole timeline from what every ingested day knows; say what it holds.

    A later day's log may tell of a change better than an earlier one's, so the timeline is made
    from all of them each time. It does not depend on the day of ``scope``.
    """
    events: set[QuotaEvent] = set()
    brokers: set[int] = set()
    for scope_of_day in scopes_of_days(scope):
        events |= {
            QuotaEvent.of_row(r) for r in read_table(scope_of_day, "quota_events").to_pylist()
        }
        brokers |= set(read_table(scope_of_day, "brokers")["broker_id"].to_pylist())
    logged_starts = [row for row in read_starts(scope) if row["source"] == SERVER_LOG]
    rows = quota_intervals(events, brokers, restarts_ms(logged_starts))
    write_table(pa.Table.from_pylist(rows, QUOTA_CHANGES), "quota_changes", scope)
    entities = {(r["quota_type"], r["quota_user"], r["quota_client_id"]) for r in rows}
    return (
        f"resolved {len(events):,} quota events into {len(rows):,} intervals "
        f"of {len(entities):,} quotas"
    )


def read_timeline(scope: RunScope, *, as_answered: bool = False) -> QuotaTimeline:
    """Return the cluster's timeline, with the rules its brokers keep levels by and their starts.

    Changes count from when each broker held its clients to them, where a replay has found that
    out (``located_changes``); those of the day of ``scope`` do not if ``as_answered``.
    """
    rules = {row["broker_id"]: _level_rule(row) for row in read_table(scope, "brokers").to_pylist()}
    moments = _moments(scope, as_answered=as_answered)
    changes = _moved_changes(scope, moments, sorted(rules))
    return QuotaTimeline.of_rows(
        changes, rules, restarts_ms(read_starts(scope)), first_answers_ms(moments)
    )


def read_changes(scope: RunScope, brokers: list[int]) -> list[dict[str, Any]]:
    """Return the rows of ``quota_changes``, each from when it was in force on each broker.

    See :func:`read_timeline`, which is made of them.
    """
    return _moved_changes(scope, _moments(scope, as_answered=False), brokers)


def _moved_changes(scope: RunScope, moments: Moments, brokers: list[int]) -> list[dict[str, Any]]:
    return moved_changes(read_table(scope, "quota_changes").to_pylist(), moments, brokers)


def _moments(scope: RunScope, *, as_answered: bool) -> Moments:
    days = [day for day in scopes_of_days(scope) if not (as_answered and day.day == scope.day)]
    return {
        (row["broker_id"], row["answered_ms"]): row["in_force_ms"]
        for day in days
        for row in read_table(day, "located_changes").to_pylist()
    }


def first_answers_ms(moments: Moments) -> dict[tuple[int, int], int]:
    """Return the first answer (ms) to the changes that came to be in force on a broker at a moment.

    >>> first_answers_ms({(1, 100): 460, (1, 370): 460, (1, 900): 905})
    {(1, 460): 100, (1, 905): 900}
    """
    found: dict[tuple[int, int], int] = {}
    for (broker_id, answered_ms), in_force_ms in moments.items():
        key = broker_id, in_force_ms
        found[key] = min(answered_ms, found.get(key, answered_ms))
    return found


def _level_rule(broker: dict[str, Any]) -> LevelRule:
    return LevelRule.of_broker(broker["version"], uses_zookeeper=broker["uses_zookeeper"])
