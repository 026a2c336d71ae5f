"""The replay pass: sensors in runs over batches, states carried, one decision per amount."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.judge.verdicts import Tolerances
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.transforms.amounts import AMOUNTS
from spark_jobs.transforms.sensor_replay import (
    DECISION,
    STATE,
    BrokerRules,
    CarriedState,
    SensorKey,
    replay_sensors,
)
from tests.tables_builder import NOON_MS

RULES = {
    broker: BrokerRules(profile, samples=11, window_ms=1000, controller_samples=11,
                        controller_window_ms=1000)
    for broker, profile in ((1, RateProfile.RATE_3_8), (2, RateProfile.RATE_3_3))
}  # fmt: skip
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)


def amount(at_ms: int, value: float, **columns: Any) -> dict[str, Any]:
    return {
        "broker_id": 1,
        "quota_type": "producer_byte_rate",
        "quota_user": "alice",
        "quota_client_id": "",
        "order_us": (NOON_MS + at_ms) * 1000,
        "source_file": "f",
        "source_line": at_ms,
        "resource_index": 0,
        "resource": None,
        "connection": "c",
        "correlation_id": 1,
        "api_name": "PRODUCE",
        "api_version": 11,
        "user": "alice",
        "client_id": "svc",
        "quota_level": "user",
        "log_time_ms": NOON_MS + at_ms,
        "recorded_at_ms": NOON_MS + at_ms,
        "interval_ms": 1,
        "amount": value,
        "behaviour": RECORD,
        "is_strict": False,
        "bound": 1000.0,
        "known_for_ms": 100_000,
        "change_distance_ms": 100_000,
        "has_request_bound": False,
        "logged_throttle_time_ms": 0,
        "logged_admitted": True,
    } | columns


def replay(
    rows: list[dict[str, Any]],
    cuts: list[int] | None = None,
    carried: dict[SensorKey, CarriedState] | None = None,
) -> list[dict[str, Any]]:
    """Replay ``rows`` as batches cut at ``cuts``."""
    bounds = [0, *sorted(cuts or ()), len(rows)]

    def batches() -> Iterator[pa.RecordBatch]:
        for begin, end in itertools.pairwise(bounds):
            yield pa.RecordBatch.from_pylist(rows[begin:end], schema=AMOUNTS)

    run = replay_sensors(RULES, carried or {}, TOLERANCES)
    return [row for batch in run(batches()) for row in batch.to_pylist()]


def decisions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["row_kind"] == DECISION]


def states(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["row_kind"] == STATE]


sequences = st.lists(
    st.tuples(st.sampled_from([0, 1, 300, 999, 1000, 12_000]), st.integers(1, 20_000)),
    min_size=1,
    max_size=40,
)


@st.composite
def sorted_amounts(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for broker_id, user in ((1, "alice"), (1, "bob"), (2, "alice")):
        at_ms = 0
        for gap_ms, value in draw(sequences):
            at_ms += gap_ms
            rows.append(amount(at_ms, float(value), broker_id=broker_id, quota_user=user))
    return rows


@given(sorted_amounts())
@settings(max_examples=40, deadline=None)
def test_every_decision_is_what_the_readable_rule_says(rows: list[dict[str, Any]]) -> None:
    rates: dict[tuple[int, str], Rate] = {}
    for row, decided in zip(rows, decisions(replay(rows)), strict=True):
        key = (row["broker_id"], row["quota_user"])
        rate = rates.setdefault(key, Rate(RULES[row["broker_id"]].profile))
        rate.record(row["amount"], row["recorded_at_ms"])
        assert decided["rate"] == rate.measure(row["recorded_at_ms"])
        assert decided["amount"] == row["amount"]
    assert [s["sensor_seq"] for s in states(replay(rows))] == [
        sum((r["broker_id"], r["quota_user"]) == key for r in rows) for key in rates
    ]


@given(sorted_amounts(), st.lists(st.integers(0, 120), max_size=5))
@settings(max_examples=40, deadline=None)
def test_where_batches_are_cut_changes_nothing(rows: list[dict[str, Any]], cuts: list[int]) -> None:
    cut, whole = replay(rows, [min(c, len(rows)) for c in cuts]), replay(rows)
    assert decisions(cut) == decisions(whole)
    assert states(cut) == states(whole)


@given(sequences, st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_a_day_that_takes_over_the_states_goes_on_as_if_never_cut(
    sequence: list[tuple[int, int]], cut: int
) -> None:
    at_ms, rows = 0, []
    for gap_ms, value in sequence:
        at_ms += gap_ms
        rows.append(amount(at_ms, float(value)))
    cut = min(cut, len(rows))
    first = replay(rows[:cut])
    second = replay(rows[cut:], carried=dict(CarriedState.of_row(row) for row in states(first)))
    whole = replay(rows)
    assert decisions(first) + decisions(second) == decisions(whole)
    if cut < len(rows):
        assert states(second) == states(whole)


def test_an_empty_day_decides_nothing() -> None:
    assert replay([]) == []


def test_a_mutations_bucket_is_carried_too() -> None:
    def mutation(at_ms: int, **columns: Any) -> dict[str, Any]:
        strict = {"quota_type": "controller_mutation_rate", "is_strict": True, "bound": 1.0}
        return amount(at_ms, 30.0, **strict, **columns)

    first = replay([mutation(0)])
    (state,) = states(first)
    assert state["tokens"] == pytest.approx(11.0 - 30.0)
    (decided,) = decisions(replay([mutation(1000)], carried=dict([CarriedState.of_row(state)])))
    assert not decided["replayed_admitted"]
    assert decided["verdict"] == "wrongly_admitted"
    assert decided["sensor_seq"] == 1


def test_a_state_kept_under_other_settings_is_lost_with_the_restart_between() -> None:
    samples = tuple((NOON_MS - i * 1000, NOON_MS - i * 1000, 5e6) for i in range(12))
    key = (2, "producer_byte_rate", "alice", "")
    before = CarriedState(0, 40, 0, samples, None, None)
    (decided,) = decisions(replay([amount(0, 10.0, broker_id=2)], carried={key: before}))
    assert (decided["sensor_epoch"], decided["sensor_seq"]) == (1, 40)
    assert decided["replayed_throttle_time_ms"] == 0


def test_a_decision_without_a_bound_has_no_replayed_throttle() -> None:
    (decided,) = decisions(replay([amount(0, 5.0, bound=float("nan"))]))
    assert (decided["verdict"], decided["replayed_throttle_time_ms"]) == ("no_quota", None)
    assert decided["bound"] is None
