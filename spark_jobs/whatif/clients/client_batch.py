"""What waits in a producer's buffer, and how much of it the next request takes along.

Source: Kafka's ``RecordAccumulator``: batches fill while their broker cannot be sent to, and a
request carries what is ready. Decided here:

- The bytes of a logged request exist from when they were wanted
  (:mod:`spark_jobs.whatif.clients.client_pace`), at the latest from its arrival.
- A request that is sent more than ``linger_ms`` later than in the log takes along what was wanted
  ``linger_ms`` before, up to the largest request that the log has of the connection. Whatever is
  late is sent without thinking: the application has long given it to the producer.
- A request is not sent before its own bytes are wanted, however little it is throttled; it has
  its logged size then.

Here the model ends: ``buffer.memory`` and ``max.block.ms`` (the buffer has no bound and the
application never waits), expiry of what was never sent, batches per partition (a request can be
cut anywhere), compression that improves with the batch, and the metadata of a larger request.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.whatif.clients.client_log import FETCHES, PRODUCE, Ask, sized_amount
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart


def largest_bytes(asks: Sequence[Ask]) -> float:
    """Return the size of the largest produce of a connection, 0 without any."""
    return max((sized_amount(a) for a in asks if a.logged.request.api_name == PRODUCE), default=0.0)


def largest_fetch_bytes(asks: Sequence[Ask]) -> float:
    """Return the size of the largest fetch of a connection that is known, 0 without any."""
    fetches = (a for ask in asks for a in ask.attempts if a.request.api_name in FETCHES)
    sizes = (a.request.amount for a in fetches)
    return max((size for size in sizes if not math.isnan(size)), default=0.0)


def part_of(request: PolicyRequest, amount: float) -> PolicyRequest:
    """Return so many bytes of a produce or fetch, spread over its topics as they were."""
    if amount == request.amount:
        return request
    share = amount / request.amount if request.amount else 0.0
    topics = tuple(replace(part, amount=part.amount * share) for part in request.topics)
    return replace(request, amount=amount, topics=topics)


def joined(request: PolicyRequest, more: PolicyRequest) -> PolicyRequest:
    """Return one produce with the bytes of both."""
    amounts = {part.topic: part for part in request.topics}
    for part in more.topics:
        before = amounts.get(part.topic, TopicPart(part.topic, 0.0, part.other_error_code))
        amounts[part.topic] = replace(before, amount=before.amount + part.amount)
    return replace(request, amount=request.amount + more.amount, topics=tuple(amounts.values()))


def can_join(request: PolicyRequest, more: PolicyRequest) -> bool:
    """Return True if a producer could send both as one: sizes known, with the same acks."""
    is_produce = request.api_name == more.api_name == PRODUCE
    is_known = not math.isnan(request.amount + more.amount)
    return is_produce and is_known and request.acks == more.acks
