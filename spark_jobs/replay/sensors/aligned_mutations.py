"""A sensor's mutations → the same at record times that explain what was admitted and refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.quota.mutation_times import Bucket, MutationRequest, stretches
from spark_jobs.replay.sensors.aligned_rows import aligned_rows, one_batch
from spark_jobs.replay.sensors.amounts import LINE_ORDER
from spark_jobs.replay.sensors.request_runs import request_changes

_COLUMNS = (
    "recorded_at_ms", "earliest_ms", "latest_ms", "bound", "is_strict", "response_earliest_ms",
    "response_latest_ms", "bucket_gap",
)  # fmt: skip


class AlignedMutations:
    """One sensor's mutations of one life of its broker, gathered and yielded in one batch.

    All of a day's mutations were in one table before: a sensor's are few.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._waiting: list[pa.RecordBatch] = []
        self._held: Mapping[str, Any] | None = None

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; they wait for the last one."""
        self._waiting.append(rows)
        return iter(())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the sensor's rows at their chosen times."""
        if not self._waiting:
            return
        rows = one_batch(self._waiting)
        self._waiting = []
        request = np.concatenate([[0], np.cumsum(request_changes(rows))])
        found = list(stretches(_requests(rows, request), self._bucket))
        times = np.array(list(chain.from_iterable(found)), np.int64)
        first = int(np.searchsorted(request, len(times) - len(found[-1])))
        self._held = {name: rows[name][first].as_py() for name in LINE_ORDER}
        yield aligned_rows(rows, times[request])

    def held(self) -> Mapping[str, Any] | None:
        """Return the line with which the last stretch began: later ones may move its times."""
        return self._held


def _requests(rows: pa.RecordBatch, request: np.ndarray) -> list[MutationRequest]:
    starts = np.unique(request, return_index=True)[1].tolist()
    first = rows.take(pa.array(starts)).to_pylist()
    told = list(zip(rows["amount"].to_pylist(), rows["logged_admitted"].to_pylist(), strict=True))
    return [
        MutationRequest(
            **{name: row[name] for name in _COLUMNS},
            mutations=tuple(told[start:stop]),
            logged_ms=None if row["has_request_bound"] else row["logged_throttle_time_ms"],
        )
        for row, start, stop in zip(first, starts, [*starts[1:], len(rows)], strict=True)
    ]
