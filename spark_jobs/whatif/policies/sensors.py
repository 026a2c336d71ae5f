"""The states of sensors by their key: made when first touched, forgotten when idle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from spark_jobs.quota.constants import EXPIRED_AFTER_MS

S = TypeVar("S")


class SensorKey(NamedTuple):
    """Where a state is kept: on a broker (None: with the one controller), for which tags."""

    broker_id: int | None
    quota_type: str
    user: str
    client_id: str


class Sensors(Generic[S]):
    """States by key; what the documents describe does not expire.

    >>> sensors = Sensors(list)
    >>> key = SensorKey(1, "producer_byte_rate", "alice", "")
    >>> sensors.at(key, now_ms=0).append("a record")
    >>> sensors.at(key, now_ms=1_000), sensors.at(key, now_ms=10_000_000)
    (['a record'], [])
    """

    def __init__(self, make: Callable[[], S], expires: bool = True) -> None:
        self._make = make
        self._expires_after_ms = EXPIRED_AFTER_MS if expires else math.inf
        self._states: dict[SensorKey, S] = {}
        self._touched_ms: dict[SensorKey, int] = {}

    def at(self, key: SensorKey, now_ms: int) -> S:
        """Return the state of a sensor that is about to record."""
        touched_ms = self._touched_ms.get(key)
        if touched_ms is None or now_ms - touched_ms > self._expires_after_ms:
            self._states[key] = self._make()
        self._touched_ms[key] = now_ms
        return self._states[key]

    def forget(self, broker_id: int | None = None) -> None:
        """Forget every state, or those of one broker."""
        for key in [k for k in self._states if broker_id is None or k.broker_id == broker_id]:
            del self._states[key], self._touched_ms[key]

    def __iter__(self) -> Iterator[tuple[SensorKey, S]]:
        return iter(sorted(self._states.items(), key=lambda item: str(item[0])))
