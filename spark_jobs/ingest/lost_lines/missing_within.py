"""How many requests may be missing from the stretch of a sensor's past that a decision rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A sensor and a time are one number (sensor << 42 | time): 42 bits hold milliseconds until 2109.
_TIME_BITS = 42
_TIME_MAX = (1 << _TIME_BITS) - 1


@dataclass(frozen=True, slots=True)
class SensorGaps:
    """Gaps of the clients that feed sensors, ready for :func:`missing_within`.

    Two orders of the same gaps, by sensor and begin and by sensor and end; with each the sums of
    the missing requests and of their largest sizes over all gaps before, one longer than the order.
    """

    after: np.ndarray
    missing_after: np.ndarray
    size_after: np.ndarray
    before: np.ndarray
    missing_before: np.ndarray
    size_before: np.ndarray

    @classmethod
    def of(
        cls,
        sensor: np.ndarray,
        after_ms: np.ndarray,
        before_ms: np.ndarray,
        missing: np.ndarray,
        size_max: np.ndarray,
    ) -> SensorGaps:
        """Return the gaps from arrays of one length: ``missing`` requests of up to ``size_max``."""
        after, before = _place(sensor, after_ms), _place(sensor, before_ms)
        by_after, by_before = np.argsort(after), np.argsort(before)
        size = missing * size_max
        return cls(
            after[by_after],
            _sums(missing[by_after]),
            _sums(size[by_after]),
            before[by_before],
            _sums(missing[by_before]),
            _sums(size[by_before]),
        )


def missing_within(
    sensor: np.ndarray, from_ms: np.ndarray, until_ms: np.ndarray, gaps: SensorGaps
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of requests that may be missing in each row's ``[from_ms, until_ms]``.

    They are of the row's sensor; the second array is their size at most, together. A gap counts in
    full where it may lie in the stretch at all. Arrays of one length; O(log gaps) a row.

    >>> array = np.array
    >>> sensor, after_ms, before_ms = array([0, 0]), array([100, 500]), array([150, 900])
    >>> gaps = SensorGaps.of(sensor, after_ms, before_ms, array([3, 1]), array([10.0, 7.0]))
    >>> from_ms, until_ms = array([0, 140, 0]), array([99, 600, 600])
    >>> missing, size = missing_within(array([0, 0, 1]), from_ms, until_ms, gaps)
    >>> missing.tolist(), size.tolist()
    ([0, 4, 0], [0.0, 37.0, 0.0])
    """
    begun = np.searchsorted(gaps.after, _place(sensor, until_ms), side="right")
    over = np.searchsorted(gaps.before, _place(sensor, from_ms), side="left")
    missing = gaps.missing_after[begun] - gaps.missing_before[over]
    # Sums of doubles may differ in their last digits where the same gaps are on both sides.
    size = np.where(missing > 0, gaps.size_after[begun] - gaps.size_before[over], 0.0)
    return missing, np.maximum(size, 0.0)


def _place(sensor: np.ndarray, at_ms: np.ndarray) -> np.ndarray:
    return np.asarray(sensor.astype(np.int64) << _TIME_BITS | np.clip(at_ms, 0, _TIME_MAX))


def _sums(values: np.ndarray) -> np.ndarray:
    return np.concatenate((np.zeros(1, values.dtype), np.cumsum(values)))
