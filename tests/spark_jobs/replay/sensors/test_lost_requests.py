"""How many requests may be missing from the past of each amount's sensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ClientIndex
from spark_jobs.warehouse.tables import LOG_GAPS
from tests.builders.tables_builder import NOON_MS, row
from tests.spark_jobs.replay.sensors.request_rows import quota, requests, resolutions

FETCH = {"api_key": 1, "api_name": "FETCH", "response_bytes": 5_000}
COUNTED = {
    QuotaType.PRODUCER_BYTE_RATE: "PRODUCE",
    QuotaType.CONSUMER_BYTE_RATE: "FETCH",
    QuotaType.REQUEST_PERCENTAGE: None,
}
LATE_MS = NOON_MS + 60_000


def place(broker_id: int, after_ms: int, before_ms: int) -> dict[str, int]:
    return {"broker_id": broker_id, "after_ms": after_ms, "before_ms": before_ms}


def gap(*places: dict[str, int], **columns: Any) -> dict[str, Any]:
    return row("log_gaps", places=list(places), **columns)


def at(ms: int, **columns: Any) -> dict[str, Any]:
    return {
        "recorded_earliest_ms": ms - 2,
        "recorded_latest_ms": ms + 2,
        "recorded_estimate_us": ms * 1000,
        "log_time_ms": ms + 3,
        **columns,
    }


def lost(
    gaps: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    *quotas: dict[str, Any],
    window_ms: int = 12_000,
) -> list[tuple[str, int, float]]:
    table = pa.Table.from_pylist(gaps, schema=LOG_GAPS)
    resolved = resolutions(*quotas)
    gaps_of = LostRequests.of(table, resolved, {1: window_ms, 2: window_ms})
    batch = requests(*rows)
    at_ms = batch["recorded_estimate_us"].to_numpy() // 1000
    found = []
    for quota_type, api_name in COUNTED.items():
        on = resolved.resolve(quota_type, ClientIndex.of(batch), at_ms)
        counted = [api_name in (None, name) for name in batch["api_name"].to_pylist()]
        of_type = batch.filter(pa.array(counted & on.is_enabled))
        on = resolved.resolve(quota_type, ClientIndex.of(of_type), at_ms[counted & on.is_enabled])
        within = [
            of_type[name].to_numpy() for name in ("recorded_earliest_ms", "recorded_latest_ms")
        ]
        names = list(zip(on.quota_user.to_pylist(), on.quota_client_id.to_pylist(), strict=True))
        for i, broker_id in enumerate(of_type["broker_id"].to_pylist()):
            one = [moments[i : i + 1] for moments in within]
            missing, size = gaps_of.of_sensors(broker_id, quota_type, names, np.array([i]), *one)
            found.append((str(quota_type), int(missing[0]), float(size[0])))
    return found


def test_a_gap_counts_for_the_rates_that_may_rest_on_it() -> None:
    one = gap(place(1, LATE_MS, LATE_MS + 100), missing=3, request_bytes_max=50)
    rows = [at(LATE_MS + ms) for ms in (-3, 0, 5_000, 12_102, 12_103)]
    found = lost([one], rows, quota(5e4))
    assert found == [
        ("producer_byte_rate", 0, 0.0),
        ("producer_byte_rate", 3, 150.0),
        ("producer_byte_rate", 3, 150.0),
        ("producer_byte_rate", 3, 150.0),
        ("producer_byte_rate", 0, 0.0),
    ]


def test_a_rate_of_other_window_settings_looks_back_further() -> None:
    one = gap(place(1, LATE_MS, LATE_MS + 100))
    ((_, missing, _),) = lost([one], [at(LATE_MS + 20_000)], quota(5e4), window_ms=30_000)
    assert missing == 1


def test_only_the_sensor_that_the_client_feeds_on_that_broker_is_touched() -> None:
    one = gap(place(2, LATE_MS, LATE_MS + 100))
    rows = [
        at(LATE_MS + 200, broker_id=1),
        at(LATE_MS + 200, broker_id=2),
        at(LATE_MS + 200, broker_id=2, client_id="another of alice's"),
        at(LATE_MS + 200, broker_id=2, user="bob"),
    ]
    assert [missing for _, missing, _ in lost([one], rows, quota(5e4))] == [0, 1, 1, 0]


def test_a_gap_that_can_be_of_two_brokers_counts_on_both() -> None:
    one = gap(place(1, LATE_MS, LATE_MS + 100), place(2, LATE_MS + 50, LATE_MS + 90))
    rows = [at(LATE_MS + 200, broker_id=broker) for broker in (1, 2)]
    assert [missing for _, missing, _ in lost([one], rows, quota(5e4))] == [1, 1]


def test_a_client_that_never_fetched_lost_no_fetch() -> None:
    quotas = quota(5e4), quota(5e4, quota_type="consumer_byte_rate")
    producer = gap(place(1, LATE_MS, LATE_MS + 100), response_bytes_max=None)
    assert lost([producer], [at(LATE_MS, **FETCH)], *quotas) == [("consumer_byte_rate", 0, 0.0)]
    both = producer | {"response_bytes_max": 700}
    assert lost([both], [at(LATE_MS, **FETCH)], *quotas) == [("consumer_byte_rate", 1, 700.0)]


def test_handler_time_that_may_be_missing_counts_in_percent() -> None:
    one = gap(place(1, LATE_MS, LATE_MS + 100), missing=2, handler_time_us_max=1_000)
    found = lost([one], [at(LATE_MS)], quota(10.0, quota_type="request_percentage"))
    assert found == [("request_percentage", 2, pytest.approx(0.2))]


def test_where_the_client_moved_to_another_sensor_within_the_gap_both_may_miss_it() -> None:
    own = quota(1e4, quota_client_id="app", valid_from_ms=LATE_MS + 50)
    one = gap(place(1, LATE_MS, LATE_MS + 100))
    rows = [at(LATE_MS + 20), at(LATE_MS + 200)]
    assert [m for _, m, _ in lost([one], rows, quota(5e4), own)] == [1, 1]


def test_what_went_to_a_broker_without_a_log_is_not_missing_from_the_others() -> None:
    one = gap(place(1, LATE_MS, LATE_MS + 100), cause="other_broker")
    assert [m for _, m, _ in lost([one], [at(LATE_MS)], quota(5e4))] == [0]


def test_without_gaps_nothing_is_missing() -> None:
    assert lost([], [at(LATE_MS)], quota(5e4)) == [("producer_byte_rate", 0, 0.0)]
