"""What a client would have gone on to ask for, had it not been held back until its log's end.

A log has what was sent. A client that never caught up with what it wanted has either finished a
job of so many bytes late, or was kept from sending the rest: no log tells which. Here it wanted its
pace (:mod:`client_pace`) as long as it was held back, in requests as large as its
largest. A client that did catch up has sent everything that it wanted, and is left as it is. When
the log has the last of a connection, the client is gone: what is added is not sent later than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.whatif.clients.client_log import (
    FETCHES,
    PRODUCE,
    US_PER_MS,
    Ask,
    ConnectionLog,
    LoggedRequest,
    free_again_us,
    sized_amount,
)
from spark_jobs.whatif.clients.client_pace import is_throttled, wanted_bytes_per_us, wanted_times_us

NEAR = 0.9
"""What has so much of the largest size is as large."""
UNSENT_MAX = 10
"""At most so many times the logged requests are added: of more, no value would let all through."""


def with_unsent(log: ConnectionLog) -> ConnectionLog:
    """Return the connection with the asks at its end that were wanted and never sent."""
    unsent = [
        ask
        for apis in (frozenset({PRODUCE}), FETCHES)
        for ask in _unsent([a for a in log.asks if a.logged.request.api_name in apis])
    ]
    return replace(log, asks=(*log.asks, *sorted(unsent, key=lambda ask: ask.arrived_us)))


def _unsent(asks: Sequence[Ask]) -> list[Ask]:
    largest = _typical_large(asks)
    if largest is None:
        return []
    bytes_per_us, wanted_us = wanted_bytes_per_us(asks)[-1], wanted_times_us(asks)[-1]
    if not 0 < bytes_per_us < math.inf or not _is_behind(asks[-1], wanted_us):
        return []
    takes_us = largest.request.amount / bytes_per_us
    end_us = free_again_us(asks[-1].attempts[-1], 0)
    count = min(int((end_us - wanted_us) / takes_us), UNSENT_MAX * len(asks))
    return [
        Ask((_moved(largest, int(wanted_us + (i + 1) * takes_us)),), 0, None) for i in range(count)
    ]


def _typical_large(asks: Sequence[Ask]) -> LoggedRequest | None:
    """Return one of the largest requests, served neither faster nor slower than most of them."""
    largest = max(map(sized_amount, asks), default=0.0)
    large = [ask.logged for ask in asks if sized_amount(ask) >= NEAR * largest]
    in_order = sorted(large, key=lambda logged: logged.service_us)
    return in_order[len(in_order) // 2] if largest > 0 else None


def _is_behind(last: Ask, wanted_us: int) -> bool:
    return wanted_us < last.arrived_us or is_throttled(last)


def _moved(logged: LoggedRequest, arrived_us: int) -> LoggedRequest:
    at_ms = (arrived_us + logged.until_decided_us) // US_PER_MS
    request = replace(logged.request, at_ms=at_ms)
    return replace(logged, request=request, arrived_us=arrived_us, throttle_time_ms=0)
