"""Rows that a replay has to see together: a request's topics share one response."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_jobs.transforms.aligned_rows import aligned_rows, one_batch
from spark_jobs.transforms.request_runs import request_changes


class WholeRequests:
    """One sensor's rows at their estimated times; no batch ends within a request."""

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield all but those of the last request."""
        joined = one_batch([*self._waiting, rows])
        last = last_request_start(joined)
        self._waiting = [joined.slice(last)]
        if last:
            yield _at_estimates(joined.slice(0, last))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the last request."""
        for rows in self._waiting:
            yield _at_estimates(rows)
        self._waiting = []


def last_request_start(rows: pa.RecordBatch) -> int:
    """Return the first row of the last request in ``rows``, at least one."""
    changes = np.flatnonzero(request_changes(rows))
    return int(changes[-1]) + 1 if len(changes) else 0


def _at_estimates(rows: pa.RecordBatch) -> pa.RecordBatch:
    return aligned_rows(rows, rows["recorded_at_ms"].to_numpy())
