"""Of which request a sample began with, the throttles of a rate window later tell."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.alignment.explanation import EXPLAINED
from spark_jobs.replay.alignment.start_evidence import unlikely_starts
from tests.builders.synthetic_broker import (
    PROFILES,
    Log,
    Traffic,
    audited,
    is_throttled,
    log_of,
    logged,
    share_within,
)


def true_starts(log: Log) -> np.ndarray:
    """Return the rows that began samples, in the order of their recording."""
    starts: list[int] = []
    for row in np.argsort(log.turn).tolist():
        at_ms = log.recorded_at_ms[row]
        if not starts or at_ms - log.recorded_at_ms[starts[-1]] >= log.window.window_ms:
            starts.append(row)
    return np.array(starts)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("clients", [1, 4, 12])
def test_what_began_a_sample_is_seldom_unlikely_and_half_of_what_stands_beside_it_is(
    clients: int, profile: RateProfile
) -> None:
    at_starts, beside = [], []
    for seed in range(6):
        log = logged(Traffic(seed=seed, clients=clients, profile=profile))
        arrays, window = log.events.arrays(), log.window
        unlikely = unlikely_starts(
            arrays, window.samples, window.window_ms, window.keeps_overlapping
        )
        starts = true_starts(log)
        near = np.unique(starts[:, np.newaxis] + np.array([-2, -1, 1, 2]))
        near = np.setdiff1d(near[(near >= 0) & (near < len(unlikely))], starts)
        # Of the last two rate windows no later throttle tells.
        told_ms = log.recorded_at_ms.max() - 2 * window.expire_age_ms
        at_starts.append(unlikely[starts[log.recorded_at_ms[starts] < told_ms]])
        beside.append(unlikely[near[log.recorded_at_ms[near] < told_ms]])
    assert np.concatenate(at_starts).mean() < 0.05
    assert np.concatenate(beside).mean() > 0.2


def test_nothing_is_unlikely_where_no_throttle_comes() -> None:
    log = logged(Traffic(seed=3, load=0.3))
    assert not is_throttled(log).any()
    window = log.window
    unlikely = unlikely_starts(
        log.events.arrays(), window.samples, window.window_ms, window.keeps_overlapping
    )
    assert not unlikely.any()


@pytest.mark.parametrize("keeps_overlapping", [False, True])
@pytest.mark.parametrize("gap_ms", [20, 40, 100])
def test_a_steady_client_first_throttled_half_a_minute_after_it_began_is_explained(
    gap_ms: int, keeps_overlapping: bool
) -> None:
    """One request in a window comes a second after the sample's first one, to the millisecond.

    So each window may begin with that one, or with the next: a billion ways in 30 s.
    """
    times_ms = list(range(0, 50_000, gap_ms))
    amounts = [20.0 * gap_ms if at_ms < 30_000 else 29.0 * gap_ms for at_ms in times_ms]
    window = Window(samples=11, window_ms=1000, keeps_overlapping=keeps_overlapping)
    log = log_of(times_ms, amounts, 23_000.0, window, early_ms=1, late_ms=1)
    first = int(is_throttled(log).argmax())
    assert 32_000 < times_ms[first] < 40_000
    result = audited(log, 256)
    assert (result.status == EXPLAINED).all()
    assert share_within(log, result.replayed_throttle_time_ms, 0) >= 0.99
