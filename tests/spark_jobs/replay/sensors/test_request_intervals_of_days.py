"""What a sensor of a request quota may hold goes from day to day, and is not guessed."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.replay.sensors import request_intervals
from spark_jobs.replay.sensors.request_intervals import RequestIntervals
from spark_jobs.warehouse.tables import QUOTA_STATE
from tests.spark_jobs.replay.sensors.amount_rows import (
    batch_of,
    gathered,
    nothing_recorded,
    rows_of,
)
from tests.spark_jobs.replay.sensors.request_logs import (
    REQUEST,
    Row,
    bounds_ms,
    broker_throttles_ms,
    intervals,
    request,
    rows_logged,
)


def intervals_of_two_days(
    rows: list[Row], midnight: int, profile: RateProfile = RateProfile.RATE_3_8
) -> list[Row]:
    """Return what the rows from ``midnight`` on get where those before are another day's."""
    before = RequestIntervals(nothing_recorded(profile=profile))
    gathered(before, [batch_of(rows[:midnight])])
    kind = QUOTA_STATE.field("intervals").type
    held = pa.array([before.held()], kind)[0].as_py()
    after = RequestIntervals(nothing_recorded(profile=profile), held=held)
    return rows_of(gathered(after, [batch_of(rows[midnight:])]))


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
