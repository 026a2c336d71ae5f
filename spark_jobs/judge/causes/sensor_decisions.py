"""One sensor's windowed-rate decisions in recording order, and what another bound makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.states import Bools, Floats, Int64s


@dataclass(frozen=True, slots=True)
class SensorDecisions:
    """Decisions of one sensor in the order of recording; arrays of one length.

    What a window holds and how long it is do not depend on the bound, so the throttle of any other
    bound follows from ``rate`` and ``window_size_ms`` alone (:meth:`throttle_ms`).
    """

    sensor_epoch: Int64s
    recorded_at_ms: Int64s
    log_time_ms: Int64s
    connection: Int64s  # a code per connection
    amount: Floats
    is_unrecorded: Bools
    answered: Floats  # bytes that an un-recorded fetch was given in the end, NaN: not in the log
    bound: Floats  # NaN: none in force
    rate: Floats  # NaN where it cannot be told
    window_size_ms: Int64s
    logged_ms: Int64s
    request_throttle_max_ms: Int64s  # 0: no request quota is in force
    is_wrong: Bools
    lost_amount_max: Floats  # of requests that may be missing from what the rate rests on

    def __len__(self) -> int:
        return len(self.recorded_at_ms)

    def rows(self, rows: slice) -> SensorDecisions:
        """Return these decisions alone."""
        return SensorDecisions(**{name: each[rows] for name, each in fields_of(self).items()})

    def throttle_ms(self, bound: npt.ArrayLike) -> Int64s:
        """Return each decision's throttle under ``bound`` (NaN: none), -1 where it is unknown.

        Kafka: ``QuotaUtils.throttleTime``.

        >>> history = history_of(rate=[1_100.0, 900.0], window_size_ms=10_000, bound=1_000.0)
        >>> history.throttle_ms(1_000.0).tolist(), history.throttle_ms(800.0).tolist()
        ([1000, 0], [3750, 1250])
        """
        return throttle_ms(self.rate, self.window_size_ms, bound)

    def with_attempts(self) -> SensorDecisions:
        """Return the history with un-recorded amounts as the client was given them in the end.

        A throttled fetch is answered with nothing and its size is not logged; recovered from the
        throttle it fits any bound. But the client asks again from the same position, so what it is
        given there is what the broker had tried to read. Without an answer the rate is NaN: such a
        decision is no evidence.
        """
        if not self.is_unrecorded.any():
            return self
        held = self.rate * self.window_size_ms / 1000.0 - self.amount
        rate = np.where(
            self.is_unrecorded, (held + self.answered) / (self.window_size_ms / 1000.0), self.rate
        )
        amount = np.where(self.is_unrecorded, self.answered, self.amount)
        return history_of(**{**fields_of(self), "rate": rate, "amount": amount})

    def early_ms(self) -> Int64s:
        """Return the rest (ms) of its connection's last throttle when each request came.

        0 where that throttle was over. A broker reads nothing from a connection that it throttles
        (``ClientQuotaManager.throttle`` mutes the channel, since 2.0), so this cannot happen while
        throttles are carried out, whatever the client does.
        """
        order = np.argsort(self.connection, kind="stable")
        same = np.diff(self.connection[order]) == 0
        free_at_ms = (self.recorded_at_ms + self.logged_ms)[order]
        early = np.zeros(len(self), np.int64)
        early[order[1:]] = np.where(same, free_at_ms[:-1] - self.recorded_at_ms[order[1:]], 0)
        return np.maximum(early, 0)


def throttle_ms(rate: Floats, window_size_ms: Int64s, bound: npt.ArrayLike) -> Int64s:
    """Return the throttle of each rate over its window under ``bound``, -1 for a NaN rate."""
    bounds = np.broadcast_to(np.asarray(bound, np.float64), rate.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        delay_ms = np.floor((rate - bounds) / bounds * window_size_ms + 0.5)
        delay_ms = np.where(rate > bounds, delay_ms, 0.0)
    delay_ms = np.where(np.isnan(rate), -1.0, delay_ms)
    return np.minimum(delay_ms, 2.0**31 - 1).astype(np.int64)


def fields_of(history: SensorDecisions) -> dict[str, Any]:
    """Return a history's arrays by name."""
    return {name: getattr(history, name) for name in SensorDecisions.__slots__}


_OTHERWISE: dict[str, tuple[type, Any]] = {
    "sensor_epoch": (np.int64, 0),
    "recorded_at_ms": (np.int64, 0),
    "log_time_ms": (np.int64, 0),
    "connection": (np.int64, 0),
    "amount": (np.float64, np.nan),
    "is_unrecorded": (np.bool_, False),
    "answered": (np.float64, np.nan),
    "bound": (np.float64, np.nan),
    "rate": (np.float64, np.nan),
    "window_size_ms": (np.int64, 10_000),
    "logged_ms": (np.int64, 0),
    "request_throttle_max_ms": (np.int64, 0),
    "is_wrong": (np.bool_, False),
    "lost_amount_max": (np.float64, 0.0),
}


def history_of(**columns: npt.ArrayLike) -> SensorDecisions:
    """Return a history of ``columns``; single values stand for all rows, others are left out.

    Lines are written when their requests were recorded, where no times of lines are given.
    """
    columns = {"log_time_ms": columns.get("recorded_at_ms", 0), **columns}
    unknown = sorted(set(columns) - set(_OTHERWISE))
    assert not unknown, f"a sensor's history has no {unknown}"
    n = max((np.size(values) for values in columns.values()), default=0)
    arrays: dict[str, Any] = {
        name: np.array(np.broadcast_to(np.asarray(columns.get(name, value), kind), n))
        for name, (kind, value) in _OTHERWISE.items()
    }
    return SensorDecisions(**arrays)
