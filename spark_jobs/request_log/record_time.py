"""When a broker recorded a request on its quotas, as far as the log tells.

Kafka reads the clock, records, and then hands over the response (``KafkaApis``:
``sendResponseCallback`` and the like); mutations it records before the controller waits for them to
be committed (``ReplicationControlManager``, ``ZkAdminManager``). The line is written after
sending, so counting the sending and the response queue back from its time gives the completion of
the response, and the remote time from there the completion of the handler. The line's time is cut
to a millisecond and is taken once its text is made.

Most requests complete in the handler. Then the response is complete with it, or, where a request
quota is in force on the broker (``RequestChannel.requestThreadTimeNanos``), after the remote
time it takes to build the response. An acks=-1 produce to a replicated topic, or a fetch that
waits for bytes, is recorded by whoever completes it, just before its response is complete. The
constants are measured on a 4.1.0 broker's server log; brokers 3.3 and 3.7 behave alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

PRODUCE_API_KEY = 0
MUTATION_API_KEYS = frozenset({19, 20, 37})
"""CreateTopics, DeleteTopics, CreatePartitions."""

LINE_TIME_STEP_US = 999
"""The line may have been written this much later than its stamp says."""
LINE_TIME_MIDDLE_US = 500
LINE_LAG_MS = 1
"""Between the end of sending and the line's stamp lies the making of its text."""

RESPONSE_BUILT_WITHIN_US = 300
"""A remote time below it is the building of a response (95 % are), above it a wait (98 % are)."""
WAITS_TO_KNOW = 20
"""So many acks=-1 produces tell whether those of a topic wait for replicas."""


@dataclass(slots=True)
class ReplicaWaits:
    """Which topics' acks=-1 produces wait for replicas, learned line by line from one broker."""

    _seen: dict[str, int] = field(default_factory=dict)
    _long: dict[str, int] = field(default_factory=dict)

    def has_waited(self, topics: Iterable[str], remote_time_us: int) -> bool:
        """Return whether an acks=-1 produce waited; its remote time is remembered.

        Only a topic with more than one replica makes it wait, so a topic that mostly does not
        never did: a long remote time is then a pause of the broker.
        """
        is_long = remote_time_us >= RESPONSE_BUILT_WITHIN_US
        may_wait = False
        for topic in topics:
            seen, longs = self._seen.get(topic, 0) + 1, self._long.get(topic, 0) + is_long
            self._seen[topic], self._long[topic] = seen, longs
            may_wait |= seen < WAITS_TO_KNOW or 2 * longs > seen
        return is_long and may_wait


def recorded_interval(
    api_key: int,
    log_time_ms: int,
    handler_time_us: int,
    remote_time_us: int,
    response_queue_time_us: int,
    send_time_us: int,
    acks: int | None = None,
    has_waited: bool | None = None,
) -> tuple[int, int, int]:
    """Return (earliest ms, latest ms, best estimate µs) of the moment of recording.

    ``has_waited`` says whether the response was completed by another than the handler; None tells
    by the remote time. The estimate is a whole millisecond: what is finer than the line's stamp
    says nothing, and lines of one millisecond are best taken in their order.
    """
    complete_us = log_time_ms * 1000 - send_time_us - response_queue_time_us
    handled_us = complete_us - remote_time_us
    if has_waited is None:
        has_waited = remote_time_us >= RESPONSE_BUILT_WITHIN_US
    in_handler = api_key == PRODUCE_API_KEY and acks in (0, 1)
    before_wait = in_handler or not has_waited or api_key in MUTATION_API_KEYS
    latest_us = (handled_us if in_handler else complete_us) + LINE_TIME_STEP_US
    estimate_us = (handled_us if before_wait else complete_us) + LINE_TIME_MIDDLE_US
    earliest_ms = (handled_us - handler_time_us) // 1000 - LINE_LAG_MS
    return earliest_ms, latest_us // 1000, estimate_us // 1000 * 1000
