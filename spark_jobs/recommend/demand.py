"""What clients asked for, as far as a throttled client's log can tell: at least this much.

A throttled client is held back, so the rate it reaches stays near its bound whatever it wants. Two
observations say what it wanted at least: the highest windowed rate, and the pace it kept while
nobody was muted, up to the request that ended the freedom. The second is the telling one: a client
that wants three times its bound runs free for over three seconds before the window is full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PEAK_RATE = "peak_rate"
FREE_RUN = "free_run"
SEVERAL_DAYS = "several_days"
"""The basis of a demand that rises, and is larger than any one day's."""

# A pace is not taken from fewer requests than this.
FREE_RUN_REQUESTS_MIN = 5
# A burst that merely grazed the bound went on for less: its pace is not what it needs per window.
SUSTAINED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Demand:
    """A rate in the quota's unit, at least; ``basis`` is one of the three above."""

    rate: float
    basis: str


@dataclass(frozen=True, slots=True)
class AskedAmounts:
    """What was asked of one broker's sensor in recording order; arrays of one length."""

    at_ms: np.ndarray
    amount: np.ndarray  # 0 for a repetition of something asked before
    rate: np.ndarray  # windowed, NaN where undefined
    throttle_time_ms: np.ndarray


def demand_of(asked: AskedAmounts, window_ms: int, samples: int) -> Demand:
    """Return the demand on one broker, 0 where nothing was asked."""
    peak = float(np.nanmax(asked.rate)) if np.isfinite(asked.rate).any() else 0.0
    free = _fastest_free_run(asked, window_ms, samples)
    return Demand(free, FREE_RUN) if free > peak else Demand(peak, PEAK_RATE)


def muted_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> int:
    """Return for how long at least one client was muted: overlapping throttles count once.

    >>> muted_ms(np.array([0, 500, 5_000]), np.array([1_000, 1_000, 100]))
    1600
    """
    return int(_newly_muted_ms(at_ms, throttle_time_ms).sum())


def rolling_rate(at_ms: np.ndarray, amount: np.ndarray, span_ms: int) -> np.ndarray:
    """Return after each row the amount of the last ``span_ms`` per second."""
    total = _running_total(amount)
    first = np.searchsorted(at_ms, at_ms - span_ms, side="right")
    return np.asarray((total[1:] - total[first]) * 1000.0 / span_ms)


def _muted_until_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum.accumulate(at_ms + throttle_time_ms))


def _newly_muted_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> np.ndarray:
    """Return per row how much later than before some client is muted because of it."""
    if not len(at_ms):
        return np.zeros(0, np.int64)
    until = _muted_until_ms(at_ms, throttle_time_ms)
    muted_before = np.concatenate((at_ms[:1], until[:-1]))
    return np.asarray(until - np.maximum(at_ms, np.minimum(muted_before, until)))


def _fastest_free_run(asked: AskedAmounts, window_ms: int, samples: int) -> float:
    """Return the best pace of the free runs of a window or longer that ended in lasting throttling.

    What piled up while muted is sent in the run after, so a run's clock starts with the mute before
    it; after a pause nothing had piled up, and it starts with the pause's end.
    """
    at_ms, rows = asked.at_ms, np.arange(len(asked.at_ms))
    ends = np.flatnonzero(asked.throttle_time_ms > 0)
    if not len(ends):
        return 0.0
    until_ms = _muted_until_ms(at_ms, asked.throttle_time_ms)
    is_after_pause = np.zeros(len(rows), bool)
    is_after_pause[1:] = at_ms[1:] - np.maximum(at_ms[:-1], until_ms[:-1]) > window_ms
    last_pause = np.maximum.accumulate(np.where(is_after_pause, rows, 0))
    throttled_before = np.concatenate(([0], ends[:-1]))
    start = np.maximum(throttled_before, last_pause[ends])
    free_from_ms = np.where(start == throttled_before, until_ms[start], at_ms[start])

    muted = _running_total(_newly_muted_ms(at_ms, asked.throttle_time_ms))
    span_ms = samples * window_ms
    after = np.searchsorted(at_ms, at_ms[ends] + span_ms, side="right")
    is_lasting = muted[after] - muted[ends] >= SUSTAINED_SHARE * span_ms
    is_long = (ends - start >= FREE_RUN_REQUESTS_MIN) & (at_ms[ends] - free_from_ms >= window_ms)
    is_run = is_long & is_lasting
    start, ends = start[is_run], ends[is_run]
    total = _running_total(asked.amount)
    # The first row's amount was there when the clock started.
    paces = (total[ends + 1] - total[start + 1]) * 1000.0 / (at_ms[ends] - at_ms[start])
    return float(np.max(paces, initial=0.0))


def _running_total(values: np.ndarray) -> np.ndarray:
    """Return the sum before each row, and the sum of all: one longer than ``values``."""
    return np.concatenate(([0], np.cumsum(values)))
