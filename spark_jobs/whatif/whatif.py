"""Step whatif: an ingested day's requests under other rules → the table ``whatif``.

A day is replayed on its own, with states that begin empty at midnight. Policies are replayed
through Spark, each one's brokers side by side. A stream is what one task replays in turn: all
requests on one broker or, where a policy keeps one state for the whole cluster, on all of them.

Policies on mutations alone are replayed here: their few requests are brought together anyway. Which
line of a mutation decides is found among all brokers' lines. As logged, the line decides at its own
time; in the closed loop the client's line tells when it was asked for, and the controller that was
in office then decides.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.quota.partition_inventory import MUTATION_APIS, PartitionInventory
from spark_jobs.replay.mutations_of_day import read_inventory
from spark_jobs.replay.sensors.mutation_lines import decided_lines
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.warehouse.write import write_table
from spark_jobs.whatif.clients.client_log import LoggedRequest
from spark_jobs.whatif.clients.logged_changes import changes_until, failovers
from spark_jobs.whatif.clients.normalized_requests import (
    CONNECTION_COLUMNS,
    NORMALIZED_COLUMNS,
    Row,
    logged_connections,
    normalized_requests,
    rows_of,
)
from spark_jobs.whatif.clients.replay import closed_loop_rows, outcome_rows
from spark_jobs.whatif.clients.scenario import Mode, ScenarioPolicy
from spark_jobs.whatif.logged_day import LoggedDay, logged_day, logged_requests
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.policy import StateScope

LINE_ORDER = ("recorded_estimate_us", "source_file", "source_line")
# Where requests are replayed: the broker, or all of them together.
_REPLAY, _STREAM, _WHOLE_CLUSTER = "replay", "stream", -1

_line_order = itemgetter(*LINE_ORDER)


def whatif(
    spark: SparkSession,
    scope: RunScope,
    policies: Sequence[ScenarioPolicy],
    modes: Sequence[Mode] = (Mode.AS_LOGGED,),
) -> pa.Table:
    """Write what the requests of an ingested and resolved day get under each of the policies.

    Returns the rows, of schema WHATIF. Raises BadInputError where the day was not ingested, and
    PolicyConfigError where a policy refuses a quota or a topic of the log.
    """
    requests = logged_requests(spark, scope)
    day = logged_day(spark, requests, scope)
    for policy in policies:
        _hear_all(policy, day)
    mutating = [p for p in policies if policy_class(p.name).apis <= frozenset(MUTATION_APIS)]
    rows = _rows_of_mutations(requests, scope, day, mutating, modes)
    others = [p for p in policies if p not in mutating]
    for mode in modes:
        rows += _rows_of_streams(requests, day, others, mode)
    place = {policy.label: i for i, policy in enumerate(policies)}
    # The sort is stable, and each policy's rows come in their order.
    rows.sort(key=lambda row: (modes.index(row["mode"]), place[row["label"]], row["broker_id"]))
    table = pa.Table.from_pylist(rows, schema=WHATIF)
    write_table(table, "whatif", scope)
    return table


def _hear_all(policy: ScenarioPolicy, day: LoggedDay) -> None:
    """Let a policy hear every change, so that one it refuses is refused before Spark works."""
    begun = day.on_broker(policy, None).begin()
    for change in day.heard_by(policy):
        begun.observe(change)


def _columns_of(mode: Mode) -> tuple[str, ...]:
    """Return the columns of the requests that a replay of a mode reads."""
    read = NORMALIZED_COLUMNS if mode is Mode.AS_LOGGED else CONNECTION_COLUMNS
    return tuple(dict.fromkeys((*read, *LINE_ORDER)))


def _rows_of_streams(
    requests: DataFrame, day: LoggedDay, policies: Sequence[ScenarioPolicy], mode: Mode
) -> list[dict[str, Any]]:
    """Return the rows of policies that do not decide on mutations alone."""
    if not policies:
        return []
    columns = _columns_of(mode)
    copies = F.array(*[_copy(i, policy, mode) for i, policy in enumerate(policies)])
    placed = (
        requests.select(*columns, F.explode(copies).alias("copy"))
        .where(F.col("copy").isNotNull())
        .select(*columns, "copy.*")
    )
    found = (
        placed.repartition(_REPLAY, _STREAM)
        .sortWithinPartitions(_REPLAY, _STREAM, *LINE_ORDER)
        .mapInArrow(_replay_streams(policies, day, mode), from_arrow_schema(WHATIF))
    )
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return sorted(rows, key=lambda r: (r["broker_id"], r["user"], r["client_id"] or "", r["kind"]))


def _copy(index: int, policy: ScenarioPolicy, mode: Mode) -> Column:
    """Return the replay and stream of a request under a policy, null where it takes no part.

    In the closed loop all requests of clients take part, for they take their time.
    """
    kind = policy_class(policy.name)
    stream = F.lit(_WHOLE_CLUSTER) if kind.scope is StateScope.CLUSTER else F.col("broker_id")
    place = F.struct(F.lit(index).alias(_REPLAY), stream.alias(_STREAM))
    is_clients = ~F.col("is_replica") & ~F.col("is_forwarded")
    is_decided = F.col("api_name").isin(*sorted(kind.apis))
    return F.when(is_decided if mode is Mode.AS_LOGGED else is_clients, place)


def _replay_streams(
    policies: Sequence[ScenarioPolicy], day: LoggedDay, mode: Mode
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that replays each policy's streams, one by one."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(batches)
        for (replay, stream), lines in groupby(rows, key=lambda r: (r[_REPLAY], r[_STREAM])):
            broker_id = None if stream == _WHOLE_CLUSTER else stream
            policy = day.on_broker(policies[replay], broker_id)
            changes = changes_until(day.heard_by(policy), broker_id=broker_id)
            found = _rows_of(policy, lines, changes, day.controller_listeners, mode)
            yield pa.RecordBatch.from_pylist(found, schema=WHATIF)

    return run


def _rows_of_mutations(
    requests: DataFrame,
    scope: RunScope,
    day: LoggedDay,
    policies: Sequence[ScenarioPolicy],
    modes: Sequence[Mode],
) -> list[dict[str, Any]]:
    """Return the rows of policies on mutations. What only a broker's line tells of is its own."""
    if not policies:
        return []
    read = dict.fromkeys((*MUTATION_COLUMNS, *_columns_of(Mode.CLOSED_LOOP)))
    mutations = requests.where(F.col("api_name").isin(*MUTATION_APIS)).select(*read)
    all_lines = sorted(mutations.toArrow().to_pylist(), key=_line_order)
    listeners = day.controller_listeners
    decided, told = decided_lines(all_lines, listeners, uses_zookeeper=day.uses_zookeeper)
    decided.sort(key=_line_order)
    changes = changes_until([*day.changes, *failovers(decided)])
    rows = []
    for mode in modes:
        is_logged = mode is Mode.AS_LOGGED
        lines = sorted([*decided, *told], key=_line_order) if is_logged else all_lines
        for policy in (day.on_broker(policy, None) for policy in policies):
            heard, inventory = day.heard_by(policy, changes), read_inventory(scope.day_before)
            rows += _rows_of(policy, lines, heard, listeners, mode, inventory, decided)
    return rows


def _rows_of(
    policy: ScenarioPolicy,
    lines: Iterable[Row],
    changes: Sequence[Change],
    listeners: frozenset[str],
    mode: Mode,
    inventory: PartitionInventory | None = None,
    decided: Sequence[Row] = (),
) -> list[dict[str, Any]]:
    """Return the rows of one replay; ``decided`` are the lines on which mutations were decided."""
    if mode is Mode.AS_LOGGED:
        return outcome_rows(policy, normalized_requests(lines, listeners, inventory), changes)
    connections = logged_connections(lines, listeners, inventory)
    if decided:
        connections = {key: _at_controller(of, decided) for key, of in connections.items()}
    return closed_loop_rows(policy, connections, changes)


def _at_controller(
    requests: Sequence[LoggedRequest], decided: Sequence[Row]
) -> list[LoggedRequest]:
    """Return a connection's requests, each on the broker that decided on mutations at its time."""
    times_us = [row["recorded_estimate_us"] for row in decided]
    found = []
    for logged in requests:
        before = bisect.bisect_right(times_us, logged.request.at_ms * 1000 + 999)
        broker_id = decided[max(before - 1, 0)]["broker_id"]
        found.append(replace(logged, request=replace(logged.request, broker_id=broker_id)))
    return found
