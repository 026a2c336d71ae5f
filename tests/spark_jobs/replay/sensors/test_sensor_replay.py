"""The replay pass: sensors in runs over batches, states carried, one decision per amount."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.sensors.aligned_rows import ALIGNED_AMOUNTS
from spark_jobs.replay.sensors.sensor_replay import (
    DECISION,
    STATE,
    BrokerRules,
    CarriedState,
    replay_sensors,
)
from spark_jobs.replay.verdicts.verdicts import Tolerances
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.amount_rows import amount as plain_amount

RULES = {
    broker: BrokerRules(profile, samples=11, window_ms=1000, controller_samples=11,
                        controller_window_ms=1000)
    for broker, profile in ((1, RateProfile.RATE_3_8), (2, RateProfile.RATE_3_3))
}  # fmt: skip
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)


def amount(at_ms: int, value: float, **columns: Any) -> dict[str, Any]:
    earlier = dict.fromkeys(("earliest_ms", "likely_from_ms", "response_earliest_ms"), at_ms - 1)
    own = {"source_line": at_ms, "client_id": "svc", "is_proven": False}
    return plain_amount(at_ms, value, **(earlier | own | columns))


def replay(
    rows: list[dict[str, Any]],
    cuts: list[int] | None = None,
    carried: dict[SensorKey, CarriedState] | None = None,
) -> list[dict[str, Any]]:
    """Replay ``rows`` as batches cut at ``cuts``."""
    bounds = [0, *sorted(cuts or ()), len(rows)]

    def batches() -> Iterator[pa.RecordBatch]:
        for begin, end in itertools.pairwise(bounds):
            yield pa.RecordBatch.from_pylist(rows[begin:end], schema=ALIGNED_AMOUNTS)

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
@settings(max_examples=40)
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
@settings(max_examples=40)
def test_where_batches_are_cut_changes_nothing(rows: list[dict[str, Any]], cuts: list[int]) -> None:
    cut, whole = replay(rows, [min(c, len(rows)) for c in cuts]), replay(rows)
    assert decisions(cut) == decisions(whole)
    assert states(cut) == states(whole)


@given(sequences, st.integers(0, 40))
@settings(max_examples=40)
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


@pytest.mark.parametrize("bound", [0.03, 0.06, 0.07, 1.0])
def test_a_full_bucket_is_one_whatever_its_bound(bound: float) -> None:
    mutation = {"quota_type": "controller_mutation_rate", "is_strict": True, "bound": bound}
    wide = amount(0, 1.0, earliest_ms=-80, **mutation)
    (state,) = states(replay([wide, amount(3_000_000, 1.0, earliest_ms=2_999_970, **mutation)]))
    assert state["bucket"]["debt_slack_ms"] == 30.0


def test_a_state_kept_under_other_settings_is_lost_with_the_restart_between() -> None:
    samples = tuple((NOON_MS - i * 1000, NOON_MS - i * 1000, 5e6) for i in range(12))
    key = (2, "producer_byte_rate", "alice", "")
    before = CarriedState(0, 40, 0, samples)
    (decided,) = decisions(replay([amount(0, 10.0, broker_id=2)], carried={key: before}))
    assert (decided["sensor_epoch"], decided["sensor_seq"]) == (1, 0)
    assert decided["replayed_throttle_time_ms"] == 0


def test_a_decision_without_a_bound_has_no_replayed_throttle() -> None:
    (decided,) = decisions(replay([amount(0, 5.0, bound=float("nan"))]))
    assert (decided["verdict"], decided["replayed_throttle_time_ms"]) == ("no_quota", None)
    assert decided["bound"] is None


RESTART_MS = NOON_MS + 5_000
HOUR_MS = 3_600_000


def restarted() -> list[dict[str, Any]]:
    before = [amount(at_ms, 9_000.0) for at_ms in (0, 500, 4_000)]
    after = [amount(at_ms, 10.0, restart_ms=RESTART_MS) for at_ms in (6_000, 6_500)]
    return before + after


@pytest.mark.parametrize("cuts", [[], [3], [2], [4], [3, 3], [1, 2, 3, 4]])
def test_a_restarted_broker_begins_a_sensors_next_epoch_with_nothing(cuts: list[int]) -> None:
    found = replay(restarted(), cuts)
    places = [(d["sensor_epoch"], d["sensor_seq"]) for d in decisions(found)]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [d["rate"] for d in decisions(found)][-2:] == [1.0, 20.0 / 10.5]
    (state,) = states(found)
    assert (state["sensor_epoch"], state["sensor_seq"]) == (1, 2)
    assert [s["value"] for s in state["samples"]] == [20.0]


def test_a_sensor_is_forgotten_once_kafkas_expiry_has_surely_run() -> None:
    def epochs(gap_ms: int) -> list[int]:
        return [d["sensor_epoch"] for d in decisions(replay([amount(0, 1.0), amount(gap_ms, 1.0)]))]

    assert epochs(HOUR_MS + 30_000) == [0, 0]
    assert epochs(HOUR_MS + 30_001) == [0, 1]


@pytest.mark.parametrize("gap_ms", [HOUR_MS + 1, HOUR_MS + 30_000, HOUR_MS + 30_001])
def test_what_is_left_after_an_hour_decides_as_an_empty_sensor_does(gap_ms: int) -> None:
    history = [amount(at_ms, 50_000.0) for at_ms in range(0, 15_000, 400)]
    later = [amount(15_000 + gap_ms + at_ms, 700.0) for at_ms in range(0, 30_000, 350)]
    columns = ("rate", "window_size_ms", "replayed_throttle_time_ms")
    kept = decisions(replay(history + later))[len(history) :]
    fresh = decisions(replay(later))
    assert [[d[c] for c in columns] for d in kept] == [[d[c] for c in columns] for d in fresh]


def test_a_bucket_that_was_restarted_is_full_again() -> None:
    mutation = {
        "quota_type": "controller_mutation_rate", "resource": "t", "is_strict": True, "bound": 1.0,
    }  # fmt: skip
    rows = [
        amount(0, 30.0, **mutation),
        amount(1_000, 1.0, logged_admitted=False, **mutation),
        amount(6_000, 1.0, restart_ms=RESTART_MS, **mutation),
    ]
    found = decisions(replay(rows))
    assert [d["replayed_admitted"] for d in found] == [True, False, True]
    assert [d["tokens"] for d in found] == [-19.0, -18.0, 10.0]
    assert [d["sensor_epoch"] for d in found] == [0, 0, 1]


KEY = (1, "producer_byte_rate", "alice", "")


@pytest.mark.parametrize(
    ("at_ms", "restart_ms", "place"),
    [
        (1_000, 0, (4, 7)),
        (1_000, NOON_MS - 60_000, (4, 7)),
        (1_000, NOON_MS + 500, (5, 0)),
        (HOUR_MS + 30_001, 0, (5, 0)),
    ],
    ids=["goes on", "started long before", "restarted since", "idle for an hour"],
)
def test_a_state_of_the_day_before_is_forgotten_like_any_other(
    at_ms: int, restart_ms: int, place: tuple[int, int]
) -> None:
    state = CarriedState(4, 7, 0, ((NOON_MS - 500, NOON_MS, 5_000.0),))
    (found,) = decisions(replay([amount(at_ms, 10.0, restart_ms=restart_ms)], carried={KEY: state}))
    assert (found["sensor_epoch"], found["sensor_seq"]) == place
    assert found["rate"] == (1.0 if place[0] == 5 else pytest.approx(5_010 / 10.5))
