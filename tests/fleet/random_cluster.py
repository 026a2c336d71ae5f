"""Simulated clusters that a seed draws: their clients, quotas, changes and pauses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from tests.fleet.simulated_plan import (
    ALWAYS_WITH_ZOOKEEPER,
    ANSWERING_US,
    CONSUME,
    EVERYBODY,
    FIRST_QUOTAS_US,
    KAFKA_VERSIONS,
    MUTATE,
    NEVER_WITH_ZOOKEEPER,
    NOBODY,
    PRODUCE,
    REQUEST,
    SECOND,
    Entity,
    QuotaChange,
    SimulatedBroker,
    SimulatedCluster,
    awake,
)

LOAD_BEGINS_US = (8 * SECOND, 40 * SECOND)
"""How long a log may be quiet before the load, which tells a sensor's first sample or does not.

Most brokers keep 11 s of a rate. A score asks for no decision in the first seconds of a quota.
"""
_AMID_FIRST_US = (-50_000, 150_000)
_DECISIONS = (300, 1500)
_CLIENTS_OF_A_SENSOR = (1, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_SIZES = (40, 100, 300, 700, 1000, 1500, 3000, 8000, 20000)
_REQUEST_OVERHEAD_BYTES = 90
_CONTROLLER_LOAD_SECONDS = 90.0
_HANDLER_PERCENT = 0.06
"""About what one request takes of a thread-second, with its share of slow ones."""


class _Cluster(NamedTuple):
    """What the brokers of a cluster have in common; ``pauses`` are those of its controller."""

    uses_zookeeper: bool
    load_begins_us: int
    levels: Sequence[str]
    changes: Sequence[QuotaChange] = ()
    pauses: Sequence[tuple[int, int]] = ()


class _Draft:
    """A broker while it is drawn."""

    def __init__(
        self, random: Random, broker_id: int, cluster: _Cluster, load_seconds: float | None = None
    ) -> None:
        self.random = random
        self.broker_id = broker_id
        self.levels = cluster.levels
        self.begin_us = cluster.load_begins_us
        # Of many lengths, so that sparse and dense traffic comes at every number of decisions.
        self.end_us = self.begin_us + int((load_seconds or self.between(20, 90)) * SECOND)
        self.pauses = tuple(sorted(_pauses(self)))
        self.answering = self.pauses if cluster.uses_zookeeper else cluster.pauses
        self.changes: list[QuotaChange] = []
        self.clients: list[tuple[str, ...]] = []

    def between(self, least: float, most: float) -> float:
        """Return a number whose logarithm is even between two."""
        return math.exp(self.random.uniform(math.log(least), math.log(most)))

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def moment(self, begin: float, end: float) -> int:
        """Return a moment of the load, between two shares of it."""
        return self.begin_us + int(self.span_us * self.random.uniform(begin, end))

    @property
    def span_us(self) -> int:
        return self.end_us - self.begin_us

    def change(self, at_us: int, quota_type: str, entity: Entity, bound: float | None) -> None:
        answered_us = awake(at_us, self.answering)
        applied_us = applied_after(self.random, answered_us)
        self.changes.append(QuotaChange(answered_us, applied_us, quota_type, entity, bound))

    def add_client(self, kind: str, user: str, client_id: str, *words: object) -> None:
        number = len(self.clients)
        address = f"127.0.0.1:{9092 + self.broker_id}-127.0.0.1:{40_000 + number}-{number}"
        said = (f"{word:.6f}" if isinstance(word, float) else str(word) for word in words)
        self.clients.append((kind, address, user, client_id, *said))


def _in_turn(changes: Iterable[QuotaChange]) -> tuple[QuotaChange, ...]:
    """Return changes as they were answered: an entity's next one is asked after the one before."""
    found: list[QuotaChange] = []
    free_us: dict[tuple[str, Entity], int] = {}
    for one in sorted(changes, key=lambda one: one.answered_us):
        entity = one.quota_type, one.entity
        answered_us = max(one.answered_us, free_us.get(entity, 0))
        applied_us = one.applied_us + answered_us - one.answered_us
        free_us[entity] = answered_us + ANSWERING_US
        found.append(msgspec.structs.replace(one, answered_us=answered_us, applied_us=applied_us))
    return tuple(sorted(found, key=lambda one: one.answered_us))


