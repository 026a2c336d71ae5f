"""Decisions that another value of one quota explains from a moment on.

A broker that goes down may have carried out a change of a quota whose line it did not write any
more. From then on, and until the quota is known again, every broker holds its clients to a value
that no log has. Throttles tell it, for what a sensor holds does not depend on the quota.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from spark_jobs.quota.states import Bools, Floats, Int64s

EXPLAINED_SHARE_MIN = 0.9
"""The other value has to explain so much of what it says something else of than the known one."""
_SHARE_BEFORE = 0.5
"""A value that explains so much of what was before, too, was in force then."""
_VALUES_MAX = 64
"""So many values are tried at most: of the right one most throttles tell."""


@dataclass(frozen=True, slots=True)
class QuotaDecisions:
    """Decisions on one quota, of all its sensors and brokers; arrays of one length."""

    broker_id: Int64s
    recorded_at_ms: Int64s
    rate: Floats  # NaN: not known, or the amount was taken back
    window_size_ms: Int64s
    logged_ms: Int64s
    replayed_ms: Int64s  # by the value that is known

    def throttle_ms(self, bound: float) -> Floats:
        """Return the throttles (ms) by a value, such as 1,000 for 20/s in 1 s of 10/s."""
        return np.maximum((self.rate / bound - 1.0) * self.window_size_ms, 0.0)

    def take(self, rows: Int64s) -> QuotaDecisions:
        """Return the decisions at these places."""
        return QuotaDecisions(*(getattr(self, field.name)[rows] for field in fields(self)))

    def differs(self, tolerance_ms: int) -> Bools:
        """Return True where the throttle is not the known value's."""
        is_off = np.abs(self.logged_ms - self.replayed_ms) > tolerance_ms
        return np.asarray(is_off | ((self.logged_ms > 0) != (self.replayed_ms > 0)))


@dataclass(frozen=True, slots=True)
class UnloggedChange:
    """A value that explains what the known one does not, and which decisions those are."""

    bound: float  # infinite: of none that is held to it
    decisions: Bools


def unlogged_change(
    decisions: QuotaDecisions, silent_from_ms: int, latest_ms: int, tolerance_ms: int
) -> UnloggedChange | None:
    """Return the value that explains ``decisions`` since a broker went down, None without one.

    From a moment of each broker on it explains EXPLAINED_SHARE_MIN of the decisions of which it
    says something else than the known one. The moment is that of the first decision which the known
    value does not explain: after ``silent_from_ms``, when the broker wrote its last line, and not
    after ``latest_ms``. What explains as well most of what was before is no change.
    """
    is_down = decisions.recorded_at_ms >= silent_from_ms
    differs = decisions.differs(tolerance_ms) & is_down
    since = decisions.recorded_at_ms >= latest_ms
    for broker_id in np.unique(decisions.broker_id[differs]).tolist():
        own = decisions.broker_id == broker_id
        first_ms = decisions.recorded_at_ms[own & differs].min()
        since |= own & (decisions.recorded_at_ms >= first_ms)
    tells = ~np.isnan(decisions.rate)
    values = [np.inf, *_values(decisions, tells & differs)]
    shares = [_explained_share(decisions, tells & since, each, tolerance_ms) for each in values]
    best = int(np.argmax(shares))
    before = _explained_share(decisions, tells & ~is_down, values[best], tolerance_ms)
    if shares[best] < EXPLAINED_SHARE_MIN or before >= _SHARE_BEFORE:
        return None
    return UnloggedChange(values[best], since & differs)


def _values(decisions: QuotaDecisions, rows: Bools) -> list[float]:
    """Return the values of which throttles are, such as 10/s of 1,000 ms for 20/s in 1 s."""
    thrown = np.flatnonzero(rows & (decisions.logged_ms > 0))
    if len(thrown) > _VALUES_MAX:
        thrown = thrown[np.linspace(0, len(thrown) - 1, _VALUES_MAX).astype(int)]
    window_size_ms, logged_ms = decisions.window_size_ms[thrown], decisions.logged_ms[thrown]
    values = decisions.rate[thrown] * window_size_ms / (window_size_ms + logged_ms)
    return [float(value) for value in values[values > 0]]


def _explained_share(
    decisions: QuotaDecisions, rows: Bools, bound: float, tolerance_ms: int
) -> float:
    """Return the explained share of ``rows`` that say something else by ``bound``; 0 of none."""
    throttle_ms = decisions.throttle_ms(bound)
    told = rows & (np.abs(throttle_ms - decisions.replayed_ms) > 2 * tolerance_ms)
    explained = told & (np.abs(throttle_ms - decisions.logged_ms) <= tolerance_ms)
    return int(np.count_nonzero(explained)) / max(int(np.count_nonzero(told)), 1)
