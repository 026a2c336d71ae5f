"""What brokers' own logs say of a batch's rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.rates.recorded_amounts import RecordedAmounts
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.resolve.broker_log import KNOWN_MS, NOT_STAMPED, BrokerLog
from spark_jobs.warehouse.tables import THROTTLE_RECORDS
from tests.builders.tables_builder import NOON_MS, row
from tests.spark_jobs.replay.sensors.request_rows import quota, requests, resolutions


def log(*starts: dict[str, Any], records: list[dict[str, Any]] | None = None) -> BrokerLog:
    rows = [row("broker_starts", **start) for start in starts]
    made = [row("throttle_records", **record) for record in records or ()]
    return BrokerLog.of_rows(rows, pa.Table.from_pylist(made, THROTTLE_RECORDS))


def amounts(broker_log: BrokerLog, *rows: dict[str, Any]) -> StreamRows:
    codes = {QuotaType.PRODUCER_BYTE_RATE: SensorCodes()}
    streams = RecordedAmounts(
        1, resolutions(quota(5e4)), codes, frozenset(), broker_log, LostRequests()
    )
    found = streams.rows(pa.Table.from_batches([requests(*rows)]), np.arange(len(rows)))
    return found[QuotaType.PRODUCER_BYTE_RATE]


def test_a_row_is_of_the_life_that_began_last_on_its_broker() -> None:
    starts = log({"started_ms": 100}, {"started_ms": 300, "source": "inferred"}, {"broker_id": 2})
    epochs = starts.epochs(np.array([1, 1, 1, 1, 3]), np.array([99, 100, 299, 300, 300]))
    assert epochs.restart_ms.tolist() == [0, 100, 100, 300, 0]


@pytest.mark.parametrize(
    ("start", "known_for_ms"),
    [
        ({"started_ms": 100}, KNOWN_MS),
        ({"started_ms": 100, "source": "inferred"}, KNOWN_MS),
        ({"started_ms": 39}, 110),
        ({"started_ms": 151}, 110),
    ],
    ids=["logged", "inferred", "before the log", "later"],
)
def test_a_sensor_is_known_from_a_start_on(start: dict[str, Any], known_for_ms: int) -> None:
    at_ms = np.array([150])
    epochs = log(start).epochs(np.array([1]), at_ms)
    assert epochs.known_for_ms(at_ms, np.array([40])).tolist() == [known_for_ms]


def test_an_amount_has_its_life_and_the_brokers_own_stamp() -> None:
    found = amounts(
        log({}, records=[{"at_ms": NOON_MS + 3}]), {"throttle_time_ms": 8}, {"throttle_time_ms": 0}
    )
    assert found.stamp_ms.tolist() == [NOON_MS + 3, NOT_STAMPED]
    assert found.restart_ms.tolist() == [NOON_MS - 30_000] * 2


@pytest.mark.parametrize(
    "other",
    [
        {"broker_id": 2},
        {"quota_type": "request_percentage"},
        {"quota_user": "bob"},
        {"quota_client_id": "app"},
        {"throttle_time_ms": 9},
        {"at_ms": NOON_MS + 50},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_record_of_another_sensor_throttle_or_time_is_not_the_rows(other: dict[str, Any]) -> None:
    found = amounts(log(records=[other]), {"throttle_time_ms": 8})
    assert found.stamp_ms.tolist() == [NOT_STAMPED]


def test_without_any_broker_log_nothing_is_known() -> None:
    found = amounts(BrokerLog(), {"throttle_time_ms": 8})
    assert (found.restart_ms.tolist(), found.stamp_ms.tolist()) == ([0], [NOT_STAMPED])