def applied_after(random: Random, answered_us: int) -> int:
    """Return when a broker applies a change: mostly some ms after its answer, rarely far more."""
    delay_ms = random.lognormvariate(math.log(6), 0.9)
    return answered_us + int(min(delay_ms, 300) * 1000)


def simulated_clusters(
    seed: int, runs: int, brokers: int, load_begins_us: Sequence[int] = LOAD_BEGINS_US
) -> Iterator[SimulatedCluster]:
    """Yield clusters of all versions in turn that have ``runs`` brokers in all.

    The load of each begins at one of ``load_begins_us``.
    """
    random = Random(seed)
    versions: list[str] = []
    number = 0
    while runs > 0:
        number += 1
        versions = versions or random.sample(KAFKA_VERSIONS, k=len(KAFKA_VERSIONS))
        count = min(brokers, runs)
        runs -= count
        yield simulated_cluster(seed, number, versions.pop(), count, load_begins_us)


def simulated_cluster(
    seed: int,
    number: int,
    kafka_version: str,
    runs: int,
    load_begins_us: Sequence[int] = LOAD_BEGINS_US,
) -> SimulatedCluster:
    """Return a cluster of so many runs: its brokers, the last of which is the controller."""
    random = Random(f"{seed}-{number}")
    uses_zookeeper = kafka_version in ALWAYS_WITH_ZOOKEEPER or (
        kafka_version not in NEVER_WITH_ZOOKEEPER and random.random() < 0.5
    )
    levels = random.choice((("user",), ("client",), ("both",), ("user", "client", "both")))
    # Drawn apart, so that nothing else depends on it.
    begin_us = Random(f"load-{seed}-{number}").choice(load_begins_us)
    cluster = _Cluster(uses_zookeeper, begin_us, levels)
    last = _Draft(Random(f"{seed}-{number}-{runs}"), runs, cluster, _CONTROLLER_LOAD_SECONDS)
    last.answering = last.pauses
    changes = tuple(
        sorted(_of_cluster(random, cluster, last.pauses), key=lambda one: one.answered_us)
    )
    cluster = cluster._replace(changes=changes, pauses=last.pauses)
    brokers = [_broker(Random(f"{seed}-{number}-{i}"), i, cluster) for i in range(1, runs)]
    brokers.append(_controller(last, cluster))
    return SimulatedCluster(
        seed=seed,
        number=number,
        kafka_version=kafka_version,
        uses_zookeeper=uses_zookeeper,
        load_begins_us=begin_us,
        end_us=begin_us + int(_CONTROLLER_LOAD_SECONDS * SECOND),
        changes=changes,
        brokers=tuple(brokers),
    )


def _of_cluster(
    random: Random, cluster: _Cluster, pauses: Sequence[tuple[int, int]]
) -> Iterator[QuotaChange]:
    levels = cluster.levels
    # Which levels hold quotas decides whose sensor a client has, so all are there from the first.
    for quota_type in (PRODUCE, CONSUME, REQUEST, MUTATE):
        for level in levels:
            at_us = FIRST_QUOTAS_US + random.randint(0, SECOND)
            yield QuotaChange(at_us, at_us, quota_type, _entity(level, "nobody", "nothing"), 1e9)
    for level in levels:
        if random.random() < 0.3:
            entity = _entity(level, None, None)
            for at_us in (3 * SECOND, cluster.load_begins_us + random.randint(5, 60) * SECOND):
                bound = float(f"{math.exp(random.uniform(math.log(3000), math.log(300000))):.3g}")
                answered_us = awake(at_us, pauses)
                yield QuotaChange(answered_us, answered_us, PRODUCE, entity, bound)


def _entity(level: str, user: str | None, client_id: str | None) -> Entity:
    named_user = EVERYBODY if user is None else f"={user}"
    named_client = EVERYBODY if client_id is None else f"={client_id}"
    return Entity(
        NOBODY if level == "client" else named_user, NOBODY if level == "user" else named_client
    )


