"""When the samples of a rate's window began: what a broker cuts time into, sensor by sensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from quota_pages.history import Wanted
from quota_pages.kept_tables import read_kept
from spark_jobs.warehouse.scope import RunScope

RANGE_MAX_MS = 120_000
"""A longer stretch has more samples than can be told apart."""
_LOOK_BACK_MS = 600_000
_ROWS_MAX = 200_000

Int64s = npt.NDArray[np.int64]


def sample_starts(recorded_at_ms: Int64s, window_ms: int, is_life_begin: bool) -> Int64s | None:
    """Return when samples began, epoch ms in order; None where that cannot be known.

    The first amount that is recorded a window's length or more after a sample began begins the
    next one (Kafka: ``SampledStat.record``, ``Sample.isComplete``), so what began depends on what
    began before it. It is known from the sensor's first record on (``is_life_begin``), or from
    after a pause as long as a window: whatever came before, a sample began then.
    """
    if not len(recorded_at_ms):
        return None
    first = 0
    if not is_life_begin:
        pauses = np.flatnonzero(np.diff(recorded_at_ms) >= window_ms)
        if not len(pauses):
            return None
        first = int(pauses[0]) + 1
    starts = []
    while first < len(recorded_at_ms):
        starts.append(int(recorded_at_ms[first]))
        first = int(np.searchsorted(recorded_at_ms, starts[-1] + window_ms, side="left"))
    return np.array(starts, np.int64)


def sample_starts_of(
    scope: RunScope, wanted: Wanted, window_ms: Mapping[int, int]
) -> dict[int, list[int]]:
    """Return, by broker, the sample begins in the range of ``wanted``; none where not known.

    ``window_ms`` has the length of a sample of each broker that is asked about.
    """
    earlier = replace(wanted, from_ms=wanted.from_ms - _LOOK_BACK_MS, broker_ids=tuple(window_ms))
    columns = ["broker_id", "sensor_epoch", "sensor_seq", "recorded_at_ms"]
    rows = read_kept(scope, "decisions", columns, earlier.is_row("recorded_at_ms"))
    if rows.num_rows > _ROWS_MAX:
        return {}
    rows = rows.sort_by([(name, "ascending") for name in columns[:3]])
    broker_ids, epochs, seqs, times = (rows[name].to_numpy() for name in columns)
    found: dict[int, list[int]] = {broker_id: [] for broker_id in window_ms}
    for broker_id, epoch in sorted(set(zip(broker_ids.tolist(), epochs.tolist(), strict=True))):
        own = np.flatnonzero((broker_ids == broker_id) & (epochs == epoch))
        is_begin = bool(seqs[own[0]] == 0)
        starts = sample_starts(times[own], window_ms[broker_id], is_begin)
        known = [] if starts is None else starts[starts >= wanted.from_ms].tolist()
        found[broker_id] += known
    return found
