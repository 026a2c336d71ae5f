"""Faults that are planted into simulated brokers, and the throttles that a sound broker gives.

A fault is in the produce quota of one broker, or, where a cluster's brokers are of another version
than its archive says, of all of them. What each produce was due follows from the moments of the
simulator's own records: no log and no estimate has a part in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from random import Random

import msgspec

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import profile_of_version
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from tests.fleet.simulated_lines import Row
from tests.fleet.simulated_plan import (
    EVERYBODY,
    FIRST_QUOTAS_US,
    NOBODY,
    PRODUCE,
    REQUEST,
    SECOND,
    Entity,
    QuotaChange,
    SimulatedBroker,
    SimulatedCluster,
    simulator_words,
)

WRONG_BOUND, LOST_STATE, LATE_CHANGE, WRONG_BUCKET, SKIPPED, ALTERED, OTHER_PROFILE = (
    "wrong bound", "lost state", "late change", "wrong bucket", "skipped throttles",
    "altered throttles", "other profile",
)  # fmt: skip
_OF_BROKERS = (WRONG_BOUND, LOST_STATE, LATE_CHANGE, WRONG_BUCKET, SKIPPED, ALTERED)
OTHER_VERSIONS = {
    **dict.fromkeys(("3.2.3", "3.3.2", "3.7.2"), "3.9.1"),
    **dict.fromkeys(("3.9.1", "4.1.0", "4.4.0"), "3.7.2"),
}
"""Of each simulated version, one that keeps its rate by another profile."""
_ALTERED_SHARE = 0.03
_NEVER_MS = -(1 << 31)
_NOBODY_OF_ALL = Entity("=nobody", "=nothing")

Decision = tuple[int, str, int]
"""Broker, connection and correlation id of a produce."""


class Fault(msgspec.Struct, frozen=True):
    """One fault; ``size`` is a factor of the bound, seconds, or milliseconds of a throttle."""

    kind: str
    size: float = 0.0
    at_us: int = 0
    connection: str = ""


def planted_faults(cluster: SimulatedCluster) -> dict[int, Fault]:
    """Return a fault for each broker whose throttles of produces are of one quota alone."""
    random = Random(f"faults-{cluster.name}")
    return {
        broker.broker_id: _fault(random, cluster, broker)
        for broker in cluster.brokers
        if not broker.is_controller and _is_plain(broker)
    }


def with_lasting_admins(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return the cluster with brokers of faults whose admins ask before the load, and after it.

    Without a connection that lasts a broker looks started anew where its load begins, and then
    nothing is known of what it held.
    """
    first, last = (
        QuotaChange(at_us, at_us, PRODUCE, _NOBODY_OF_ALL, 1e9)
        for at_us in (FIRST_QUOTAS_US, cluster.end_us)
    )
    brokers = (
        msgspec.structs.replace(broker, changes=(first, *broker.changes, last))
        if _is_plain(broker)
        else broker
        for broker in cluster.brokers
    )
    return msgspec.structs.replace(cluster, brokers=tuple(brokers))


def _is_plain(broker: SimulatedBroker) -> bool:
    types = {change.quota_type for change in broker.changes}
    return PRODUCE in types and REQUEST not in types


def _fault(random: Random, cluster: SimulatedCluster, broker: SimulatedBroker) -> Fault:
    kind = random.choice(_OF_BROKERS)
    begin_us = cluster.load_begins_us
    at_us = begin_us + int((cluster.end_us - begin_us) * random.uniform(0.1, 0.4))
    size, connection = 0.0, ""
    if kind == WRONG_BOUND:
        size = math.exp(random.choice((-1, 1)) * random.uniform(math.log(1.01), math.log(3)))
    elif kind == LATE_CHANGE:
        # A broker is given three seconds to follow.
        size = math.exp(random.uniform(math.log(3.1), math.log(20)))
    elif kind == ALTERED:
        size = random.choice((-1, 1)) * math.exp(random.uniform(math.log(5), math.log(1500)))
    elif kind == WRONG_BUCKET:
        connection = random.choice([w[1] for w in broker.clients if w[0] == "produce"])
    return Fault(kind, size, at_us, connection)


