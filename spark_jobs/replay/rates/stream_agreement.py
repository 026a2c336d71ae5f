"""A stream's decisions → how far the replay of each sensor agrees with the log: ``agreement``."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_jobs.replay.rates.rate_stream import Decided, RateStream
from spark_jobs.warehouse.tables import AGREEMENT

_COUNTS = ("decisions", "same_decision", "throttles", "within_1ms", "within_5ms", "proven")


@dataclass(slots=True)
class StreamAgreement:
    """Counts per sensor, and how often throttles were off by how many milliseconds."""

    _counts: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.zeros(0, np.int64) for name in _COUNTS}
    )
    _off_ms: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def take(self, decided: Decided) -> None:
        """Count decisions that have a bound and an amount."""
        rows = decided.rows
        compared = ~np.isnan(rows.bound) & ~np.isnan(rows.amount)
        logged_ms, replayed_ms = rows.logged_ms, decided.throttle_ms
        is_throttle = compared & ((logged_ms > 0) | (replayed_ms > 0))
        off_ms = np.abs(logged_ms - replayed_ms)
        counted = {
            "decisions": compared,
            "same_decision": compared & ((logged_ms > 0) == (replayed_ms > 0)),
            "throttles": is_throttle,
            "within_1ms": is_throttle & (off_ms <= 1),
            "within_5ms": is_throttle & (off_ms <= 5),
            "proven": compared & decided.is_proven,
        }
        sensors = max(int(rows.sensor.max()) + 1, len(self._counts["decisions"]))
        for name, of_row in counted.items():
            total = np.bincount(rows.sensor[of_row], minlength=sensors)
            total[: len(self._counts[name])] += self._counts[name]
            self._counts[name] = total
        throttles = np.flatnonzero(is_throttle)
        of_throttle, off_ms = rows.sensor[throttles], off_ms[throttles]
        for sensor in np.unique(of_throttle).tolist():
            self._off_ms[sensor].update(off_ms[of_throttle == sensor].tolist())

    def rows(self, stream: RateStream) -> pa.Table:
        """Return rows of AGREEMENT."""
        rows = []
        for sensor in np.flatnonzero(self._counts["decisions"]).tolist():
            off_ms = self._off_ms[sensor]
            user, client_id = stream.codes.names[sensor]
            rows.append(
                {
                    "broker_id": stream.broker_id,
                    "quota_type": stream.states.quota_type,
                    "quota_user": user,
                    "quota_client_id": client_id,
                    **{name: int(self._counts[name][sensor]) for name in _COUNTS},
                    "residual_median_ms": _median(off_ms),
                    "residual_max_ms": max(off_ms, default=0),
                }
            )
        return pa.Table.from_pylist(rows, schema=AGREEMENT)


def _median(counts: Counter[int]) -> float:
    if not counts:
        return 0.0
    values = np.repeat(np.array(sorted(counts)), [counts[value] for value in sorted(counts)])
    return float(np.median(values))
