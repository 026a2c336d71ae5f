"""Policies replayed through Spark: each one's brokers side by side.

A lane is what one task replays in turn: a policy's requests on one broker, or, where the policy
keeps one state for the whole cluster, all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.whatif.clients.logged_changes import changes_until
from spark_jobs.whatif.clients.logged_connections import CONNECTION_COLUMNS, logged_connections
from spark_jobs.whatif.clients.mode import Mode
from spark_jobs.whatif.clients.normalized_requests import (
    NORMALIZED_COLUMNS,
    normalized_requests,
    rows_of,
)
from spark_jobs.whatif.clients.replay import closed_loop_rows, outcome_rows
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.logged_day import LoggedDay
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.policy import StateScope

LINE_ORDER = ("recorded_estimate_us", "source_file", "source_line")
# Where requests are replayed: the broker, or all of them together.
_REPLAY, _LANE, _WHOLE_CLUSTER = "replay", "lane", -1

Row = Mapping[str, Any]


def columns_of(mode: Mode) -> tuple[str, ...]:
    """Return the columns of the requests that a replay of a mode reads."""
    read = NORMALIZED_COLUMNS if mode is Mode.AS_LOGGED else CONNECTION_COLUMNS
    return tuple(dict.fromkeys((*read, *LINE_ORDER)))


def rows_of_lanes(
    requests: DataFrame, day: LoggedDay, policies: Sequence[ScenarioPolicy], mode: Mode
) -> list[dict[str, Any]]:
    """Return the rows of policies that do not decide on mutations alone."""
    if not policies:
        return []
    columns = columns_of(mode)
    copies = F.array(*[_copy(i, policy, mode) for i, policy in enumerate(policies)])
    placed = (
        requests.select(*columns, F.explode(copies).alias("copy"))
        .where(F.col("copy").isNotNull())
        .select(*columns, F.col("copy.replay"), F.col("copy.lane"))
    )
    found = (
        placed.repartition(_REPLAY, _LANE)
        .sortWithinPartitions(_REPLAY, _LANE, *LINE_ORDER)
        .mapInArrow(_replay_lanes(policies, day, mode), from_arrow_schema(WHATIF))
    )
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return sorted(rows, key=lambda r: (r["broker_id"], r["user"], r["client_id"] or "", r["kind"]))


def _copy(index: int, policy: ScenarioPolicy, mode: Mode) -> Column:
    """Return the replay and lane of a request under a policy, null where it takes no part.

    In the closed loop all requests of clients take part, for they take their time.
    """
    kind = policy_class(policy.name)
    lane = F.lit(_WHOLE_CLUSTER) if kind.scope is StateScope.CLUSTER else F.col("broker_id")
    place = F.struct(F.lit(index).alias(_REPLAY), lane.alias(_LANE))
    is_clients = ~F.col("is_replica") & ~F.col("is_forwarded")
    is_decided = F.col("api_name").isin(*sorted(kind.apis))
    return F.when(is_decided if mode is Mode.AS_LOGGED else is_clients, place)


def _replay_lanes(
    policies: Sequence[ScenarioPolicy], day: LoggedDay, mode: Mode
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that replays each policy's lanes, one after the other."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(batches)
        for (replay, lane), lines in groupby(rows, key=lambda r: (r[_REPLAY], r[_LANE])):
            broker_id = None if lane == _WHOLE_CLUSTER else lane
            policy = day.on_broker(policies[replay], broker_id)
            changes = changes_until(day.heard_by(policies[replay]), broker_id=broker_id)
            found = _rows_of_lane(policy, lines, changes, day.controller_listeners, mode)
            yield pa.RecordBatch.from_pylist(found, schema=WHATIF)

    return run


def _rows_of_lane(
    policy: ScenarioPolicy,
    lines: Iterator[Row],
    changes: Sequence[Change],
    listeners: frozenset[str],
    mode: Mode,
) -> list[dict[str, Any]]:
    if mode is Mode.AS_LOGGED:
        return outcome_rows(policy, normalized_requests(lines, listeners), changes)
    return closed_loop_rows(policy, logged_connections(lines, listeners), changes)