def _broker(random: Random, broker_id: int, cluster: _Cluster) -> SimulatedBroker:
    draft = _Draft(random, broker_id, cluster)
    groups = random.choice((1, 1, 2, 3))
    decisions = draft.between(*_DECISIONS)
    for group in range(groups):
        _add_producers(draft, f"u{broker_id}-{group}", f"c{broker_id}-{group}", decisions / groups)
    for group in range(random.choice((0, 0, 1, 1, 2))):
        _add_consumers(draft, f"r{broker_id}-{group}", f"f{broker_id}-{group}")
    return _settled(draft, cluster, is_controller=False)


def _settled(draft: _Draft, cluster: _Cluster, *, is_controller: bool) -> SimulatedBroker:
    random = draft.random
    has_own_windows = draft.happens(0.25)
    return SimulatedBroker(
        broker_id=draft.broker_id,
        seed=random.getrandbits(48),
        samples=random.choice((2, 3, 5, 6, 21, 31)) if has_own_windows else 11,
        window_seconds=random.choice((1, 1, 2, 3, 5)) if has_own_windows else 1,
        controller_samples=random.choice((2, 5, 21)) if has_own_windows else 11,
        controller_window_seconds=random.choice((1, 2)) if has_own_windows else 1,
        handlers=random.choice((1, 2, 8, 8, 8)),
        late_share=random.choice((0.0, 0.01, 0.03)),
        very_late_share=random.choice((0.0, 0.0, 0.0005, 0.002)),
        is_controller=is_controller,
        changes=_in_turn(draft.changes),
        default_applied_us=tuple(applied_after(random, one.answered_us) for one in cluster.changes),
        pauses=draft.pauses,
        clients=tuple(draft.clients),
    )


def _pauses(draft: _Draft) -> Iterator[tuple[int, int]]:
    if draft.happens(0.5):
        return
    for _ in range(draft.random.randint(1, 4)):
        length_ms = draft.between(50, 700) if draft.happens(0.8) else draft.between(1000, 4000)
        yield draft.moment(0, 0.95), int(length_ms * 1000)


def _add_producers(draft: _Draft, user: str, client_id: str, decisions: float) -> None:
    random = draft.random
    level = random.choice(draft.levels)
    count = random.choice(_CLIENTS_OF_A_SENSOR)
    rate = decisions / (draft.span_us / SECOND)
    if draft.happens(0.12):
        rate = 60.0  # without a silence that would tell where samples begin
    is_regular = draft.happens(0.35)
    demand = 0.0
    for i in range(count):
        least = random.choice(_SIZES)
        most = min(least * random.choice((4, 20)), 30_000) if draft.happens(0.4) else least
        acks, waits = random.choice(((0, 0.0), (1, 0.0), (1, 0.0), (-1, 0.0), (-1, 1.0)))
        # A sensor of a user spans client-ids; any other spans connections of one.
        name = f"{client_id}-{i}" if level == "user" and draft.happens(0.5) else client_id
        gap_us = int(SECOND * count / rate)
        for begin_us, end_us in _spells(draft):
            draft.add_client(
                "produce", user, name, begin_us, end_us, gap_us, int(is_regular),
                int(draft.happens(0.85)), int(i == 0), acks, waits, _topic(draft, waits),
                least, max(least, most), random.choice((1, 4)),
            )  # fmt: skip
        demand += rate / count * ((least + max(least, most)) / 2 + _REQUEST_OVERHEAD_BYTES)
    _add_quotas(draft, PRODUCE, level, (user, client_id), demand)
    if draft.happens(0.25):
        _add_quotas(draft, REQUEST, level, (user, client_id), rate * _HANDLER_PERCENT)


def _topic(draft: _Draft, waits: float) -> str:
    # Whether a produce waits for replicas is a matter of its topic.
    return f"{'replicated' if waits else 'single'}-{draft.broker_id}"


