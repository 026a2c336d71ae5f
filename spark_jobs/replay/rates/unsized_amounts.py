"""Since when a sensor's amounts are all in the log, where some have no size there.

Share fetches are logged without the size of their records, fetches of old brokers now and then: the
broker has counted them, so until they have left the window nobody knows what the sensor holds.
"""

from __future__ import annotations

import numpy as np

_NEVER_MS = -(1 << 62)


class UnsizedAmounts:
    """When the last amount without a size came on each sensor, from chunk to chunk of a stream."""

    def __init__(self) -> None:
        self._last_ms: dict[int, int] = {}

    def known_for_ms(
        self, known_for_ms: np.ndarray, sensor: np.ndarray, at_ms: np.ndarray, unsized: np.ndarray
    ) -> np.ndarray:
        """Return for how long (ms) each row's sensor is known; rows come in order of ``at_ms``.

        ``known_for_ms`` is so without regard to sizes; ``unsized`` is True for rows without one.
        """
        sensors = set(np.unique(sensor[unsized]).tolist()) | self._last_ms.keys()
        if not sensors:
            return known_for_ms
        known_for_ms = known_for_ms.copy()
        order = np.argsort(sensor, kind="stable")
        ends = np.searchsorted(sensor[order], np.array([[each, each + 1] for each in sensors]))
        for each, (first, stop) in zip(sensors, ends.tolist(), strict=True):
            if first < stop:
                rows = order[first:stop]
                own_ms = np.where(unsized[rows], at_ms[rows], _NEVER_MS)
                own_ms[0] = max(own_ms[0], self._last_ms.get(each, _NEVER_MS))
                last_ms = np.maximum.accumulate(own_ms)
                known_for_ms[rows] = np.minimum(known_for_ms[rows], at_ms[rows] - last_ms)
                self._last_ms[each] = int(last_ms[-1])
        return known_for_ms
