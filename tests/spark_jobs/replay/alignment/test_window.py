"""A log searched window after window says what it says when it is searched at once."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.alignment.events import Samples
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from spark_jobs.replay.alignment.window import (
    WIDTHS,
    align_window,
)
from tests.builders.synthetic_broker import (
    PROFILES,
    Log,
    Traffic,
    audited,
    audited_in_windows,
    is_throttled,
    log_of,
    logged,
    with_throttles,
)


def day(profile: str, requests: int = 900) -> Log:
    return logged(
        Traffic(
            seed=8,
            requests=requests,
            profile=profile,
            samples=5,
            window_ms=300,
            mean_gap_ms=20.0,
            bounds=((0, 199_999.0),),
        )
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("rows", [250, 400])
def test_windows_explain_what_the_whole_explains(profile: str, rows: int) -> None:
    log = day(profile)
    parts = audited_in_windows(log, rows)
    assert sorted(parts.placed.order.tolist()) == list(range(len(log.turn)))
    assert (audited(log, 64).status == EXPLAINED).all()
    assert np.mean(parts.status == EXPLAINED) >= 0.998
    gap_ms = np.abs(parts.replayed_throttle_time_ms - log.events.logged_throttle_time_ms)
    assert np.mean(gap_ms[is_throttled(log)] <= 1) >= 0.995
    assert is_throttled(log).sum() > 300


def test_what_is_settled_are_the_first_requests_and_later_ones_are_a_rate_window_away() -> None:
    log = day(PROFILES[1], requests=400)
    nothing = Samples.empty(log.window.slots)
    aligned = align_window(log.events, nothing, log.window, is_last=False)
    settled = aligned.placed.order[: aligned.fixed]
    assert 0 < aligned.fixed < 400
    assert sorted(settled.tolist()) == list(range(aligned.fixed))
    times = aligned.placed.recorded_at_ms
    assert times[-1] - times[aligned.fixed - 1] > log.window.expire_age_ms
    assert align_window(log.events, nothing, log.window, is_last=True).fixed == 400


def test_a_window_shorter_than_the_rate_window_settles_half_and_goes_on() -> None:
    log = log_of(range(0, 500, 10), [10.0] * 50, 100_001.0, Traffic().window)
    nothing = Samples.empty(log.window.slots)
    aligned = align_window(log.events, nothing, log.window, is_last=False)
    assert 1 <= aligned.fixed <= 26


def test_a_lie_and_a_wrong_bound_stay_unexplained_however_widely_one_searches() -> None:
    log = day(PROFILES[1], requests=300)
    row = int(np.flatnonzero(log.events.logged_throttle_time_ms > 200)[3])
    lie = with_throttles(log, lambda throttles: throttles.__setitem__(row, 0))
    result = audited(lie, 64)
    assert (result.status == UNEXPLAINED).sum() == 1
    nothing = Samples.empty(log.window.slots)
    aligned = align_window(lie.events, nothing, log.window, is_last=True)
    assert aligned.width == WIDTHS[0]
    assert (aligned.placed.order[aligned.placed.status == UNEXPLAINED] == row).all()
    wrong = log._replace(events=log.events._replace(bound=log.events.bound * 1.05))
    found = align_window(wrong.events, nothing, log.window, is_last=True)
    assert (found.placed.status == UNEXPLAINED).sum() > 0.9 * is_throttled(log).sum()
