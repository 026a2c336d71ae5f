"""The key of a sensor: whose amounts it counts, of which quota type, on which broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SensorKey:
    """A sensor as the broker keeps it.

    >>> SensorKey(1, "producer_byte_rate", "alice", "").quota_user
    'alice'
    """

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str
