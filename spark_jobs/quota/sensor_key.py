"""The key of a sensor: whose amounts it counts, of which quota type, on which broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class SensorKey(NamedTuple):
    """A sensor as the broker keeps it.

    >>> SensorKey(1, "producer_byte_rate", "alice", "").tags
    ('alice', '')
    """

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> SensorKey:
        """Return the sensor that ``row``, of any table with a sensor's columns, is about."""
        return cls(*(row[name] for name in SENSOR_COLUMNS))

    @property
    def tags(self) -> tuple[str, str]:
        """Return the user and the client-id; "" where the quota has none of it."""
        return self.quota_user, self.quota_client_id


SENSOR_COLUMNS = SensorKey._fields
ENTITY_COLUMNS = SENSOR_COLUMNS[1:]
"""Those of its sensors on all brokers."""
