from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_jobs.judge.explain_stretches import (
    HISTORY_COLUMNS,
    other_quotas,
    sensors_in,
)
from spark_jobs.warehouse.tables import DECISIONS
from tests.builders.tables_builder import row


def decisions(*rows: dict[str, Any]) -> pa.Table:
    schema = pa.schema([DECISIONS.field(name) for name in HISTORY_COLUMNS])
    return pa.Table.from_pylist([row("decisions", **r) for r in rows], schema=schema)


def change(from_ms: int, until_ms: int | None, bound: float, **columns: Any) -> dict[str, Any]:
    return row(
        "quota_changes", valid_from_ms=from_ms, valid_until_ms=until_ms, bound=bound, **columns
    )


def found(*changes: dict[str, Any], **columns: Any) -> list[tuple[str, float, str]]:
    (batch,) = decisions({"bound": 30.0, **columns}).to_batches()
    return [(q.hypothesis, q.bound, q.level) for q in other_quotas(changes, batch, 1000, 2000)]


def test_earlier_values_of_the_entity_in_force_are_previous_quotas() -> None:
    changes = change(0, 500, 10.0), change(500, 1000, 20.0), change(1000, None, 30.0)
    assert found(*changes) == [("previous_quota", 10.0, "user"), ("previous_quota", 20.0, "user")]


def test_later_values_other_types_clients_and_brokers_are_none() -> None:
    assert found(
        change(2500, None, 10.0),
        change(0, 500, 10.0, quota_type="consumer_byte_rate"),
        change(0, 500, 10.0, quota_user="bob"),
        change(0, 500, 10.0, broker_id=2),
    ) == []  # fmt: skip


def test_what_held_then_at_another_level_may_have_been_in_force() -> None:
    default = {"quota_user": "<default>"}
    by_id = {"quota_user": None, "quota_client_id": "app"}
    assert found(
        change(0, None, 10.0, **default),
        change(0, 5000, 20.0, **by_id),
        change(0, 500, 5.0, **by_id),
    ) == [("other_level", 10.0, "default-user"), ("other_level", 20.0, "client-id")]  # fmt: skip


def test_where_no_quota_holds_every_one_that_did_is_a_previous_one() -> None:
    changes = change(0, 900, 10.0), change(0, 800, 20.0, quota_user="<default>")
    assert found(*changes, bound=None, quota_level=None) == [
        ("previous_quota", 10.0, "user"),
        ("previous_quota", 20.0, "default-user"),
    ]


def test_decisions_come_apart_by_sensor_in_recording_order() -> None:
    mixed = decisions(
        {"broker_id": 2, "sensor_seq": 1},
        {"broker_id": 1, "sensor_epoch": 1, "sensor_seq": 0},
        {"broker_id": 2, "sensor_seq": 0},
        {"broker_id": 1, "sensor_epoch": 0, "sensor_seq": 7},
        {"broker_id": 1, "quota_user": "bob"},
    )
    parts = [
        [
            (r["broker_id"], r["quota_user"], r["sensor_epoch"], r["sensor_seq"])
            for r in s.to_pylist()
        ]
        for s in sensors_in(mixed)
    ]
    assert parts == [
        [(1, "alice", 0, 7), (1, "alice", 1, 0)],
        [(1, "bob", 0, 0)],
        [(2, "alice", 0, 0), (2, "alice", 0, 1)],
    ]
    assert sensors_in(decisions()) == []
