"""Whether a throttle near a change of the quota is neither that of before nor that of after.

A broker meets a change a little before or after the log says: a request near it may have been held
against either value. What a sensor holds does not depend on the value, so what both ask for is
known where the state is.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.kernels import RateReplay
from spark_jobs.quota.states import Bools, Int64s
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.stream_rows import SensorRows


def is_neither(
    rows: SensorRows, places: Int64s, at_ms: Int64s, replay: RateReplay, window: Window
) -> Bools:
    """Return True for each throttle that the quota beside it does not give, nor its own.

    Such as 700 ms where 500/s asks for 200 ms and 1,000/s for none. ``places`` are the rows in the
    order of their recording, at ``at_ms``, as they were replayed. Nothing is said where the log
    admits a time at which a sample had left, or the window was another one.
    """
    found = np.zeros(len(places), bool)
    is_off = np.abs(rows.logged_ms[places] - replay.throttle_time_ms) > PROVES_MS
    off = np.flatnonzero(is_off & ~np.isnan(rows.bound_beside[places]))
    if not len(off):
        return found
    own, replayed, beside = places[off], replay.take(off), rows.bound_beside[places[off]]
    beside_ms = np.maximum((replayed.rate / beside - 1.0) * replayed.window_size_ms, 0.0)
    reach_ms = rows.latest_ms[own] - rows.earliest_ms[own] + rows.line_lag_max_ms[own] + PROVES_MS
    over_ms = replayed.window_size_ms % window.window_ms
    is_sure = (replayed.purge_margin_ms > reach_ms) & (over_ms > reach_ms)
    is_sure &= window.window_ms - over_ms > reach_ms
    # Requests of about its time may have been counted before it, or not yet.
    amount = np.nan_to_num(rows.amount[places])
    counted = np.append(0.0, np.cumsum(amount))
    in_turn_ms = np.maximum.accumulate(at_ms)
    first = np.searchsorted(in_turn_ms, at_ms[off] - reach_ms)
    stop = np.searchsorted(in_turn_ms, at_ms[off] + reach_ms, side="right")
    others = np.maximum(counted[stop] - counted[first] - amount[off], 0.0)
    spread_ms = reach_ms + others * 1000.0 / beside
    found[off] = is_sure & (np.abs(rows.logged_ms[own] - beside_ms) > spread_ms)
    return found
