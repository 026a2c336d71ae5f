"""A stream's rows in the order of sensors: what is replayed is moved, the rest once decided."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from spark_jobs.quota.repeated import taken
from spark_jobs.replay.rates.fixed_times import SensorRows
from spark_jobs.replay.rates.stream_rows import StreamRows

_SENSOR_ROWS = tuple(f.name for f in fields(SensorRows))


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """``rows`` in an order, with what every step looks at as columns in it."""

    rows: StreamRows
    order: np.ndarray
    sensor: np.ndarray
    restart_ms: np.ndarray
    at_ms: np.ndarray
    amount: np.ndarray
    bound: np.ndarray
    logged_ms: np.ndarray

    @classmethod
    def of(cls, rows: StreamRows, order: np.ndarray) -> OrderedRows:
        """Return ``rows`` in this order."""
        names = [f.name for f in fields(cls)[2:]]
        return cls(rows, order, *(taken(getattr(rows, name), order) for name in names))

    def __len__(self) -> int:
        return len(self.order)

    def take(self, places: np.ndarray) -> StreamRows:
        """Return the rows at these indices of the order."""
        return self.rows.take(self.order[places])

    def stretch(self, start: int, stop: int) -> SensorRows:
        """Return the rows of one epoch of a sensor, which lie from ``start`` to ``stop``."""
        places = self.order[start:stop]
        return SensorRows(*(getattr(self.rows, name)[places] for name in _SENSOR_ROWS))
