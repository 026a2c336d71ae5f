"""Which line of a mutation says what the controller decided.

A KRaft broker forwards mutations in an envelope: the controller logs the request as forwarded and
the broker logs a twin of it. Topics that a broker creates on its own come without an envelope, in
its own name, but on the controller's listener, and are decided and charged there as well (Kafka:
``AutoTopicCreationManager.sendCreateTopicRequest`` without a request context, for the internal
topics of FIND_COORDINATOR; ``ControllerApis.handleCreateTopics``). With ZooKeeper the broker that
is the controller decides what reaches it, and the others answer NOT_CONTROLLER. There a topic that
timed out was charged and carried out: only its leaders were not known yet
(``ZkAdminManager.createTopics``, ``DelayedCreatePartitions``, ``DelayedDeleteTopics``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_jobs.quota.partition_inventory import DECIDED_ERRORS, NO_ERROR, REQUEST_TIMED_OUT

TWIN_APART_MAX_MS = 30_000
"""Two machines' clocks, and what a broker tries before it gives up, are less apart than this."""

Row = Mapping[str, Any]


def decided_lines(
    rows: Iterable[Row], controller_listeners: frozenset[str], *, uses_zookeeper: bool
) -> tuple[list[Row], list[Row]]:
    """Return the lines that mutations were decided on, and those that only tell of it.

    The latter are brokers' lines of mutations for which no line of the controller is there: after a
    failover, or where hours of its log are missing. What timed out with ZooKeeper has no error.
    """
    if uses_zookeeper:
        return [_as_carried_out(row) for row in rows], []
    listed = list(rows)
    listeners = controller_listeners | {r["listener"] for r in listed if r["is_forwarded"]}
    at_controller = [r for r in listed if r["is_forwarded"] or r["listener"] in listeners]
    twins = [r for r in listed if not r["is_forwarded"] and r["listener"] not in listeners]
    return at_controller, _without_original(twins, at_controller)


def _as_carried_out(row: Row) -> Row:
    mutations = row["mutations"] or ()
    if all(mutation["error_code"] != REQUEST_TIMED_OUT for mutation in mutations):
        return row
    carried_out = [
        mutation | {"error_code": NO_ERROR}
        if mutation["error_code"] == REQUEST_TIMED_OUT
        else mutation
        for mutation in mutations
    ]
    return {**row, "mutations": carried_out}


def _without_original(twins: Sequence[Row], originals: Sequence[Row]) -> list[Row]:
    """Return the decided ``twins`` that no line of a controller belongs to, one to one."""
    at_ms: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in sorted(originals, key=_time_ms):
        if _is_decided(row):
            at_ms[_identity(row)].append(_time_ms(row))
    alone = []
    for row in sorted(twins, key=_time_ms):
        if not _is_decided(row):
            continue
        waiting = at_ms[_identity(row)]
        while waiting and waiting[0] < row["recorded_earliest_ms"] - TWIN_APART_MAX_MS:
            waiting.pop(0)
        if waiting and waiting[0] <= row["recorded_latest_ms"] + TWIN_APART_MAX_MS:
            waiting.pop(0)
        else:
            alone.append(row)
    return alone


def _identity(row: Row) -> tuple[Any, ...]:
    """Return the values both lines have: an envelope holds the client's own header and request."""
    topics = tuple(sorted(m["topic"] or "" for m in row["mutations"] or ()))
    return row["api_name"], row["user"], row["client_id"], row["correlation_id"], topics


def _is_decided(row: Row) -> bool:
    return any(m["error_code"] in DECIDED_ERRORS for m in row["mutations"] or ())


def _time_ms(row: Row) -> int:
    return int(row["recorded_estimate_us"] // 1000)
