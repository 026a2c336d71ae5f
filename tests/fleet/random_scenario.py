"""A random scenario for the lab (``tests/oracle/scenario.py``), the same one for the same seed.

What is drawn: clients, sizes, quotas of every level and what happens to them and to the brokers.
Nothing in it is a fault: an audit of what brokers log under it has nobody to accuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.oracle.cluster_plan import (
    COMBINED,
    DEDICATED,
    FIRST_KRAFT_VERSION,
    FIRST_WITHOUT_ZOOKEEPER,
    ZOOKEEPER,
    parse_version,
)

LOAD_BEGINS_MS = 2500
"""Until then topics and most quotas are there."""

_FIRST_QUOTAS_MS = 500
_FIRST_ENFORCING_MUTATIONS = (3, 5, 0)
"""KRaft controllers before it never enforce ``controller_mutation_rate`` (KAFKA-14351)."""

_USERS = ("alice", "bob", "dave", "erin", "grace", "heidi")
_APPS = ("orders-app", "clicks", "etl", "import", "web", "sensor")
_TOPICS = ("orders", "clicks", "ledger", "feed")
_CLIENTS_OF_A_SENSOR = (1, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_CLIENTS_MAX = 24
_SIZES = (40, 100, 300, 700, 1000, 1500, 3000, 8000, 20000)
_REQUEST_OVERHEAD_BYTES = 90
_BROKERS = (1, 2)
_CONTROLLERS = (11, 12, 13)


@dataclass(slots=True)
class _Clients:
    """Producers that share a sensor: user, client-ids, and what they send together."""

    user: str
    client_ids: list[str]
    topic: str
    bytes_per_second: float = 0.0


@dataclass(slots=True)
class _Draft:
    """A scenario while it is drawn."""

    random: Random
    kafka_version: tuple[int, int, int]
    layout: str
    load_ms: int
    lines: list[tuple[int, str]] = field(default_factory=list)
    clients: list[_Clients] = field(default_factory=list)

    @property
    def end_ms(self) -> int:
        """Return when the load ends."""
        return LOAD_BEGINS_MS + self.load_ms

    def add(self, at_ms: float, words: str) -> None:
        """Add a step."""
        self.lines.append((int(at_ms), words))

    def moment(self, begin: float = 0.05, end: float = 0.95) -> int:
        """Return a moment of the load, between two shares of it."""
        return LOAD_BEGINS_MS + int(self.load_ms * self.random.uniform(begin, end))

    def between(self, least: float, most: float) -> float:
        """Return a number whose logarithm is even between two."""
        return math.exp(self.random.uniform(math.log(least), math.log(most)))

    def happens(self, chance: float) -> bool:
        """Return True with this chance."""
        return self.random.random() < chance


def layouts(kafka_version: str) -> tuple[str, ...]:
    """Return the layouts in which the lab runs a version."""
    version = parse_version(kafka_version)
    with_zookeeper = (ZOOKEEPER,) if version < FIRST_WITHOUT_ZOOKEEPER else ()
    with_quorum = (COMBINED, DEDICATED) if version >= FIRST_KRAFT_VERSION else ()
    return with_quorum + with_zookeeper


def random_scenario(seed: str, kafka_version: str, load_ms: int, is_loaded: bool) -> str:
    """Return a scenario's text: ``load_ms`` of load, ``is_loaded`` with busy processes beside."""
    random = Random(seed)
    layout = random.choice(layouts(kafka_version))
    draft = _Draft(random, parse_version(kafka_version), layout, load_ms)
    topics = _add_topics(draft)
    _add_producers(draft, topics)
    _add_consumers(draft)
    _add_admins(draft)
    _add_request_quota(draft)
    _add_node_events(draft)
    if is_loaded:
        _add_busy_processes(draft)
    steps = [f"{at_ms} {words}" for at_ms, words in sorted(draft.lines, key=lambda line: line[0])]
    settings = " ".join((f"0 cluster {layout}", *_settings(draft)))
    about = f"# Drawn from the seed {seed} for Kafka {kafka_version}."
    return "\n".join((about, settings, *steps, ""))


def _settings(draft: _Draft) -> Iterator[str]:
    random = draft.random
    for kind in ("", "controller."):
        if draft.happens(0.25):
            yield f"{kind}quota.window.num={random.choice((2, 3, 5, 6, 21, 31))}"
            yield f"{kind}quota.window.size.seconds={random.choice((1, 1, 2, 3, 5))}"
    if draft.happens(0.25):
        yield f"num.io.threads={random.choice((1, 2, 8))}"


