from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.judge.causes.hypotheses import OtherReplay, explain_stretch
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretches import Stretch, find_stretches, losses_before, losses_between
from spark_jobs.judge.explain_stretches import (
    HISTORY_COLUMNS,
    lost_at,
    lost_state,
    other_profiles,
    other_quotas,
    sensors_in,
)
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.warehouse.tables import DECISIONS
from tests.builders.tables_builder import row
from tests.spark_jobs.judge.causes.sensor_builder import START_MS, constant, history

RULES = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)


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


@pytest.mark.parametrize("is_fetch", [False, True])
def test_another_rate_profile_is_told_by_its_throttles(is_fetch: bool) -> None:
    older = history(
        constant(50_000.0),
        constant(50_000.0),
        broker_profile=RateProfile.RATE_3_3,
        is_fetch=is_fetch,
    ).with_attempts()
    stretches = find_stretches(older, 5, 10)
    assert stretches
    replays = other_profiles(older, RULES)
    told = [explain_stretch(older, s, (), replays) for s in stretches]
    assert {(t.winner.hypothesis, t.winner.detail) for t in told if t} == {
        ("other_rate_profile", "rate_3_3")
    }


def test_a_replay_by_the_same_profile_is_the_replay() -> None:
    honest = history(constant(50_000.0), constant(50_000.0), broker_profile=RateProfile.RATE_3_8)
    as_older = BrokerRules(RateProfile.RATE_3_3, 11, 1000, 11, 1000)
    same = next(r for r in other_profiles(honest, as_older) if r.detail == "rate_3_8")
    np.testing.assert_array_equal(same.rate, honest.rate)
    np.testing.assert_array_equal(same.window_size_ms, honest.window_size_ms)


def lost(of: SensorDecisions, stretch: Stretch, losses: range) -> tuple[int, OtherReplay]:
    first = lost_at(of, stretch, RULES, losses)
    assert first is not None
    return first, lost_state(of, stretch, RULES, first)


def test_a_lost_state_is_told_until_the_windows_have_passed() -> None:
    forgetful = history(constant(50_000.0), constant(50_000.0), forgets_at_ms=30_000)
    (stretch,) = find_stretches(forgetful, 5, 10)
    losses = losses_before(forgetful, stretch, 5, memory_ms=13_000)
    first, replay = lost(forgetful, stretch, losses)
    # A sample begun at another record looks the same: nothing is told without a wrong decision.
    assert explain_stretch(forgetful, stretch, (), [replay]) is None
    accused = replace(forgetful, is_wrong=forgetful.logged_ms == 0)
    explanation = explain_stretch(accused, stretch, (), [replay])
    assert explanation is not None
    assert explanation.winner.hypothesis == "state_lost"
    assert explanation.winner.share > 0.95
    assert 29_000 < forgetful.recorded_at_ms[stretch.first] - START_MS < 33_000
    before, since = forgetful.recorded_at_ms[first - 1 : first + 1] - START_MS
    assert before < 30_000 <= since


@pytest.mark.parametrize(("known_ms", "is_told"), [(29_990, True), (50_000, False)])
def test_a_loss_that_another_sensor_tells_needs_no_wrong_decision(
    known_ms: int, *, is_told: bool
) -> None:
    forgetful = history(constant(50_000.0), constant(50_000.0), forgets_at_ms=30_000)
    (stretch,) = find_stretches(forgetful, 5, 10)
    known = (START_MS + known_ms, START_MS + known_ms + 60)
    losses = losses_between(forgetful, stretch, [known])
    assert bool(losses) == is_told
    if is_told:
        _, replay = lost(forgetful, stretch, losses)
        assert explain_stretch(forgetful, stretch, (), [replay]) is None
        told = explain_stretch(forgetful, stretch, (), [replay], is_loss_known=True)
        assert told is not None
        assert told.winner.hypothesis == "state_lost"


def test_a_known_loss_explains_no_other_deviation() -> None:
    late = history(constant(50_000.0), constant(40_000.0))
    (stretch, *_) = find_stretches(late, 5, 10)
    at_ms = int(late.recorded_at_ms[stretch.first]) - 500
    _, replay = lost(late, stretch, losses_between(late, stretch, [(at_ms, at_ms + 100)]))
    told = explain_stretch(late, stretch, (), [replay], is_loss_known=True)
    assert told is None or told.winner.hypothesis != "state_lost"
