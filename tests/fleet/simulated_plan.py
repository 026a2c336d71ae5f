"""What simulated brokers are to do: clients, quotas, changes and pauses.

One cluster holds many brokers, and each of them is a run with clients of its own: an archive of
all of them is audited at once. The last one is the cluster's controller, whose clients are admins.
Times are microseconds since the cluster's beginning. ``FleetSimulator.java`` reads the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tests.fleet.run_score import Run

KAFKA_VERSIONS = ("3.2.3", "3.3.2", "3.7.2", "3.9.1", "4.1.0", "4.4.0")
"""Two of each rate: before 3.3, from 3.3 on, from 3.8 on (and the last release)."""

ALWAYS_WITH_ZOOKEEPER = ("3.2.3", "3.3.2")
"""KRaft controllers of these never enforce ``controller_mutation_rate`` (KAFKA-14351)."""
NEVER_WITH_ZOOKEEPER = ("4.1.0", "4.4.0")

SECOND = 1_000_000
FIRST_QUOTAS_US = SECOND
PRODUCE, CONSUME, REQUEST, MUTATE = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
)  # fmt: skip
NOBODY, EVERYBODY = "-", "*"
ANSWERING_US = 10_000
"""So long an ALTER_CLIENT_QUOTAS is under way, from its reading to its line."""


class Entity(msgspec.Struct, frozen=True):
    """Whom a quota is for: ``-`` for no such part, ``*`` for the default, ``=x`` for one named."""

    user: str
    client_id: str


class QuotaChange(msgspec.Struct, frozen=True):
    """One quota set or (None) removed: when its request was answered, and when it was applied."""

    answered_us: int
    applied_us: int
    quota_type: str
    entity: Entity
    bound: float | None


class SimulatedBroker(msgspec.Struct, frozen=True):
    """One broker: its settings, its own quota changes and the simulator's words of its clients.

    ``default_applied_us`` is when it applies each change of the cluster's own.
    """

    broker_id: int
    seed: int
    samples: int
    window_seconds: int
    controller_samples: int
    controller_window_seconds: int
    handlers: int
    late_share: float
    very_late_share: float
    is_controller: bool
    changes: tuple[QuotaChange, ...]
    default_applied_us: tuple[int, ...]
    pauses: tuple[tuple[int, int], ...]
    clients: tuple[tuple[str, ...], ...]


class SimulatedCluster(msgspec.Struct, frozen=True):
    """Brokers of one version that share an archive, and the quota changes that all of them meet."""

    seed: int
    number: int
    kafka_version: str
    uses_zookeeper: bool
    load_begins_us: int
    end_us: int
    changes: tuple[QuotaChange, ...]
    brokers: tuple[SimulatedBroker, ...]

    @property
    def name(self) -> str:
        """Return the name of the cluster and of its folder."""
        return f"{self.seed}-{self.number}-{self.kafka_version}"

    def run_of(self, broker: SimulatedBroker) -> Run:
        """Return what the score of one of its brokers says of it."""
        return Run(
            name=f"{self.name}-{broker.broker_id}",
            kafka_version=self.kafka_version,
            layout="zookeeper" if self.uses_zookeeper else "kraft",
            pauses=len(broker.pauses),
        )


def awake(answered_us: int, pauses: Sequence[tuple[int, int]]) -> int:
    """Return when a process can have answered that may have been stopped meanwhile.

    >>> awake(40_000, [(39_000, 700_000)]), awake(20_000, [(39_000, 700_000)])
    (749000, 20000)
    """
    for begin_us, length_us in sorted(pauses):
        if begin_us - ANSWERING_US <= answered_us < begin_us + length_us + ANSWERING_US:
            answered_us = begin_us + length_us + ANSWERING_US
    return answered_us


def simulator_words(cluster: SimulatedCluster, broker: SimulatedBroker) -> Iterator[str]:
    """Yield the lines that make ``FleetSimulator.java`` run a broker."""
    decides_in_handler = int(cluster.uses_zookeeper)
    settings = (
        broker.broker_id, broker.seed, broker.samples, broker.window_seconds * 1000,
        broker.controller_samples, broker.controller_window_seconds * 1000, broker.handlers,
        cluster.end_us, broker.late_share, broker.very_late_share, decides_in_handler,
    )  # fmt: skip
    yield "\t".join(map(str, ("broker", *settings)))
    of_cluster = zip(broker.default_applied_us, cluster.changes, strict=True)
    applied = [*of_cluster, *((one.applied_us, one) for one in broker.changes)]
    # Records are applied in the order in which they were committed.
    latest_us = 0
    for at_us, one in sorted(applied, key=lambda pair: pair[1].answered_us):
        latest_us = max(latest_us, at_us)
        bound = "-" if one.bound is None else repr(one.bound)
        words = ("set", latest_us, one.quota_type, one.entity.user, one.entity.client_id, bound)
        yield "\t".join(map(str, words))
    for at_us, length_us in broker.pauses:
        yield f"pause\t{at_us}\t{length_us}"
    # A controller answers for the cluster and for every broker.
    asked = cluster.brokers if broker.is_controller else (broker,)
    answered = [change for one in asked for change in one.changes]
    answered += cluster.changes if broker.is_controller else ()
    for at_us in sorted({change.answered_us for change in answered}):
        yield f"answer\t{at_us}"
    for words in broker.clients:
        yield "\t".join(words)
    yield "run"