def _add_topics(draft: _Draft) -> Sequence[str]:
    topics = draft.random.sample(_TOPICS, k=draft.random.randint(2, 4))
    for topic in topics:
        partitions, replicas = draft.random.choice((1, 2, 4, 6)), draft.random.choice((1, 1, 2))
        draft.add(0, f"topic {topic} {partitions} {replicas}")
    return topics


def _add_producers(draft: _Draft, topics: Sequence[str]) -> None:
    random = draft.random
    users = [*random.sample(_USERS, k=3), "-"]
    left = _CLIENTS_MAX
    for app in random.sample(_APPS, k=random.randint(3, 6)):
        count = min(random.choice(_CLIENTS_OF_A_SENSOR), left)
        if count == 0:
            break
        left -= count
        # Several connections of one client-id, or client-ids that share their user's sensor.
        names = [app] * count if draft.happens(0.5) else [f"{app}-{i}" for i in range(count)]
        clients = _Clients(random.choice(users), names, random.choice(topics))
        requests_per_second = draft.between(20, 120)
        for name in names:
            _add_producer(draft, clients, name, requests_per_second / count)
        draft.clients.append(clients)
        _add_quotas(draft, clients, "producer_byte_rate", clients.bytes_per_second)


def _add_producer(draft: _Draft, clients: _Clients, name: str, records_per_second: float) -> None:
    random = draft.random
    least = random.choice(_SIZES)
    most = min(least * random.choice((4, 20)), 30_000) if draft.happens(0.4) else least
    most = max(most, least)
    acks, is_idempotent = random.choice((("0", 0), ("1", 0), ("1", 0), ("all", 0), ("all", 1)))
    what = f"produce {clients.user} {name} {clients.topic} {least} {records_per_second:.3f}"
    how = f"{acks} {'true' if is_idempotent else 'false'} {most if most > least else ''}".rstrip()
    for begin_ms, end_ms in _spells(draft):
        draft.add(begin_ms, f"{what} {end_ms - begin_ms} {how}")
    size = (least + most) / 2 + _REQUEST_OVERHEAD_BYTES
    clients.bytes_per_second += records_per_second * size


