"""Step whatif: an ingested day's requests under other rules → the table ``whatif``.

A day is replayed on its own, with states that begin empty at midnight. Policies are replayed
through Spark, each one's brokers side by side. A lane is what one task replays in turn: a policy's
requests on one broker, or, where the policy keeps one state for the whole cluster, all of them.

Policies on mutations alone are replayed here: their few requests are brought together anyway. Which
line of a mutation decides is found among all brokers' lines. As logged, the line decides at its own
time; in the closed loop the client's line tells when it was asked for, and the controller that was
in office then decides.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.replay.mutations_of_day import read_inventory
from spark_jobs.replay.sensors.mutation_lines import decided_lines
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.warehouse.write import write_table
from spark_jobs.whatif.clients.client_log import LoggedRequest
from spark_jobs.whatif.clients.logged_changes import changes_until, failovers
from spark_jobs.whatif.clients.logged_connections import CONNECTION_COLUMNS, logged_connections
from spark_jobs.whatif.clients.normalized_requests import (
    NORMALIZED_COLUMNS,
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
_REPLAY, _LANE, _WHOLE_CLUSTER = "replay", "lane", -1

Row = Mapping[str, Any]

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
    on_mutations = [p for p in policies if only_mutates(p)]
    others = [p for p in policies if not only_mutates(p)]
    rows = rows_of_mutations(requests, scope, day, on_mutations, modes)
    for mode in modes:
        rows += rows_of_lanes(requests, day, others, mode)
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


@dataclass(frozen=True, slots=True)
class LoggedMutations:
    """A day's lines of mutations, in their order, and the changes with the failovers among them."""

    lines: Sequence[Row]
    # The lines on which mutations were decided.
    decided: Sequence[Row]
    # The lines of mutations that no line of a controller tells of.
    told: Sequence[Row]
    changes: Sequence[Change]


def only_mutates(policy: ScenarioPolicy) -> bool:
    """Return True if a policy decides on mutations alone."""
    return policy_class(policy.name).apis <= frozenset(MUTATION_APIS)


def rows_of_mutations(
    requests: DataFrame,
    scope: RunScope,
    day: LoggedDay,
    policies: Sequence[ScenarioPolicy],
    modes: Sequence[Mode],
) -> list[dict[str, Any]]:
    """Return the rows of policies on mutations. What only a broker's line tells of is its own."""
    if not policies:
        return []
    logged = _mutations(requests, day)
    rows = []
    for mode in modes:
        for policy in policies:
            rows += _rows_of(day.on_broker(policy, None), logged, scope, day, mode)
    return rows


def _rows_of(
    policy: ScenarioPolicy, logged: LoggedMutations, scope: RunScope, day: LoggedDay, mode: Mode
) -> list[dict[str, Any]]:
    listeners, changes = day.controller_listeners, day.heard_by(policy, logged.changes)
    inventory = read_inventory(scope.day_before)
    if mode is Mode.AS_LOGGED:
        lines = sorted([*logged.decided, *logged.told], key=_line_order)
        return outcome_rows(policy, normalized_requests(lines, listeners, inventory), changes)
    connections = logged_connections(logged.lines, listeners, inventory)
    at_controller = {key: _at_controller(of, logged.decided) for key, of in connections.items()}
    return closed_loop_rows(policy, at_controller, changes)


def _mutations(requests: DataFrame, day: LoggedDay) -> LoggedMutations:
    read = dict.fromkeys((*MUTATION_COLUMNS, *columns_of(Mode.CLOSED_LOOP)))
    lines = requests.where(F.col("api_name").isin(*MUTATION_APIS)).select(*read)
    rows = sorted(lines.toArrow().to_pylist(), key=_line_order)
    decided, told = decided_lines(rows, day.controller_listeners, uses_zookeeper=day.uses_zookeeper)
    decided.sort(key=_line_order)
    changes = changes_until([*day.changes, *failovers(decided)])
    return LoggedMutations(rows, decided, told, changes)


def _at_controller(
    requests: Sequence[LoggedRequest], decided: Sequence[Row]
) -> list[LoggedRequest]:
    """Return a connection's requests, each on the broker that decided on mutations at its time."""
    times_us = [row["recorded_estimate_us"] for row in decided]
    found = []
    for logged in requests:
        before = bisect.bisect_right(times_us, logged.request.at_ms * 1000 + 999)
        if decided:
            broker_id = decided[max(before - 1, 0)]["broker_id"]
            logged = replace(logged, request=replace(logged.request, broker_id=broker_id))
        found.append(logged)
    return found
