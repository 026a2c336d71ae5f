"""What a produce's line of the text format (Kafka 2.0 to 2.7) says, as far as a score needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

TEXT_MARKER = b"Completed request:RequestHeader("

_PRODUCE = re.compile(
    rb"RequestHeader\(apiKey=PRODUCE, apiVersion=\d+, clientId=(?P<client_id>.*?), "
    rb"correlationId=(?P<correlation_id>-?\d+)\) -- .*"
    rb" from connection (?P<connection>\S+?);totalTime:.*?,localTime:(?P<local>[\d.E-]+),"
    rb"remoteTime:(?P<remote>[\d.E-]+),.*?,responseQueueTime:(?P<response_queue>[\d.E-]+),"
    rb"sendTime:(?P<send>[\d.E-]+),.*?principal:\w+:(?P<user>.*?),listener:"
)
_THROTTLE = re.compile(rb"throttle_time_ms=(\d+)[,}]")


@dataclass(frozen=True, slots=True)
class TextProduce:
    """The fields of one line; times are milliseconds."""

    connection: str
    correlation_id: int
    client_id: str
    user: str
    throttle_time_ms: int
    local_time_ms: float
    remote_time_ms: float
    response_queue_time_ms: float
    send_time_ms: float


def read_text_produce(text: bytes) -> TextProduce | None:
    """Return the produce of a line; None where it is of another request or has no throttle.

    The throttle is the response's: ``throttleTime`` at the line's end is, in these versions, how
    long the response took from being complete to being queued. A produce without acks has none.
    """
    found = _PRODUCE.search(text)
    throttle = _THROTTLE.search(text)
    if found is None or throttle is None:
        return None
    return TextProduce(
        connection=found["connection"].decode(),
        correlation_id=int(found["correlation_id"]),
        client_id=found["client_id"].decode(),
        user=found["user"].decode(),
        throttle_time_ms=int(throttle[1]),
        local_time_ms=float(found["local"]),
        remote_time_ms=float(found["remote"]),
        response_queue_time_ms=float(found["response_queue"]),
        send_time_ms=float(found["send"]),
    )
