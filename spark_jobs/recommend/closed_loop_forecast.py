"""A day's clients replayed where they wait, under the day's quotas and under proposed ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.ingest.messages.message_definition import CONTROLLER_APIS
from spark_jobs.quota.codes import BANDWIDTH_TYPES
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.read_traffic import Aggregate, grouped
from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    ClosedLoopForecasts,
    ClosedLoopRequest,
    broker_forecast,
)
from spark_jobs.recommend.weigh.traffic import SensorId
from spark_jobs.resolve.broker_log import read_starts
from spark_jobs.resolve.resolve_quotas import read_changes
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.read import open_table, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.whatif.clients.client_log import FETCHES, LoggedRequest
from spark_jobs.whatif.clients.logged_changes import (
    broker_config,
    broker_starts,
    changes_until,
    quota_changes,
    with_values,
)
from spark_jobs.whatif.clients.normalized_requests import (
    CONNECTION_COLUMNS,
    logged_connections,
    rows_of,
)
from spark_jobs.whatif.clients.replay import ClientThrottle, client_throttles
from spark_jobs.whatif.clients.scenario import ClientSettings, ScenarioPolicy
from spark_jobs.whatif.policies.change import Change

ClientKey = tuple[str, str | None]
"""User and client-id of requests."""

_IN_FORCE = ScenarioPolicy(
    "broker_client_quotas",
    "broker_client_quotas",
    clients=ClientSettings(keeps_wanting=True),
)
_LINE = ("source_file", "source_line")
_READ = tuple(dict.fromkeys((*CONNECTION_COLUMNS, "recorded_estimate_us", *_LINE)))
_ForecastsByKey = dict[SensorId, tuple[BrokerForecast, ...]]


class _Recorded(NamedTuple):
    """The sensor that each client was last seen on, and who is recorded on which."""

    sensor_of: Mapping[tuple[str, ClientKey], SensorId]
    pairs: Sequence[tuple[SensorId, ClientKey]]


def closed_loop_forecast(
    scope: RunScope, request: ClosedLoopRequest, requests_max: int
) -> ClosedLoopForecasts | None:
    """Return the throttles of all clients that ``request`` has to do with, before and after it.

    Throttles are added to the sensor that the log has the client on. None where those clients made
    more than ``requests_max`` requests, or none.
    """
    recorded = _recorded(open_table(scope, "decisions"))
    clients = sharing_clients(recorded.pairs, request.concerned, request.bound)
    requests = open_table(scope, "requests")
    chosen = _is_of(clients)
    if not clients or not 0 < requests.count_rows(filter=chosen) <= requests_max:
        return None
    brokers = read_table(scope, "brokers").to_pylist()
    changes = _changes(scope, [row["broker_id"] for row in brokers])
    listeners = _controller_listeners(requests)
    before: _ForecastsByKey = defaultdict(tuple)
    after: _ForecastsByKey = defaultdict(tuple)
    for row in brokers:
        broker_id = row["broker_id"]
        connections = _connections(scope, clients, broker_id, listeners)
        policy = _IN_FORCE.on_broker(broker_config(row))
        heard = changes_until(changes, broker_id=broker_id)
        for forecasts, in_force in ((before, heard), (after, with_values(heard, request.values))):
            throttles = client_throttles(policy, connections, in_force)
            for key, forecast in _by_sensor(broker_id, throttles, recorded):
                forecasts[key] += (forecast,)
    return ClosedLoopForecasts(dict(before), dict(after))


def _recorded(decisions: ds.Dataset) -> _Recorded:
    """Return the sensors each client is recorded on; one row for each such pair is held."""
    last: Aggregate = ("recorded_at_ms", "hash_max", None, "last_ms")
    found = grouped(decisions, [*ENTITY_COLUMNS, "user", "client_id"], [last])
    rows = sorted(found, key=lambda row: row["last_ms"])
    pairs = [
        (tuple(row[name] for name in ENTITY_COLUMNS), (row["user"], row["client_id"]))
        for row in rows
    ]
    return _Recorded({(sensor[0], client): sensor for sensor, client in pairs}, pairs)


def sharing_clients(
    recorded: Iterable[tuple[SensorId, ClientKey]],
    concerned: Collection[SensorId],
    bound: Collection[SensorId],
) -> set[ClientKey]:
    """Return the clients that are recorded on ``concerned``, and all they share a bucket with.

    ``recorded`` says which client is recorded on which sensor; only ``bound`` ones hold anybody.

    >>> alice, bob = ("alice", "etl"), ("bob", "etl")
    >>> produced, etl = ("producer_byte_rate", "alice", ""), ("request_percentage", "", "etl")
    >>> sorted(sharing_clients([(produced, alice), (etl, alice), (etl, bob)], [produced],
    ...     [produced, etl]))
    [('alice', 'etl'), ('bob', 'etl')]
    """
    clients_of: dict[SensorId, set[ClientKey]] = defaultdict(set)
    sensors_of: dict[ClientKey, set[SensorId]] = defaultdict(set)
    for sensor, client in recorded:
        if sensor in bound:
            clients_of[sensor].add(client)
            sensors_of[client].add(sensor)
    found: set[ClientKey] = set()
    waiting = list(concerned)
    seen = set(waiting)
    while waiting:
        for client in clients_of[waiting.pop()] - found:
            found.add(client)
            waiting += sensors_of[client] - seen
            seen |= sensors_of[client]
    return found


def _is_of(clients: set[ClientKey]) -> pc.Expression:
    """Return the condition that a row has a user and a client-id of ``clients``."""
    users = sorted({user for user, _ in clients})
    client_ids = sorted({name for _, name in clients if name is not None})
    is_named = pc.field("client_id").isin(client_ids)
    if any(name is None for _, name in clients):
        is_named |= pc.field("client_id").is_null()
    return pc.field("user").isin(users) & is_named


def _changes(scope: RunScope, brokers: list[int]) -> list[Change]:
    end_ms = (day_number(scope.day) + 1) * DAY_MS
    changes: list[Change] = [
        *broker_starts(read_starts(scope)), *quota_changes(read_changes(scope, brokers))
    ]  # fmt: skip
    return changes_until(changes, end_ms=end_ms)


def _controller_listeners(requests: ds.Dataset) -> frozenset[str]:
    serving = pc.field("is_forwarded") | pc.field("api_name").isin(CONTROLLER_APIS)
    batches = requests.to_batches(columns=["listener"], filter=serving)
    return frozenset(name for batch in batches for name in batch["listener"].unique().to_pylist())


def _connections(
    scope: RunScope, clients: set[ClientKey], broker_id: int, listeners: frozenset[str]
) -> dict[str, list[LoggedRequest]]:
    """Return the connections of ``clients`` to one broker, at the times that the audit found."""
    chosen = _is_of(clients) & (pc.field("broker_id") == broker_id)
    found = open_table(scope, "requests").to_table(columns=list(_READ), filter=chosen)
    audited = open_table(scope, "decisions").to_table(
        columns=[*_LINE, "recorded_at_ms", "is_unrecorded", "amount"],
        filter=chosen & pc.field("quota_type").isin(BANDWIDTH_TYPES),
    )
    # Lists cannot be joined: the rows' numbers are, and the columns found with them put beside.
    numbered = found.select(_LINE).append_column("row", pa.array(range(len(found)), pa.int64()))
    beside = numbered.join(audited, list(_LINE)).sort_by("row")
    at_us = pc.multiply(beside["recorded_at_ms"], 1000)
    tried = pc.if_else(beside["is_unrecorded"], beside["amount"], None)
    found = found.set_column(
        found.schema.get_field_index("recorded_estimate_us"),
        "recorded_estimate_us",
        pc.coalesce(at_us, found["recorded_estimate_us"]),
    ).append_column("tried_bytes", tried)
    order = [(name, "ascending") for name in ("recorded_estimate_us", *_LINE)]
    rows = rows_of(found.sort_by(order).to_batches())
    own = (_as_tried(row) for row in rows if (row["user"], row["client_id"]) in clients)
    return logged_connections(own, listeners)


def _as_tried(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with the size that the audit found it had tried to read, if it did.

    A throttled fetch was answered with nothing: what it had tried is known from the audit alone.
    """
    if row["tried_bytes"] is not None:
        return {**row, "response_bytes": round(row["tried_bytes"])}
    is_throttled = row["api_name"] in FETCHES and row["throttle_time_ms"] > 0
    if is_throttled and not sum(part["records_bytes"] or 0 for part in row["topics"] or ()):
        return {**row, "response_bytes": None}
    return row


def _by_sensor(
    broker_id: int, throttles: Iterator[ClientThrottle], recorded: _Recorded
) -> Iterator[tuple[SensorId, BrokerForecast]]:
    found: dict[SensorId, list[tuple[int, int]]] = defaultdict(list)
    for one in throttles:
        sensor = recorded.sensor_of.get((str(one.quota_type), (one.user, one.client_id)))
        if sensor is not None:
            found[sensor].append((one.at_ms, one.throttle_time_ms))
    for sensor, times in found.items():
        at_ms, throttle_time_ms = np.array(times, np.int64).T
        yield sensor, broker_forecast(broker_id, at_ms, throttle_time_ms)
