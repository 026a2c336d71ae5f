"""Requests of one broker around quota changes → the moments that explain its throttles best.

A change is in force on a broker when it has replayed the metadata record, some milliseconds after
the controller answered, or some hundred under load. From then on a client is held to another
bound, and its bytes may go to another sensor; one request in the wrong sensor is wrong in every
throttle of the next rate window. So the moments are searched for, each between two requests of the
clients that it concerns, in the order in which the controller made the changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import CHANGE_LATEST_MS, ZOOKEEPER_RECONNECT_MS
from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import EXACT, UP_TO, Events, Window, likely_from_ms
from spark_jobs.replay.sensors.amounts import connections_in_turn, encoded, floats
from spark_jobs.replay.sensors.change_moments import locate_changes
from spark_jobs.replay.sensors.client_requests import NO_SENSOR, ClientRequests
from spark_jobs.replay.sensors.line_lags import NO_STOPS, LineLags, Stops
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.resolve.timeline.resolution import QuotaTimeline, Resolution
from spark_jobs.warehouse.tables import I32, I64, LOCATED_CHANGES

REQUEST_COLUMNS = (
    "broker_id", "connection", "user", "client_id", "recorded_earliest_ms", "recorded_latest_ms",
    "recorded_estimate_us", "handler_time_us", "remote_time_us", "acks", "request_bytes",
    "throttle_time_ms", "log_time_ms", "source_file", "source_line",
)  # fmt: skip
# In a longer silence of its log a broker may have been stopped.
_RAN_MS = 500


def located_changes(
    requests: pa.Table,
    timeline: QuotaTimeline,
    rules: Mapping[int, BrokerRules],
    answered_ms: Sequence[int],
    earliest_ms: Sequence[int],
    written_ms: Int64s,
    stops: Stops = NO_STOPS,
    *,
    uses_zookeeper: bool = False,
) -> pa.Table:
    """Return the times when changes answered at ``answered_ms`` were in force (LOCATED_CHANGES).

    Those are in order; ``earliest_ms`` says when each may have been in force at the earliest.
    ``requests`` are one broker's produce requests (REQUEST_COLUMNS) around them, in any order, and
    ``written_ms`` the moments of all its lines around them; ``stops`` are of its process. Requests
    of unknown size are left out with all others of their client.
    """
    broker_id = requests["broker_id"][0].as_py()
    samples, window_ms = rules[broker_id].of_type(QuotaType.PRODUCER_BYTE_RATE)
    window = Window(samples, window_ms, rules[broker_id].profile.keeps_overlapping_sample)
    nominal_ms = np.array(answered_ms, np.int64)
    clients = _clients(requests, timeline, nominal_ms.tolist(), stops)
    restarts_ms = timeline.restarts_of(broker_id)
    latest_ms = latest_in_force_ms(nominal_ms, written_ms)
    if uses_zookeeper:
        latest_ms = latest_reconnected_ms(nominal_ms, latest_ms, stops)
    first_ms = np.array(earliest_ms, np.int64)
    in_force_ms = locate_changes(clients, nominal_ms, (first_ms, latest_ms), window, restarts_ms)
    return pa.table(
        [pa.array([broker_id] * len(nominal_ms), I32), nominal_ms, in_force_ms],
        schema=LOCATED_CHANGES,
    )


def latest_in_force_ms(nominal_ms: Int64s, written_ms: Int64s) -> Int64s:
    """Return when (ms) a broker that follows each change has it in force, at the latest.

    ``nominal_ms`` are the moments of the controller's answers, ``written_ms`` those of the broker's
    lines, both in order. A broker follows within CHANGE_LATEST_MS in which it runs: it may have
    been stopped wherever its log was silent for longer than _RAN_MS.

    >>> latest_in_force_ms(np.array([1_000]), np.arange(0, 9_000, 50)).tolist()
    [4000]
    >>> latest_in_force_ms(np.array([1_000]), np.array([0, 1_000, 7_000, 9_000])).tolist()
    [9000]
    """
    ran_ms = np.cumsum(np.minimum(np.diff(written_ms, prepend=written_ms[:1]), _RAN_MS))
    until = np.searchsorted(ran_ms, np.interp(nominal_ms, written_ms, ran_ms) + CHANGE_LATEST_MS)
    until_ms: Int64s = written_ms[np.minimum(until, len(written_ms) - 1)]
    return np.maximum(until_ms, nominal_ms + CHANGE_LATEST_MS)


def latest_reconnected_ms(nominal_ms: Int64s, latest_ms: Int64s, stops: Stops) -> Int64s:
    """Return ``latest_ms``, or later where a stop may have broken the connection to ZooKeeper.

    That is a stop of the process between a change's answer and the latest time without it.

    >>> at_ms, stop = np.array([1_000]), Stops(np.array([[500, 2_000]]))
    >>> latest_reconnected_ms(at_ms, np.array([4_000]), stop).tolist()
    [18000]
    >>> latest_reconnected_ms(at_ms + 1_500, np.array([5_500]), stop).tolist()
    [5500]
    """
    latest_ms = latest_ms.copy()
    for stopped_ms, ran_ms in stops.silent_ms.tolist():
        is_stopped = (stopped_ms <= latest_ms) & (ran_ms >= nominal_ms)
        told_ms = ran_ms + ZOOKEEPER_RECONNECT_MS + CHANGE_LATEST_MS
        latest_ms = np.where(is_stopped, np.maximum(latest_ms, told_ms), latest_ms)
    return latest_ms


def _clients(
    requests: pa.Table, timeline: QuotaTimeline, answered_ms: Sequence[int], stops: Stops
) -> list[ClientRequests]:
    batch = requests.sort_by(
        [("recorded_estimate_us", "ascending"), ("source_file", "ascending"),
         ("source_line", "ascending")]
    ).combine_chunks().to_batches()[0]  # fmt: skip
    whole = pa.Table.from_batches([batch])
    lags_ms = LineLags(stops).of(whole, np.arange(len(batch)))
    connection = connections_in_turn(
        encoded(whole["connection"]).indices.to_numpy(), batch["source_line"].to_numpy()
    )
    index = ClientIndex.of(batch)
    has_request_bound = ResolutionTable(timeline, {}).has_request_bound(
        index, batch["recorded_estimate_us"].to_numpy() // 1000
    )
    sensors: dict[tuple[str, str], int] = {}
    clients = []
    for code, (broker_id, user, client_id) in enumerate(index.clients):
        rows = np.flatnonzero(index.code == code)
        own = batch.take(pa.array(rows))
        if own["request_bytes"].null_count:
            continue
        resolutions = timeline.resolve(QuotaType.PRODUCER_BYTE_RATE, user, client_id, broker_id)
        after = [_in_force(resolutions, answered_ms[0] - 1 if answered_ms else 0)]
        after += [_in_force(resolutions, at_ms) for at_ms in answered_ms]
        clients.append(
            ClientRequests(
                events=_events(own, has_request_bound[rows], lags_ms[rows], connection[rows]),
                estimate_ms=own["recorded_estimate_us"].to_numpy() // 1000,
                sensors=[_sensor(resolution, sensors) for resolution in after],
                bounds=[np.nan if r.bound is None else r.bound for r in after],
            )
        )
    return clients


def _in_force(resolutions: Sequence[Resolution], at_ms: int) -> Resolution:
    return next(r for r in resolutions if r.valid_from_ms <= at_ms < r.valid_until_ms)


def _sensor(resolution: Resolution, sensors: dict[tuple[str, str], int]) -> int:
    if not resolution.is_enabled:
        return NO_SENSOR
    return sensors.setdefault((resolution.quota_user, resolution.quota_client_id), len(sensors))


def _events(
    rows: pa.RecordBatch, has_request_bound: np.ndarray, lags_ms: Int64s, connection: Int64s
) -> Events:
    latest_ms = rows["recorded_latest_ms"].to_numpy()
    return Events(
        earliest_ms=rows["recorded_earliest_ms"].to_numpy(),
        latest_ms=latest_ms,
        likely_from_ms=likely_from_ms(
            rows["recorded_earliest_ms"].to_numpy(),
            rows["recorded_estimate_us"].to_numpy() // 1000,
            rows["handler_time_us"].to_numpy(),
            rows["remote_time_us"].to_numpy(),
            floats(rows["acks"]),
        ),
        likely_until_ms=latest_ms,
        amount=floats(rows["request_bytes"]),
        bound=np.full(len(rows), np.nan),
        logged_throttle_time_ms=pc.cast(rows["throttle_time_ms"], I64).to_numpy(),
        evidence=np.where(has_request_bound, UP_TO, EXACT).astype(np.int8),
        line_lag_max_ms=lags_ms,
        connection=connection,
    )
