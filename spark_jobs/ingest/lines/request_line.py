"""One JSON line of ``kafka.request.logger`` as typed fields; request and response still raw.

Kafka: ``RequestConvertToJson.requestDescMetrics``. Times are milliseconds with three decimals.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

MARKER = b"Completed request:"
"""What stands before the JSON in the log of a finished request."""

NO_RESPONSE = frozenset({b'""', b"null"})
"""How a request that is not answered (acks=0) is logged."""

TIMES = (
    "totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs",
    "responseQueueTimeMs", "sendTimeMs",
)  # fmt: skip
"""The line's times, in the order in which both formats print them."""

Int16 = Annotated[int, msgspec.Meta(ge=-(1 << 15), le=(1 << 15) - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
MILLISECONDS_MAX = 1e11
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=MILLISECONDS_MAX)]
THROTTLE_MS_MAX = (1 << 31) - 1
ThrottleMilliseconds = Annotated[float, msgspec.Meta(ge=0, le=THROTTLE_MS_MAX)]
"""A throttle time is an int32 in every response."""


class RequestHeader(msgspec.Struct, gc=False):
    """The header of the request; ``clientId`` null where the client sent none."""

    requestApiKey: Int16
    requestApiVersion: Int16
    correlationId: Int32
    requestApiKeyName: str
    clientId: str | None = None


class ClientInformation(msgspec.Struct, gc=False, omit_defaults=True):
    """The name and version the client gave of itself (KIP-511)."""

    softwareName: str | None = None
    softwareVersion: str | None = None


class RequestLine(msgspec.Struct, gc=False):
    """Everything the line says outside of the messages themselves."""

    requestHeader: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    totalTimeMs: Milliseconds
    requestQueueTimeMs: Milliseconds
    localTimeMs: Milliseconds
    remoteTimeMs: Milliseconds
    throttleTimeMs: ThrottleMilliseconds
    responseQueueTimeMs: Milliseconds
    sendTimeMs: Milliseconds
    principal: str
    listener: str
    isForwarded: bool = False
    clientInformation: ClientInformation | None = None

    @property
    def user(self) -> str:
        """Return the principal's name, without its type (``User:alice`` → ``alice``)."""
        return self.principal.partition(":")[2]

    @property
    def local_address(self) -> str:
        """Return the broker's side of the connection, ``host:port``."""
        return self.connection.partition("-")[0]


def request_begin(text: bytes) -> int:
    """Return the offset at which a line's request begins, -1 where there is none.

    A blank may stand behind the marker, which no release up to 4.2 logs.
    """
    marker = text.find(MARKER)
    if marker < 0:
        return -1
    begin = marker + len(MARKER)
    return begin + text.startswith(b" ", begin)


decode_request_line = msgspec.json.Decoder(RequestLine).decode
"""Decode the JSON part of a line; raises msgspec.DecodeError (or its ValidationError)."""