def _spells(draft: _Draft) -> list[tuple[int, int]]:
    """Return when a client sends: all the time, or in two or three bursts."""
    if draft.happens(0.75):
        return [(draft.begin_us + draft.random.randint(0, SECOND), draft.end_us)]
    count = draft.random.randint(2, 3)
    span = draft.span_us // count
    begins = [draft.begin_us + i * span + draft.random.randint(0, span // 3) for i in range(count)]
    return [(b, b + draft.random.randint(span // 4, span // 2)) for b in begins]


def _add_quotas(
    draft: _Draft, quota_type: str, level: str, names: tuple[str, str], demand: float
) -> None:
    """Set a quota that part of the ``demand`` meets; change it under load."""
    random = draft.random
    if quota_type == PRODUCE and draft.happens(0.1):
        return
    entity = _entity(level, *names)
    bound = demand * draft.between(0.3, 1.2)
    # From far above the demand to below it: dense traffic that nothing has synchronised before.
    is_lowered = draft.happens(0.25)
    begin_us = 3 * SECOND if draft.happens(0.75) else draft.moment(0, 0.3)
    if draft.happens(0.1):
        begin_us = _amid_first_requests(draft, names[0])
    first = bound * 20 if is_lowered else bound
    draft.change(begin_us, quota_type, entity, _rounded(draft, quota_type, first))
    moments = sorted(
        draft.moment(0.1, 0.95) for _ in range(random.choice((0, 0, 1, 1, 2, 3)) or is_lowered)
    )
    for i, at_us in enumerate(moments):
        if at_us <= begin_us + SECOND:
            continue
        what = random.choice(("change", "change", "change", "remove", "override"))
        if i == 0 and is_lowered:
            what = "change"
        if what == "override":
            entity = _entity(random.choice(draft.levels), *names)
        value = _rounded(draft, quota_type, bound * draft.between(0.4, 2.5))
        draft.change(at_us, quota_type, entity, None if what == "remove" else value)


def _amid_first_requests(draft: _Draft, user: str) -> int:
    """Return a moment about when one of a user's clients begins: code that runs first is slow."""
    begins_us = [int(words[4]) for words in draft.clients if words[2] == user]
    return draft.random.choice(begins_us) + draft.random.randint(*_AMID_FIRST_US)


def _rounded(draft: _Draft, quota_type: str, bound: float) -> float:
    # People set round values; Kafka takes any, of bytes any whole one.
    if draft.happens(0.7) and bound >= 10:
        return float(f"{bound:.2g}")
    is_of_bytes = quota_type in (PRODUCE, CONSUME)
    return float(math.ceil(bound)) if is_of_bytes else round(bound, 6)


def _add_consumers(draft: _Draft, user: str, client_id: str) -> None:
    random = draft.random
    level = random.choice(draft.levels)
    batch_bytes = random.choice((300, 1000, 5000, 16_384, 100_000))
    per_second = draft.between(1, 40)
    ends_us = draft.moment(0.5, 0.9) if draft.happens(0.5) else draft.end_us
    for i in range(random.choice((1, 1, 2, 3))):
        draft.add_client(
            "fetch", user, client_id, draft.moment(0, 0.1), draft.end_us,
            int(draft.between(10_000, 200_000)), 0, 1, int(i == 0), f"read-{draft.broker_id}",
            batch_bytes, per_second, random.choice((0, 0, 100, 1000)),
            random.choice((65_536, 1_048_576)), ends_us, random.choice((0.0, 0.0, 0.03)),
        )  # fmt: skip
    demand = max(batch_bytes * per_second, 5000)
    _add_quotas(draft, CONSUME, level, (user, client_id), demand)


def _controller(draft: _Draft, cluster: _Cluster) -> SimulatedBroker:
    random = draft.random
    for group in range(random.randint(4, 10)):
        user, level = f"m{group}", random.choice(draft.levels)
        demand = 0.0
        for i in range(random.choice((1, 2, 2, 3))):
            # Admins of one bucket share what it is named after.
            client_id = f"admin{group}-{i}" if level == "user" else f"admin{group}"
            topics, partitions = random.randint(1, 3), random.randint(1, 3)
            per_second = draft.between(0.3, 2)
            draft.add_client(
                "mutate", user, client_id, draft.begin_us + random.randint(0, 3 * SECOND),
                draft.end_us, int(SECOND / per_second), int(draft.happens(0.3)),
                int(draft.happens(0.5)), int(i == 0), topics, partitions,
                random.choice(("strict", "strict", "permissive")),
            )  # fmt: skip
            demand += per_second * (1 + topics) / 2 * (1 + partitions) / 2
        _add_quotas(draft, MUTATE, level, (user, f"admin{group}"), demand)
    return _settled(draft, cluster, is_controller=True)