def faulty_words(
    cluster: SimulatedCluster, broker: SimulatedBroker, faults: Mapping[int, Fault]
) -> Iterator[str]:
    """Yield the lines that make ``FleetSimulator.java`` run a broker with its fault, if any."""
    fault = faults.get(broker.broker_id)
    if fault is None:
        yield from simulator_words(cluster, broker)
        return
    own = {change.entity for change in broker.changes}
    for line in simulator_words(cluster, broker):
        words = line.split("\t")
        if words[0] == "set" and words[2] == PRODUCE:
            yield "\t".join(("due", *words[1:]))
            yield from _set_otherwise(
                words, fault, cluster.load_begins_us, is_own=Entity(*words[3:5]) in own
            )
            continue
        if words[0] == "run":
            yield from _planted(fault, broker)
        yield line


def _set_otherwise(words: list[str], fault: Fault, begin_us: int, *, is_own: bool) -> Iterator[str]:
    """Yield what the broker does in place of setting a quota of produces."""
    _, at_us, _, user, client_id, bound = words
    if is_own and fault.kind == WRONG_BOUND and bound != "-":
        bound = repr(float(bound) * fault.size)
    if is_own and fault.kind == LATE_CHANGE and int(at_us) > begin_us:
        at_us = str(int(at_us) + int(fault.size * SECOND))
    yield "\t".join(("set", at_us, PRODUCE, user, client_id, bound))
    if is_own and fault.kind == WRONG_BUCKET:
        names = (word if word in (EVERYBODY, NOBODY) else word + _OTHER for word in words[3:5])
        yield "\t".join(("set", at_us, PRODUCE, *names, bound))


_OTHER = "-other"


def _planted(fault: Fault, broker: SimulatedBroker) -> Iterator[str]:
    if fault.kind == LOST_STATE:
        yield f"forget\t{fault.at_us}"
    elif fault.kind == WRONG_BUCKET:
        (user, client_id), *_ = [w[2:4] for w in broker.clients if w[1] == fault.connection]
        yield f"as\t{fault.connection}\t{user}{_OTHER}\t{client_id}{_OTHER}"
    elif fault.kind == SKIPPED:
        yield f"alter\t{_ALTERED_SHARE}\t{_NEVER_MS}\t{_NEVER_MS}"
    elif fault.kind == ALTERED:
        yield f"alter\t{_ALTERED_SHARE}\t{round(fault.size)}\t{round(fault.size)}"


def due_throttles_ms(
    rows: Iterable[Row], cluster: SimulatedCluster, version: str
) -> dict[Decision, int]:
    """Return the throttle (ms) that each produce was due on a sound broker of ``version``."""
    brokers = {broker.broker_id: broker for broker in cluster.brokers}
    profile = profile_of_version(version)
    rates: dict[tuple[int, str, str], Rate] = {}
    produces = [row for row in rows if row.kind == "produce"]
    due: dict[Decision, int] = {}
    for row in sorted(produces, key=lambda row: (row.broker_id, int(row.described[5]))):
        size, _, user, client_id, bound = row.described[4:]
        broker = brokers[row.broker_id]
        window_ms = broker.window_seconds * 1000
        rate = rates.setdefault(
            (row.broker_id, user, client_id), Rate(profile, broker.samples, window_ms)
        )
        rate.record(float(size), row.recorded_ms)
        found = rate.measure(row.recorded_ms)
        throttle_ms = 0
        if not is_acceptable(found, float(bound)):
            throttle_ms = throttle_time_ms(
                found, float(bound), rate.window_size_ms(row.recorded_ms)
            )
        due[row.broker_id, row.connection, row.correlation_id] = throttle_ms
    return due
