"""Decisions counted by sensor and verdict: one pass over millions of rows, a small table after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.verdicts.verdicts import LIKELY_REQUEST_TIME
from spark_jobs.warehouse.read import count_rows, read_batches
from spark_jobs.warehouse.scope import RunScope

_ROWS_AT_A_TIME = 2_000_000
_KEYS = [*SENSOR_COLUMNS, "quota_level", "verdict", "reason"]
_MEASURES = [("bound", "min"), ("bound", "max"), ("rate", "max"), ("use", "max"), ("tokens", "min")]

DecisionCount = dict[str, Any]
"""The keys, ``rows``, and least or greatest bound, rate, use of the bound and tokens."""


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many decisions got which verdict."""

    by_verdict: Mapping[str, int]
    indeterminate_by_reason: Mapping[str, int]  # most frequent first
    likely: int = 0  # of those that agree: by what is likely only

    @property
    def recorded(self) -> int:
        """Return every amount the brokers recorded, also where no bound was in force."""
        return sum(self.by_verdict.values())

    @property
    def no_quota(self) -> int:
        """Return the amounts that were recorded while no bound was in force."""
        return self.by_verdict.get("no_quota", 0)

    @property
    def decided(self) -> int:
        """Return the decisions under a bound: what the replay could agree or disagree with."""
        return self.recorded - self.no_quota

    @property
    def agree(self) -> int:
        """Return the decisions that were as configured."""
        return self.by_verdict.get("agree", 0)

    @property
    def indeterminate(self) -> int:
        """Return the decisions the log cannot decide."""
        return self.by_verdict.get("indeterminate", 0)

    @property
    def wrong(self) -> int:
        """Return the decisions that were not as configured."""
        return sum(self.by_verdict.get(v, 0) for v in WRONG_VERDICTS)

    @property
    def judged(self) -> int:
        """Return the decisions that the log can decide."""
        return self.agree + self.wrong


@dataclass(frozen=True, slots=True)
class SensorUse:
    """What one sensor saw over the run; bounds and rates in the quota's own unit."""

    sensor: SensorKey
    levels: tuple[str, ...]
    decisions: int  # with a bound in force
    bound_min: float | None
    bound_max: float | None
    rate_max: float | None
    use_max: float | None  # the highest rate as a share of the bound of that moment
    tokens_min: float | None

    @property
    def use_of_bound(self) -> float:
        """Return the peak as a share of the bound; for tokens 1 when they were used up."""
        if self.tokens_min is not None:
            return 1.0 if self.tokens_min < 0 else 0.0
        return self.use_max or 0.0


def count_decisions(scope: RunScope) -> list[DecisionCount]:
    """Return this run's decisions counted by sensor, level, verdict and reason."""
    columns = {name: ds.field(name) for name in (*_KEYS, "bound", "rate", "tokens")}
    columns["use"] = pc.divide(ds.field("rate"), ds.field("bound"))
    counted = count_rows(read_batches(scope, "decisions", columns), _KEYS, _MEASURES)
    return [] if counted is None else counted.to_pylist()


def verdict_counts(counted: Iterable[DecisionCount]) -> VerdictCounts:
    """Return the verdicts of ``counted`` (what :func:`count_decisions` returns)."""
    by_verdict: Counter[str] = Counter()
    by_reason: Counter[str] = Counter()
    likely = 0
    for row in counted:
        by_verdict[row["verdict"]] += row["rows"]
        if row["verdict"] == "indeterminate":
            by_reason[row["reason"] or "no reason given"] += row["rows"]
        elif row["reason"] == LIKELY_REQUEST_TIME:
            likely += row["rows"]
    reasons = sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
    return VerdictCounts(dict(sorted(by_verdict.items())), dict(reasons), likely)


def sensor_uses(counted: Iterable[DecisionCount]) -> dict[SensorKey, SensorUse]:
    """Return the use of each sensor of ``counted``, in order of the key."""
    by_sensor: dict[SensorKey, list[dict[str, Any]]] = {}
    for row in counted:
        by_sensor.setdefault(SensorKey.of(row), []).append(row)
    return {sensor: _use(sensor, by_sensor[sensor]) for sensor in sorted(by_sensor)}


def _use(sensor: SensorKey, rows: list[dict[str, Any]]) -> SensorUse:
    bounded = [row for row in rows if row["bound_max"] is not None]
    return SensorUse(
        sensor=sensor,
        levels=tuple(sorted({row["quota_level"] for row in bounded if row["quota_level"]})),
        decisions=sum(row["rows"] for row in bounded),
        bound_min=_present(min, (row["bound_min"] for row in bounded)),
        bound_max=_present(max, (row["bound_max"] for row in bounded)),
        rate_max=_present(max, (row["rate_max"] for row in bounded)),
        use_max=_present(max, (row["use_max"] for row in bounded)),
        tokens_min=_present(min, (row["tokens_min"] for row in bounded)),
    )


def _present(choose: Any, values: Iterable[float | None]) -> float | None:
    chosen: float | None = choose((v for v in values if v is not None), default=None)
    return chosen


def decisions_by_sensor(
    scope: RunScope, where: ds.Expression | None = None
) -> dict[SensorKey, int]:
    """Return the number of decisions of each sensor, of those that ``where`` keeps."""
    rows = read_batches(scope, "decisions", SENSOR_COLUMNS, where)
    counted = count_rows(rows, SENSOR_COLUMNS, [])
    return {} if counted is None else {SensorKey.of(r): r["rows"] for r in counted.to_pylist()}


def sensors_at_a_time(sensors: Mapping[SensorKey, int]) -> Iterator[list[SensorKey]]:
    """Yield the sensors in order, together those with as many decisions as memory shall hold.

    ``sensors`` has the decisions of each; one with more of them comes alone.
    """
    together: list[SensorKey] = []
    rows = 0
    for key in sorted(sensors, key=str):
        if together and rows + sensors[key] > _ROWS_AT_A_TIME:
            yield together
            together, rows = [], 0
        together.append(key)
        rows += sensors[key]
    if together:
        yield together
