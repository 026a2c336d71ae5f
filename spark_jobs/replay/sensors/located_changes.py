"""Requests of one broker around quota changes → when the broker learned of each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.alignment.changes import NO_SENSOR, ClientRequests, locate_changes
from spark_jobs.replay.alignment.events import EXACT, UP_TO, Events, Window
from spark_jobs.replay.sensors.amounts import floats
from spark_jobs.replay.sensors.likely_time import likely_from_ms
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.resolve.timeline.resolution import QuotaTimeline, Resolution
from spark_jobs.warehouse.tables import I32, I64, LOCATED_CHANGES

REQUEST_COLUMNS = (
    "broker_id", "user", "client_id", "recorded_earliest_ms", "recorded_latest_ms",
    "recorded_estimate_us", "handler_time_us", "remote_time_us", "acks", "request_bytes",
    "throttle_time_ms", "log_time_ms", "source_file", "source_line",
)  # fmt: skip


def located_changes(
    requests: pa.Table,
    timeline: QuotaTimeline,
    rules: Mapping[int, BrokerRules],
    answered_ms: Sequence[int],
) -> pa.Table:
    """Return the times when changes answered at ``answered_ms`` were in force (LOCATED_CHANGES).

    ``requests`` are one broker's produce requests (REQUEST_COLUMNS) around them, in any order.
    Requests of unknown size are left out with all others of their client.
    """
    broker_id = requests["broker_id"][0].as_py()
    samples, window_ms = rules[broker_id].of_type(QuotaType.PRODUCER_BYTE_RATE)
    window = Window(samples, window_ms, rules[broker_id].profile.keeps_overlapping_sample)
    nominal_ms = np.array(sorted(answered_ms), np.int64)
    clients = _clients(requests, timeline, nominal_ms.tolist())
    in_force_ms = locate_changes(clients, nominal_ms, window)
    return pa.table(
        [pa.array([broker_id] * len(nominal_ms), I32), nominal_ms, in_force_ms],
        schema=LOCATED_CHANGES,
    )


def _clients(
    requests: pa.Table, timeline: QuotaTimeline, answered_ms: Sequence[int]
) -> list[ClientRequests]:
    batch = requests.sort_by(
        [("recorded_estimate_us", "ascending"), ("source_file", "ascending"),
         ("source_line", "ascending")]
    ).combine_chunks().to_batches()[0]  # fmt: skip
    index = ClientIndex.of(batch)
    request = ResolutionTable(timeline, {}).resolve(
        QuotaType.REQUEST_PERCENTAGE, index, batch["recorded_estimate_us"].to_numpy() // 1000
    )
    has_request_bound = ~np.isnan(request.bound) & request.is_enabled
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
                events=_events(own, has_request_bound[rows]),
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


def _events(rows: pa.RecordBatch, has_request_bound: np.ndarray) -> Events:
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
    )
