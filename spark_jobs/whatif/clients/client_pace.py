"""When the bytes that a client sent or read late were wanted: at the pace it had before.

A client that was held back sends late what it had long wanted to send. How much that was no log
tells; decided here:

- Bytes are wanted at the latest when their request arrived. Those that came after a throttle were
  wanted one after the other, at the pace of the last two seconds before that throttle (and of
  twenty requests at least): until then nothing had held the client back. Where throttles follow so
  closely that there is no second without them, it is the pace before the first of them.
- A consumer's bytes are there to be read at that pace too: however little it is throttled, it
  cannot read what has not been produced.

A log has what was sent. A client that never caught up with what it wanted has either finished a
job of so many bytes late, or was kept from sending the rest: no log tells which. Here it wanted its
pace as long as it was held back, in requests as large as its largest. A client that did catch up
has sent everything that it wanted, and is left as it is. When the log has the last of a connection,
the client is gone: what is added is not sent later than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from spark_jobs.whatif.clients.client_log import (
    FETCHES,
    PRODUCE,
    US_PER_MS,
    Ask,
    ConnectionLog,
    LoggedRequest,
    free_again_us,
    is_empty_fetch,
    sized_amount,
)

SETTLED_AFTER_US = 1_000_000
"""A buffer is taken to have run empty this long after a throttle."""
PACE_US, PACE_ASKS = 2_000_000, 20
"""What a client wants is taken from so long before a throttle, and so many requests, at least."""


def wanted_times_us(asks: Sequence[Ask]) -> list[int]:
    """Return the time (µs) from which each ask's bytes waited to be sent, or could be read."""
    wanted = [ask.arrived_us for ask in asks]
    for apis in (frozenset({PRODUCE}), FETCHES):
        own = [i for i, ask in enumerate(asks) if ask.logged.request.api_name in apis]
        found = _wanted_us([asks[i] for i in own])
        for i, at_us in zip(own, found, strict=True):
            wanted[i] = at_us
    return wanted


def _wanted_us(asks: Sequence[Ask]) -> list[int]:
    wanted: list[int] = []
    is_behind = False
    for ask, bytes_per_us in zip(asks, wanted_bytes_per_us(asks), strict=True):
        at_us = ask.arrived_us
        # Whoever finds nothing to read has read everything.
        is_behind = is_behind and (is_throttled(ask) or not is_empty_fetch(ask.logged))
        if is_behind:
            takes_us = sized_amount(ask) / bytes_per_us if bytes_per_us else math.inf
            at_us = int(min(at_us, wanted[-1] + takes_us))
            is_behind = at_us < ask.arrived_us
        is_behind = is_behind or is_throttled(ask)
        wanted.append(at_us)
    return wanted


def wanted_bytes_per_us(asks: Sequence[Ask]) -> list[float]:
    """Return the pace (bytes/µs) that the client wanted at each ask: its own before a throttle.

    Before the first known pace it is that one; where no throttle has as much as a second without
    throttles before it, the pace of the whole log. Infinite where the log spans no time.
    """
    paces: list[float | None] = []
    stretch: list[_Sent] = []
    settled_us = -math.inf
    pace = None
    for ask in asks:
        amount = ask.attempts[0].request.amount
        # Of a throttled fetch the log has only what waited by the time that it was served.
        if ask.arrived_us >= settled_us and not math.isnan(amount):
            stretch.append(_Sent(ask.arrived_us, amount))
        if is_throttled(ask):
            pace = _last_pace(stretch) or pace
            stretch = []
            settled_us = free_again_us(ask.attempts[-1], 0) + SETTLED_AFTER_US
        paces.append(pace)
    first = next((found for found in paces if found is not None), None)
    otherwise = (
        _pace([_Sent(a.arrived_us, sized_amount(a)) for a in asks]) if first is None else first
    )
    return [otherwise if found is None else found for found in paces]


class _Sent(NamedTuple):
    """When an amount was asked for first."""

    at_us: int
    amount: float


def _last_pace(stretch: Sequence[_Sent]) -> float | None:
    """Return the pace of the end of a stretch, None where it is shorter than a second."""
    if not stretch:
        return None
    end_us = stretch[-1].at_us
    since = len(stretch) - 1
    while since and (end_us - stretch[since].at_us < PACE_US or len(stretch) - since <= PACE_ASKS):
        since -= 1
    is_long = end_us - stretch[since].at_us >= SETTLED_AFTER_US
    return _pace(stretch[since:]) if is_long else None


def _pace(sent: Sequence[_Sent]) -> float:
    # The first bytes were there when the clock started.
    amount = sum(one.amount for one in sent[1:])
    span_us = sent[-1].at_us - sent[0].at_us if sent else 0
    return amount / span_us if span_us else math.inf


def is_throttled(ask: Ask) -> bool:
    """Return True if any attempt of the ask was throttled."""
    return any(attempt.throttle_time_ms for attempt in ask.attempts)


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
    is_behind = wanted_us < asks[-1].arrived_us or is_throttled(asks[-1])
    if not 0 < bytes_per_us < math.inf or not is_behind:
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


def _moved(logged: LoggedRequest, arrived_us: int) -> LoggedRequest:
    at_ms = (arrived_us + logged.until_decided_us) // US_PER_MS
    request = replace(logged.request, at_ms=at_ms)
    return replace(logged, request=request, arrived_us=arrived_us, throttle_time_ms=0)
