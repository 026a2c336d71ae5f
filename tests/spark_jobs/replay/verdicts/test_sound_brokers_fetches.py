"""A sound broker throttles the reader of a growing log: nothing that it does is called wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.verdicts.fetch_attempt import (
    ODD_ATTEMPTS,
    Attempt,
    FetchAttempts,
    FetchLimits,
    FetchRows,
    judge_fetch_attempts,
)

BOUND = 15_000.0
FETCH_MIN, FETCH_MAX = 16_384, 131_184
WAIT_MS = 500
START_MS = 1_794_312_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """A profile and window setting of a live scenario."""

    profile: RateProfile
    samples: int
    window_ms: int


WINDOWS = (
    Window(RateProfile.RATE_3_8, 31, 1_000),
    Window(RateProfile.RATE_3_3, 5, 3_000),
    Window(RateProfile.RATE_0_9, 11, 1_000),
)


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch as the broker recorded it, and what the log tells of it."""

    true_ms: int
    said_ms: int
    earliest_ms: int
    latest_ms: int
    size: int
    throttle_ms: int


def read(
    window: Window, chance: random.Random, backlog: int, per_s: int, off_ms: int
) -> list[Fetch]:
    """Return 45 s of fetches by one client, of a broker that has just begun."""
    rate = Rate(window.profile, window.samples, window.window_ms)
    found: list[Fetch] = []
    now_ms, position, said_ms = START_MS, 0, 0
    while now_ms < START_MS + 45_000:
        asked_ms = now_ms
        # As soon as there is enough to read, or after the longest wait.
        lacks = position + FETCH_MIN - backlog - per_s * (now_ms - START_MS) // 1_000
        now_ms += min(max(lacks * 1_000 // per_s + 1, 0), WAIT_MS)
        size = min(backlog + per_s * (now_ms - START_MS) // 1_000 - position, FETCH_MAX)
        now_ms += chance.randrange(3)
        amount = float(size + 14)
        throttle_ms = decide(rate, amount, BOUND, now_ms).throttle_time_ms
        if throttle_ms:
            rate.record(-amount, now_ms)
        else:
            position += size
        # A cold broker's first fetches take long.
        early, late = (chance.randrange(off_ms * (10 if not found else 1)) + 1 for _ in range(2))
        earliest_ms, latest_ms = min(asked_ms, now_ms - early), now_ms + late
        said_ms = max(said_ms, chance.randint(max(earliest_ms, now_ms - early), latest_ms))
        found.append(Fetch(now_ms, said_ms, earliest_ms, latest_ms, size, throttle_ms))
        now_ms += throttle_ms + chance.randrange(1, 30 if throttle_ms else 4)
    return found


def judged(fetches: list[Fetch], window: Window) -> FetchAttempts:
    """Return what is said of fetches of which a log tells."""
    n = len(fetches)
    throttle_ms = np.array([f.throttle_ms for f in fetches])
    is_throttled = throttle_ms > 0
    size = np.array([float(f.size) for f in fetches])
    said_ms = np.array([f.said_ms for f in fetches])
    states = SensorStates.allocate([window.profile], [window.samples], [window.window_ms])
    replayed = replay_rate(
        np.zeros(n, np.int64),
        said_ms,
        np.where(is_throttled, np.nan, size + 14),
        np.full(n, BOUND),
        np.where(is_throttled, RECORD_AND_UNRECORD, RECORD).astype(np.int8),
        throttle_ms,
        np.full(n, NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )
    rows = FetchRows(
        sensor=np.zeros(n, np.int64),
        position=np.zeros(n, np.int64),
        recorded_at_ms=said_ms,
        interval_ms=np.array([f.latest_ms - f.earliest_ms for f in fetches]),
        line_lag_max_ms=np.zeros(n, np.int64),
        amount=np.nan_to_num(replayed.amount),
        is_unrecorded=is_throttled,
        has_records=~is_throttled & (size > 0),
        has_errors=np.zeros(n, bool),
        bound=np.full(n, BOUND),
        fetch_max_bytes=np.full(n, 52_428_800.0),
        span_ms=np.full(n, window.samples * window.window_ms),
        logged_ms=throttle_ms,
        request_throttle_max_ms=np.zeros(n, np.int64),
        is_let_through=np.zeros(n, bool),
    )
    limits = FetchLimits(
        samples=window.samples, keeps_overlapping=window.profile.keeps_overlapping_sample
    )
    return judge_fetch_attempts(rows, limits)


READERS = {
    "seed": st.integers(0, 2**32),
    # None, and so much that the first fetches after a restart are all that is handed out.
    "backlog": st.sampled_from([0, 300_000, 900_000]),
    "per_s": st.integers(20_000, 60_000),
    "off_ms": st.sampled_from([3, 8, 40]),
}


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: str(window.profile))
@given(**READERS)
@settings(max_examples=100)
def test_nobody_is_accused(
    window: Window, seed: int, backlog: int, per_s: int, off_ms: int
) -> None:
    fetches = read(window, random.Random(seed), backlog, per_s, off_ms)
    assert any(fetch.throttle_ms for fetch in fetches)
    assert not np.isin(judged(fetches, window).attempt, ODD_ATTEMPTS).any()


@given(seed=st.integers(0, 2**32), off_ms=st.sampled_from([3, 8, 40]))
@settings(max_examples=60)
def test_a_try_that_is_throttled_twice_as_long_is_found_and_no_other(
    seed: int, off_ms: int
) -> None:
    window, chance = WINDOWS[0], random.Random(seed)
    fetches = read(window, chance, 900_000, 12_000, off_ms)
    # Until two samples before what was recorded first leaves, and while answers say how much there
    # was.
    last_ms = min(START_MS + 28_000, max(f.true_ms for f in fetches if not f.throttle_ms))
    tries = [i for i, f in enumerate(fetches) if f.throttle_ms and f.true_ms < last_ms]
    planted = chance.choice(tries)
    wrong = replace(fetches[planted], throttle_ms=2 * fetches[planted].throttle_ms + 4_000)
    said = judged([*fetches[:planted], wrong, *fetches[planted + 1 :]], window)
    assert np.flatnonzero(np.isin(said.attempt, ODD_ATTEMPTS)).tolist() == [planted]
    assert said.attempt[planted] == Attempt.TOO_LARGE
