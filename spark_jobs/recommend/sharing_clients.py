"""Who has to do with whom: clients that share sensors, and whose sensors they share in turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from spark_jobs.recommend.traffic import SensorKey

ClientKey = tuple[str, str | None]
"""User and client-id of requests."""


def sharing_clients(
    recorded: Iterable[tuple[SensorKey, ClientKey]],
    concerned: Collection[SensorKey],
    bound: Collection[SensorKey],
) -> set[ClientKey]:
    """Return the clients that are recorded on ``concerned``, and all they share a bucket with.

    ``recorded`` says which client is recorded on which sensor; only ``bound`` ones hold anybody.

    >>> alice, bob = ("alice", "etl"), ("bob", "etl")
    >>> produced, etl = ("producer_byte_rate", "alice", ""), ("request_percentage", "", "etl")
    >>> sorted(sharing_clients([(produced, alice), (etl, alice), (etl, bob)], [produced],
    ...     [produced, etl]))
    [('alice', 'etl'), ('bob', 'etl')]
    """
    clients_of: dict[SensorKey, set[ClientKey]] = defaultdict(set)
    sensors_of: dict[ClientKey, set[SensorKey]] = defaultdict(set)
    for sensor, client in recorded:
        if sensor in bound:
            clients_of[sensor].add(client)
            sensors_of[client].add(sensor)
    found: set[ClientKey] = set()
    waiting = list(concerned)
    seen = set(waiting)
    while waiting:
        for client in clients_of[waiting.pop()] - found:
            found.add(client)
            waiting += sensors_of[client] - seen
            seen |= sensors_of[client]
    return found
