"""Of which times a log cannot foretell a broker's metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_jobs.judge.metrics.comparison import Period
from spark_jobs.judge.metrics.sensor_amounts import SensorAmounts
from spark_jobs.quota.states import Bools, Int64s
from spark_jobs.warehouse.days import Interval

# A log that begins so soon after its broker holds all that the broker counted.
_BEGINS_WITH_BROKER_MS = 60_000
_FOREVER_MS = 1 << 53

REASONS = {
    "no_number": "no number: nothing was recorded",
    "other_day": "of another day",
    "no_log": "of a broker without a log",
    "no_decisions": "of a sensor that the log has no decision of",
    "log_began": "what the broker had counted before is not in the log",
    "log_ended": "after the log's last line",
    "broker_started": "the broker had just started",
    "amount_not_logged": "an amount that counts is not in the log",
    "throttle_uncertain": "another quota may have thrown a throttle that counts",
}
"""Why a sample is left out, in words."""


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """What a broker's log covers: its first and last line; starts, and whether each was logged."""

    first_ms: int
    last_ms: int
    starts: tuple[tuple[int, bool], ...] = ()

    @property
    def begins_with_broker(self) -> bool:
        """Return True if all that its broker counted is in the log."""
        return any(
            is_logged and 0 <= self.first_ms - at_ms <= _BEGINS_WITH_BROKER_MS
            for at_ms, is_logged in self.starts
        )


def unknown_periods(
    day: Interval,
    log: BrokerLog,
    history: SensorAmounts,
    first_ms: int | None,
    unsure: tuple[str, Bools],
    margin_ms: int,
) -> list[Period]:
    """Return the periods that say nothing of a sensor whose amounts are in ``history``.

    ``first_ms`` is its first amount, None where what came before is known; ``unsure`` the reason
    why, and the rows after which, nothing is known while they count. Each period is longer by
    ``margin_ms``, for stamps are coarse.
    """
    remembers_ms = history.rule.remembers_ms
    begins_ms = [-_FOREVER_MS]
    if not log.begins_with_broker:
        begins_ms.append(log.first_ms + remembers_ms)
        if first_ms is not None:
            begins_ms.append(first_ms + remembers_ms)
    # The sensor begins with its first amount.
    if first_ms is not None:
        begins_ms.append(first_ms)
    reason, rows = unsure
    return [
        Period("other_day", [(-_FOREVER_MS, day.from_ms), (day.until_ms, _FOREVER_MS)]),
        Period("log_ended", [(log.last_ms, _FOREVER_MS)]),
        Period("log_began", [(-_FOREVER_MS, max(begins_ms) + margin_ms)]),
        Period("broker_started", list(_starts(log, remembers_ms, margin_ms))),
        Period(reason, _while_they_count(history.at_ms[rows], remembers_ms, margin_ms)),
    ]


def _starts(log: BrokerLog, remembers_ms: int, margin_ms: int) -> Iterator[tuple[int, int]]:
    for at_ms, is_logged in log.starts:
        yield at_ms - margin_ms, at_ms + margin_ms + (0 if is_logged else remembers_ms)


def _while_they_count(at_ms: Int64s, remembers_ms: int, margin_ms: int) -> list[tuple[int, int]]:
    """Return spans of rows; of those that overlap one is made."""
    spans: list[tuple[int, int]] = []
    for row_ms in np.sort(at_ms).tolist():
        begins_ms, ends_ms = row_ms - margin_ms, row_ms + remembers_ms + margin_ms
        if spans and begins_ms <= spans[-1][1]:
            spans[-1] = spans[-1][0], ends_ms
        else:
            spans.append((begins_ms, ends_ms))
    return spans
