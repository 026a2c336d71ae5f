"""How exactly the replay follows what the brokers logged: the table agreement, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.warehouse.read import read_rows
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.sensors import SENSOR_COLUMNS, Sensor

_COLUMNS = [
    "decisions", "same_decision", "throttles", "within_1ms", "residual_max_ms", "proven",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SensorAgreement:
    """One sensor's row of ``tables.AGREEMENT``; counts of decisions."""

    sensor: Sensor
    decisions: int
    same_decision: int
    throttles: int
    within_1ms: int
    residual_max_ms: int
    proven: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The sensors that throttled or should have, the least explained first."""

    sensors: tuple[SensorAgreement, ...]

    @property
    def throttles(self) -> int:
        """Return how many throttles were compared."""
        return sum(each.throttles for each in self.sensors)

    @property
    def within_1ms(self) -> int:
        """Return how many of them the replay gives to the millisecond."""
        return sum(each.within_1ms for each in self.sensors)


def agreement_of(scope: RunScope) -> Agreement:
    """Return how the replay of a day agrees, by sensor."""
    rows = read_rows(scope, "agreement", [*SENSOR_COLUMNS, *_COLUMNS]).to_pylist()
    found = (
        SensorAgreement(Sensor.of(row), **{name: row[name] for name in _COLUMNS})
        for row in rows
        if row["throttles"]
    )
    return Agreement(_worst_first(list(found)))


def _worst_first(sensors: Sequence[SensorAgreement]) -> tuple[SensorAgreement, ...]:
    return tuple(sorted(sensors, key=lambda s: (s.within_1ms - s.throttles, s.sensor)))
