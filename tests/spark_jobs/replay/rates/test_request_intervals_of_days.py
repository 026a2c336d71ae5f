"""What a sensor of a request quota may hold goes from day to day, and is not guessed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.rates import request_intervals
from spark_jobs.replay.rates.stream_tables import states
from spark_jobs.replay.sensors.sensor_states import CarriedState
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.request_logs import (
    REQUEST,
    REQUEST_PERCENTAGE,
    Row,
    bounds_ms,
    broker_throttles_ms,
    intervals,
    opened,
    request,
    rows_logged,
)
from tests.spark_jobs.replay.rates.stream_logs import decided

KEY = SensorKey(1, REQUEST_PERCENTAGE, "alice", "")
HELD = CarriedState(0, 1, 0, ((NOON_MS - 9, NOON_MS - 9, 5.0),))


def handed_on(
    rows: list[Row], profile: RateProfile = RateProfile.RATE_3_8
) -> dict[SensorKey, CarriedState]:
    """Return the states after a day's rows."""
    before = opened(profile=profile)
    decided(before, rows)
    return dict(CarriedState.of_row(row) for row in states(before, None).to_pylist())


def intervals_of_two_days(
    rows: list[Row], midnight: int, profile: RateProfile = RateProfile.RATE_3_8
) -> list[Row]:
    """Return what the rows from ``midnight`` on get where those before are another day's."""
    carried = handed_on(rows[:midnight], profile)
    return intervals(rows[midnight:], profile=profile, carried=carried)


@given(
    before=st.lists(REQUEST, min_size=1, max_size=12),
    after=st.lists(REQUEST, min_size=1, max_size=12),
    share=st.sampled_from([0.3, 0.8, 0.9, 0.95, 1.0, 1.05]),
    profile=st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8]),
    chance=st.randoms(use_true_random=False),
)
@settings(max_examples=150)
def test_what_a_broker_throttles_after_midnight_is_inside_what_is_handed_on(
    before: list[tuple[Any, ...]],
    after: list[tuple[Any, ...]],
    share: float,
    profile: RateProfile,
    chance: random.Random,
) -> None:
    sent, midnight = [*before, *after], len(before)
    spent = sum(
        (handler_us + network_us / 2) * PERCENT_PER_US for _, handler_us, network_us, *_ in sent
    )
    rows = rows_logged(sent, share * max(spent, 0.1) / 10)
    found = bounds_ms(intervals_of_two_days(rows, midnight, profile))
    written_ms = max(row["log_time_ms"] for row in rows[:midnight])
    for row, (least, most) in zip(rows[midnight:], found, strict=True):
        # Only where a request may have come before one of the day before is nothing said.
        assert (least is None) == (most is None) == (row["earliest_ms"] <= written_ms)
    for _ in range(5):
        truth = broker_throttles_ms(rows, profile, chance)[midnight:]
        assert all(
            least is None or most is None or least <= true <= most
            for (least, most), true in zip(found, truth, strict=True)
        ), (found, truth)


def without_a_pause(n: int, chance: random.Random) -> list[Row]:
    """Return requests of one connection with a few milliseconds between, near their bound."""
    rows, at_ms = [], 0
    for i in range(n):
        at_ms += chance.randint(5, 40)
        rows.append(request(at_ms, int(chance.expovariate(1 / 1150)), source_line=i))
    return rows


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
def test_a_busy_sensor_is_known_as_well_after_midnight_as_before(
    monkeypatch: pytest.MonkeyPatch, profile: RateProfile
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    rows = without_a_pause(2_500, random.Random(5))
    assert intervals_of_two_days(rows, 1_000, profile) == intervals(rows, profile=profile)[1_000:]


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
def test_when_samples_begin_is_not_guessed_from_where_the_log_of_a_busy_sensor_begins(
    monkeypatch: pytest.MonkeyPatch, profile: RateProfile
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    guessed_wrong = 0
    for seed in range(4):
        chance = random.Random(seed)
        rows = without_a_pause(3_000, chance)
        truth = broker_throttles_ms(rows, profile, chance)[800:]
        assert sum(ms > 0 for ms in truth) > 300
        found = bounds_ms(intervals(rows[800:], profile=profile, is_state_known=False))
        told = [
            (*bounds, true)
            for bounds, true in zip(found, truth, strict=True)
            if bounds[0] is not None
        ]
        assert len(told) > 800
        assert all(least <= true <= most for least, most, true in told)
        guessed = bounds_ms(intervals(rows[800:], profile=profile))[-len(told) :]
        guessed_wrong += sum(
            not least <= true <= most
            for (least, most), (*_, true) in zip(guessed, told, strict=True)
        )
    assert guessed_wrong > 100, "a wrong guess would not be seen"


def is_said(rows: list[Row], **held: Any) -> list[bool]:
    return [least is not None for least, _ in bounds_ms(intervals(rows, **held))]


def request_times(*times_ms: int, **columns: Any) -> list[Row]:
    return [request(at_ms, 10_000, **columns) for at_ms in times_ms]


def test_a_sensor_that_held_something_the_day_before_is_known_after_two_spans() -> None:
    rows = request_times(0, 21_999, 22_000)
    assert is_said(rows, carried={KEY: HELD}) == [False, False, True]
    assert is_said(rows, carried={KEY._replace(quota_client_id="other"): HELD}) == [True] * 3


def test_what_was_held_under_other_settings_is_not_taken_over() -> None:
    (state,) = handed_on(request_times(*range(0, 9_000, 1_000))).values()
    fewer = CarriedState(0, 9, 0, state.samples[:3], intervals=state.intervals)
    rows = request_times(9_100, 31_000)
    assert is_said(rows, carried={KEY: fewer}, samples=4) == [False, True]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (request_times(0, restart_ms=NOON_MS - 5), [True]),
        (request_times(0, restart_ms=NOON_MS - 50), [False]),
        (request_times(EXPIRED_AFTER_MS), [True]),
        (request_times(0, EXPIRED_AFTER_MS + 1), [False, True]),
    ],
    ids=["restarted since", "restarted before", "idle since", "idle later"],
)
def test_what_was_held_the_day_before_is_forgotten_with_a_restart_or_after_an_hour(
    rows: list[Row], expected: list[bool]
) -> None:
    assert is_said(rows, carried={KEY: HELD}) == expected


def test_a_restarted_broker_counts_from_nothing() -> None:
    rows = [request(0, 900_000), *request_times(500, restart_ms=NOON_MS + 100)]
    assert [most for _, most in bounds_ms(intervals(rows))] == [1000, 0]
