"""Kafka's kinds of requests: their keys and names, and which quota counts them where.

``apis.json`` is made from Kafka's own jars of 2.2 to 4.4 by ``python -m tests.oracle.api_table``:
``ApiKeys``, the message definitions, and the handlers in ``KafkaApis`` and ``ControllerApis``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

NEWEST_RELEASE = (4, 4)
"""The newest Kafka release whose rules are known here, and in the table."""


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request.

    ``broker`` and ``controller`` say what their handlers may do with it: record it on the quota
    ``produce``, ``fetch``, ``request`` or ``controllerMutation``, be ``exempt`` from the request
    quota, ``forward`` it to the controller. Neither does anything with what it does not serve.
    """

    key: int
    # As releases named it, the newest name last.
    names: tuple[str, ...]
    # Over all releases; -1 where none has one.
    newest_version: int
    # Kafka: ``ApiKeys.clusterAction``.
    is_cluster_action: bool
    broker: frozenset[str]
    controller: frozenset[str]
    # From this version on a mutation is refused, not muted; None: always muted, or no mutation.
    strict_since: int | None
    # First version of the response that says the throttle time; None: none does.
    throttle_time_since: int | None

    @property
    def name(self) -> str:
        """Return the name in the newest release."""
        return self.names[-1]

    @property
    def is_between_brokers(self) -> bool:
        """Return True if no client sends it, only brokers and controllers to each other."""
        return "forward" not in self.broker and (self.is_cluster_action or not self.broker)

    @property
    def is_exempt(self) -> bool:
        """Return True if the request quota never counts it.

        Of produces and fetches it depends on the request: acks=0, a follower.
        """
        served = self.broker or self.controller
        return "exempt" in served and "request" not in served


def _read() -> tuple[Api, ...]:
    rows = json.loads((files("spark_jobs.quota") / "apis.json").read_text())
    return tuple(
        Api(
            **row
            | {"names": tuple(row["names"])}
            | {side: frozenset(row[side]) for side in ("broker", "controller")}
        )
        for row in rows
    )


APIS = {api.key: api for api in _read()}
"""Every kind of request by its key."""
API_KEYS = {name: key for key, api in APIS.items() for name in api.names}
"""The key of each kind of request, by each of its names."""


def counted_by(manager: str) -> tuple[int, ...]:
    """Return the keys of the requests that one of a broker's quota managers records.

    >>> counted_by("produce"), counted_by("fetch")
    ((0,), (1, 78))
    """
    return tuple(key for key, api in APIS.items() if manager in api.broker)
