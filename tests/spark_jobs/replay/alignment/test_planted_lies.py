"""A throttle that the broker did not give stays unexplained, and pulls no other."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from tests.builders.synthetic_broker import (
    PROFILES,
    Log,
    Traffic,
    audited,
    is_throttled,
    logged,
    replayed_truth,
    with_throttles,
)

# Nearer to a purge, or to where a window becomes full, another admissible time may throttle
# otherwise by a whole sample or window.
CLEAR_MS = 100
# Less than this some admissible time may take away.
CLEAR_THROTTLE_MS = 60
WINDOWS = ((6, 500), (11, 1000))


def log_of_window(samples: int, window_ms: int, profile: str, seed: int) -> Log:
    return logged(
        Traffic(
            seed=seed,
            requests=450,
            profile=profile,
            samples=samples,
            window_ms=window_ms,
            mean_gap_ms=samples * window_ms / 80,
        )
    )


def clear_rows(log: Log) -> Int64s:
    """Return the throttled rows of which no admissible time says otherwise."""
    truth, window_ms = replayed_truth(log), log.window.window_ms
    into_window_ms = truth.window_size_ms % window_ms
    is_clear = (truth.purge_margin_ms > CLEAR_MS) & (into_window_ms > CLEAR_MS)
    is_clear &= into_window_ms < window_ms - CLEAR_MS
    is_large = log.events.logged_throttle_time_ms > CLEAR_THROTTLE_MS
    return np.flatnonzero(is_throttled(log) & is_large & is_clear)


def with_lies(log: Log, rows: Int64s, rng: np.random.Generator) -> Log:
    """Half the lies say nothing was thrown, half that 300 to 1500 ms more were."""
    more = rng.integers(300, 1500, len(rows))
    is_silent = rng.random(len(rows)) < 0.5

    def lie(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[rows] = np.where(is_silent, 0, throttle_time_ms[rows] + more)

    return with_throttles(log, lie)


@pytest.mark.parametrize(("samples", "window_ms"), WINDOWS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_single_lie_stays_unexplained_and_pulls_no_neighbour(
    profile: str, samples: int, window_ms: int
) -> None:
    log = log_of_window(samples, window_ms, profile, seed=samples)
    honest = audited(log, 64)
    assert (honest.status == EXPLAINED).all()
    rng = np.random.default_rng(3)
    for row in rng.choice(clear_rows(log), 6, replace=False):
        liar = audited(with_lies(log, np.array([row]), rng), 64)
        others = np.arange(len(log.turn)) != row
        assert liar.status[row] == UNEXPLAINED
        assert (liar.status[others] == EXPLAINED).all()
        true_ms = log.events.logged_throttle_time_ms
        gap_ms = np.abs(liar.replayed_throttle_time_ms - true_ms)
        assert gap_ms[others].max() <= 1
        # The replay says what the broker would have thrown.
        assert gap_ms[row] <= 5


@pytest.mark.parametrize("profile", PROFILES)
def test_of_three_percent_lies_all_are_found_and_all_else_stays_explained(profile: str) -> None:
    lies = 0
    for seed, (samples, window_ms) in enumerate(WINDOWS + WINDOWS):
        log = log_of_window(samples, window_ms, profile, seed)
        rng = np.random.default_rng(seed)
        rows = rng.choice(
            clear_rows(log), max(3, is_throttled(log).sum() * 3 // 100), replace=False
        )
        result = audited(with_lies(log, rows, rng), 128)
        is_lie = np.isin(np.arange(len(log.turn)), rows)
        assert (result.status[is_lie] == UNEXPLAINED).all()
        assert (result.status[~is_lie] == EXPLAINED).all()
        gap_ms = np.abs(result.replayed_throttle_time_ms - log.events.logged_throttle_time_ms)
        assert gap_ms[~is_lie].max() <= 1
        lies += len(rows)
    assert lies >= 12


def test_two_lies_in_a_row_do_not_move_the_sample_that_they_agree_on() -> None:
    """Both say that the oldest sample is 400 ms younger, which no line admits."""
    log = log_of_window(11, 1000, PROFILES[1], seed=4)
    clear = clear_rows(log)
    pair = clear[np.flatnonzero(np.diff(clear) == 1)[0] :][:2]

    def lie(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[pair] += 400

    result = audited(with_throttles(log, lie), 64)
    is_lie = np.isin(np.arange(len(log.turn)), pair)
    assert (result.status[is_lie] == UNEXPLAINED).all()
    assert (result.status[~is_lie] == EXPLAINED).all()