def _spells(draft: _Draft) -> list[tuple[int, int]]:
    """Return when a client sends: all the time, or in two or three bursts."""
    if draft.happens(0.75):
        return [(LOAD_BEGINS_MS + draft.random.randint(0, 2000), draft.end_ms)]
    count = draft.random.randint(2, 3)
    span = draft.load_ms // count
    spells = []
    for i in range(count):
        begin = LOAD_BEGINS_MS + i * span + draft.random.randint(0, span // 3)
        spells.append((begin, begin + draft.random.randint(span // 4, span // 2)))
    return spells


def _add_quotas(draft: _Draft, clients: _Clients, quota_type: str, demand: float) -> None:
    """Set a quota that part of the ``demand`` meets, at a random level; change it under load."""
    random = draft.random
    levels = _entities(clients.user, random.choice(clients.client_ids))
    if draft.happens(0.1):
        return
    entity = random.choice(levels)
    # Clients spread over two brokers, and each holds its own part to the whole quota.
    bound = demand / len(_BROKERS) * draft.between(0.4, 2.0)
    begin_ms = _FIRST_QUOTAS_MS if draft.happens(0.8) else draft.moment(0, 0.3)
    draft.add(begin_ms, f"quota {entity} {quota_type}={_bound(draft, quota_type, bound)}")
    for at_ms in sorted(draft.moment(0.1) for _ in range(random.choice((0, 0, 1, 1, 2, 3)))):
        what = random.choice(("change", "change", "change", "remove", "override"))
        if what == "override":
            entity = random.choice(levels)
        value = (
            "-" if what == "remove" else _bound(draft, quota_type, bound * draft.between(0.4, 2.5))
        )
        draft.add(at_ms, f"quota {entity} {quota_type}={value}")


def _bound(draft: _Draft, quota_type: str, bound: float) -> str:
    # People set round values; Kafka takes any, of bytes any whole one.
    round_bound = f"{float(f'{bound:.2g}'):.10g}"
    exact = f"{bound:.6f}" if quota_type == "controller_mutation_rate" else f"{math.ceil(bound)}"
    return round_bound if draft.happens(0.7) and bound >= 10 else exact


def _entities(user: str, client_id: str) -> list[str]:
    name = "ANONYMOUS" if user == "-" else user
    return [
        f"user={name}", f"user={name}", f"client-id={client_id}",
        f"user={name},client-id={client_id}", f"user={name},client-id=<default>",
        "user=<default>", "client-id=<default>", f"user=<default>,client-id={client_id}",
        "user=<default>,client-id=<default>",
    ]  # fmt: skip


def _add_consumers(draft: _Draft) -> None:
    random = draft.random
    for number in range(random.choice((0, 1, 1, 2, 3))):
        read = random.choice(draft.clients)
        user = random.choice((read.user, random.choice(_USERS), "-"))
        consumer = _Clients(user, [f"reader-{number}"], read.topic)
        begin_ms = draft.moment(0.05, 0.25)
        ends_ms = draft.end_ms if draft.happens(0.7) else draft.moment(0.6)
        words = f"consume {user} reader-{number} {read.topic} {ends_ms - begin_ms}"
        draft.add(begin_ms, words)
        # A quota far below one fetch would hold the only one of a short load.
        demand = max(read.bytes_per_second, 20_000)
        _add_quotas(draft, consumer, "consumer_byte_rate", demand)


def _add_admins(draft: _Draft) -> None:
    random = draft.random
    is_enforced = draft.layout == ZOOKEEPER or draft.kafka_version >= _FIRST_ENFORCING_MUTATIONS
    count = random.choice((0, 1, 2, 2, 3))
    if not is_enforced or count == 0:
        return
    # Admins of one user share its bucket.
    admins = _Clients("carol", [f"admin-{number}" for number in range(count)], "")
    demand = 0.0
    for name in admins.client_ids:
        topics, partitions = random.randint(1, 3), random.randint(1, 3)
        per_second = draft.between(0.3, 1.5)
        begin_ms = LOAD_BEGINS_MS + random.randint(0, 3000)
        retry = "true" if draft.happens(0.2) else "false"
        mode = random.choice(("strict", "strict", "permissive"))
        draft.add(
            begin_ms,
            f"mutate carol {name} {topics} {partitions} {per_second:.3f} "
            f"{draft.end_ms - begin_ms} {retry} {mode}",
        )
        demand += topics * partitions * per_second
    # A bucket is the controller's alone: undo what is taken off for two brokers.
    _add_quotas(draft, admins, "controller_mutation_rate", demand * len(_BROKERS) * 0.6)


def _add_request_quota(draft: _Draft) -> None:
    if not draft.happens(0.4):
        return
    clients = draft.random.choice(draft.clients)
    entity = draft.random.choice(_entities(clients.user, clients.client_ids[0])[:4])
    percentages = [draft.between(0.05, 2.0) for _ in range(draft.random.choice((1, 1, 2)))]
    draft.add(_FIRST_QUOTAS_MS, f"quota {entity} request_percentage={percentages[0]:.3f}")
    for changed in percentages[1:]:
        draft.add(draft.moment(), f"quota {entity} request_percentage={changed:.3f}")


def _add_node_events(draft: _Draft) -> None:
    random = draft.random
    fails_over = draft.layout == DEDICATED and draft.happens(0.5)
    if fails_over:
        draft.add(draft.moment(0.2, 0.7), "failover")
    if draft.happens(0.2):
        draft.add(draft.moment(0.2, 0.6), f"restart {random.choice(_BROKERS)}")
    if not draft.happens(0.5):
        return
    # The controller that a failover has stopped cannot be paused.
    with_controllers = draft.layout == DEDICATED and not fails_over
    nodes = (*_BROKERS, *_CONTROLLERS) if with_controllers else _BROKERS
    for _ in range(random.randint(1, 5)):
        length_ms = draft.between(50, 700) if draft.happens(0.75) else draft.between(1000, 4000)
        draft.add(draft.moment(0, 0.9), f"pause {random.choice(nodes)} {length_ms:.0f}")


def _add_busy_processes(draft: _Draft) -> None:
    for _ in range(draft.random.randint(1, 3)):
        begin_ms = draft.moment(0, 0.5) if draft.happens(0.5) else LOAD_BEGINS_MS
        length_ms = (draft.end_ms - begin_ms) * draft.random.uniform(0.3, 1)
        draft.add(begin_ms, f"busy {draft.random.randint(1, 3)} {length_ms:.0f}")
