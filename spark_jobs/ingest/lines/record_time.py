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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.quota.apis import API_KEYS
from spark_jobs.quota.partition_inventory import MUTATION_APIS

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]

PRODUCE_API_KEY = 0
MUTATION_API_KEYS = frozenset(API_KEYS[name] for name in MUTATION_APIS)
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
_TOPIC_NAME_MAX = 249  # Kafka: ``Topic.MAX_NAME_LENGTH``
NOT_KEPT = -2
_TOPICS_MAX = 100_000  # of one file; one that names more names no topics

NOT_WAITED, WAITED, BY_REMOTE_TIME = range(3)
"""Whether a response was completed by another than the handler."""


class ReplicaWaits:
    """Which topics' acks=-1 produces wait for replicas, learned line by line from one broker."""

    __slots__ = ("_counts", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._counts = np.zeros((16, 2), np.int64)  # of each topic: produces seen, and long ones

    def number(self, topic: str) -> int:
        """Return the number under which a topic is known from now on.

        NOT_KEPT for a name that can be no topic's, or where a file names too many: such a topic is
        always as one that is seen for the first time.
        """
        if topic not in self._numbers and (
            len(topic) > _TOPIC_NAME_MAX or len(self._numbers) >= _TOPICS_MAX
        ):
            return NOT_KEPT
        number = self._numbers.setdefault(topic, len(self._numbers))
        if number >= len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        return number

    def has_waited(self, topics: Iterable[str], remote_time_us: int) -> bool:
        """Return True if an acks=-1 produce waited; its remote time is remembered.

        Only a topic with more than one replica makes a produce wait. One that mostly does not never
        did: a long remote time is then a pause of the broker.
        """
        is_long = remote_time_us >= RESPONSE_BUILT_WITHIN_US
        may_wait = False
        for topic in topics:
            number = self.number(topic)
            if number == NOT_KEPT:
                may_wait = True
                continue
            seen, longs = (int(count) for count in self._counts[number])
            seen, longs = seen + 1, longs + is_long
            self._counts[number] = seen, longs
            may_wait |= seen < WAITS_TO_KNOW or 2 * longs > seen
        return is_long and may_wait

    def learn(
        self,
        produces: WaitingProduces,
        begin: int,
        end: int,
    ) -> None:
        """Do for the rows from ``begin`` to before ``end`` what :meth:`has_waited` does for one."""
        _learn(self._counts, *produces, begin, end)


class WaitingProduces(NamedTuple):
    """Rows of which those with ``is_asked`` are acks=-1 produces.

    ``topics[ends[row - 1]:ends[row]]`` are the numbers of a row's topics, -1 where one has no
    name. ``waited`` becomes WAITED or NOT_WAITED; where no topic is named it stays as it is.
    """

    is_asked: npt.NDArray[np.bool_]
    remote_time_us: Int64s
    topics: Int64s
    ends: Int64s
    waited: Int8s


@njit(cache=True)
def _learn(
    counts: Int64s,
    is_asked: npt.NDArray[np.bool_],
    remote_time_us: Int64s,
    topics: Int64s,
    ends: Int64s,
    waited: Int8s,
    begin: int,
    end: int,
) -> None:
    for row in range(begin, end):
        if not is_asked[row]:
            continue
        is_long = remote_time_us[row] >= RESPONSE_BUILT_WITHIN_US
        may_wait = False
        is_named = False
        for i in range(ends[row - 1] if row else 0, ends[row]):
            topic = topics[i]
            if topic == NOT_KEPT:
                is_named = may_wait = True
            elif topic >= 0:
                is_named = True
                counts[topic, 0] += 1
                counts[topic, 1] += is_long
                seen, longs = counts[topic, 0], counts[topic, 1]
                may_wait |= seen < WAITS_TO_KNOW or 2 * longs > seen
        if is_named:
            waited[row] = WAITED if is_long and may_wait else NOT_WAITED


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


def recorded_intervals(
    api_key: Int64s,
    log_time_ms: Int64s,
    handler_time_us: Int64s,
    remote_time_us: Int64s,
    response_queue_time_us: Int64s,
    send_time_us: Int64s,
    acks: Int64s,
    waited: Int8s,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return the three times of :func:`recorded_interval` for many requests.

    ``waited`` is WAITED, NOT_WAITED, or BY_REMOTE_TIME for its None; ``acks`` is any other number
    for its None.
    """
    complete_us = log_time_ms * 1000 - send_time_us - response_queue_time_us
    handled_us = complete_us - remote_time_us
    is_long = remote_time_us >= RESPONSE_BUILT_WITHIN_US
    has_waited = np.where(waited == BY_REMOTE_TIME, is_long, waited == WAITED)
    in_handler = (api_key == PRODUCE_API_KEY) & ((acks == 0) | (acks == 1))
    before_wait = in_handler | ~has_waited | np.isin(api_key, list(MUTATION_API_KEYS))
    latest_us = np.where(in_handler, handled_us, complete_us) + LINE_TIME_STEP_US
    estimate_us = np.where(before_wait, handled_us, complete_us) + LINE_TIME_MIDDLE_US
    earliest_ms = (handled_us - handler_time_us) // 1000 - LINE_LAG_MS
    return earliest_ms, latest_us // 1000, estimate_us // 1000 * 1000
