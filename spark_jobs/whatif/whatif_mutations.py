"""Policies on mutations alone, replayed here: their few requests are brought together anyway.

Which line of a mutation decides is found among all brokers' lines. As logged, the line decides at
its own time; in the closed loop the client's line tells when it was asked for, and the controller
that was in office then decides.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.replay.sensors.mutation_lines import decided_lines
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS
from spark_jobs.replay.topic_inventory import read_inventory
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.whatif.clients.client_log import LoggedRequest
from spark_jobs.whatif.clients.logged_changes import changes_until, failovers
from spark_jobs.whatif.clients.logged_connections import logged_connections
from spark_jobs.whatif.clients.mode import Mode
from spark_jobs.whatif.clients.normalized_requests import normalized_requests
from spark_jobs.whatif.clients.replay import closed_loop_rows, outcome_rows
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.logged_day import LoggedDay
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.whatif_lanes import LINE_ORDER, Row, columns_of

_line_order = itemgetter(*LINE_ORDER)


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
