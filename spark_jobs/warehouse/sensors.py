"""The sensor: what a broker counts one client's use of one quota with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow.dataset as ds

from spark_jobs.wording.names import entity_name

SENSOR_COLUMNS = ("broker_id", "quota_type", "quota_user", "quota_client_id")


@dataclass(frozen=True, slots=True, order=True)
class Sensor:
    """A sensor's key as the broker keeps it, on one broker."""

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Sensor:
        """Return the sensor that ``row`` of any table with a sensor key is about."""
        return cls(*(row[column] for column in SENSOR_COLUMNS))

    @property
    def entity(self) -> str:
        """Return whose use it counts, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)


def sensor_filter(sensors: Iterable[Sensor]) -> ds.Expression:
    """Return the condition that keeps the rows of ``sensors``; of none, no row."""
    return reduce(or_, (_is_row_of(sensor) for sensor in sensors), ds.scalar(False))


def _is_row_of(sensor: Sensor) -> ds.Expression:
    parts = zip(SENSOR_COLUMNS, astuple(sensor), strict=True)
    return reduce(and_, (ds.field(column) == part for column, part in parts))
