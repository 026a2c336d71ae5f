"""Sequences of amounts as they hurt a sampled rate: bursts, gaps, equal and boundary times."""

from __future__ import annotations

import numpy as np

from tests.oracle.jvm_quota import Floats, Int64s, Sequences

SAMPLES = (1, 2, 3, 11, 11, 11)
WINDOWS_MS = (1, 7, 1000, 1000, 1000, 2000)
BOUNDS = (0.01, 1.0, 10.5, 1_000.0, 1_000.0, 300_000.0, 3e9)
EPOCH_MS = 1_700_000_000_000
ROWS_MAX = 80
CHANGED_BOUND = 0.03
NO_BOUND = 0.05


def random_sequences(seed: int, count: int, operations: list[float]) -> Sequences:
    """Return ``count`` sequences of up to 80 rows, those of one sequence together.

    ``operations`` are the weights of operation 0, 1, ...; the amounts are such that about half of
    what is measured is above its bound.
    """
    rng = np.random.default_rng(seed)
    samples, windows_ms = rng.choice(SAMPLES, count), rng.choice(WINDOWS_MS, count)
    lengths = rng.integers(1, ROWS_MAX, count)
    n = int(lengths.sum())
    times = [
        _times(rng, int(length), int(s), int(w))
        for length, s, w in zip(lengths, samples, windows_ms, strict=True)
    ]
    sensor = np.repeat(np.arange(count), lengths)
    base = rng.choice(BOUNDS, count)[sensor]
    return Sequences(
        samples=samples,
        window_ms=windows_ms,
        sensor=sensor,
        now_ms=np.concatenate(times),
        amount=_amounts(rng, base * (samples * windows_ms / 1000.0)[sensor]),
        bound=_bounds(rng, base),
        operation=rng.choice(len(operations), n, p=operations),
        extra=np.full(n, -1),
    )


def _times(rng: np.random.Generator, length: int, samples: int, window_ms: int) -> Int64s:
    """Return times, most a window or more after one before them and not always after the last."""
    now = EPOCH_MS + int(rng.integers(0, 10_000))
    times = [now]
    for kind in rng.random(length - 1):
        if kind < 0.25:
            step = 0
        elif kind < 0.55:
            step = int(rng.integers(1, max(window_ms // 3, 2)))
        elif kind < 0.85:
            # So many whole windows after any earlier event, or 1 ms beside that.
            windows = int(rng.choice((1, samples - 1, samples, samples + 1)))
            earlier = times[int(rng.integers(len(times)))]
            step = max(earlier + windows * window_ms + int(rng.integers(-1, 2)) - now, 0)
        elif kind < 0.97:
            step = int(rng.integers(0, 2 * samples * window_ms + 2))
        else:
            # A request thread that read the clock first may record last.
            step = -int(rng.integers(0, 6))
        now += step
        times.append(now)
    return np.array(times, np.int64)


def _amounts(rng: np.random.Generator, scale: Floats) -> Floats:
    n = len(scale)
    fraction = rng.exponential(0.3, n) * scale
    kind = rng.random(n)
    return np.select(
        [kind < 0.15, kind < 0.6, kind < 0.9, kind < 0.95],
        [np.zeros(n), np.round(fraction), fraction, fraction * 50.0],
        default=rng.integers(0, 2**40, n) * 1e-7,
    )


def _bounds(rng: np.random.Generator, base: Floats) -> Floats:
    kind = rng.random(len(base))
    changed = np.where(kind < CHANGED_BOUND, rng.choice(BOUNDS, len(base)), base)
    return np.where(kind > 1.0 - NO_BOUND, np.nan, changed)
