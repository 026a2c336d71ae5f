r"""Lines of ``kafka.request.logger`` in the text format of Kafka 2.0 to 2.7, taken apart.

Kafka: ``RequestChannel.Request.updateRequestMetrics`` of those releases::

    RequestHeader(apiKey=…, apiVersion=…, clientId=…, correlationId=…) -- {…},response:{…} from
    connection …;totalTime:…,requestQueueTime:…,localTime:…,remoteTime:…,throttleTime:…,
    responseQueueTime:…,sendTime:…,securityProtocol:…,principal:User:…,listener:…

and where they are known ``,clientInformation:…`` (2.5 and later), ``,temporaryMemoryBytes:…`` and
``,messageConversionsTime:…``. 1.0 and 1.1 wrote the same; earlier releases had no response in it.
Client ids and principals may hold any of this: a part is found from the side where it is sure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from spark_jobs.ingest.lines.request_line import (
    MILLISECONDS_MAX,
    ClientInformation,
    RequestHeader,
    RequestLine,
)
from spark_jobs.ingest.messages.api_keys import API_KEYS

BEGIN = b"RequestHeader("
"""What follows the marker in the text format."""

_HEADER = re.compile(
    r"RequestHeader\(apiKey=([A-Z_]+), apiVersion=(-?\d{1,5}), clientId=(.*?), "
    r"correlationId=(-?\d{1,10})\) -- "
)
_RESPONSE = ",response:"
_MS = r"(\d{1,11}(?:\.\d+)?(?:E\d)?)"
# None of these reads a part of the line twice, so that a line made to be slow is not: what
# clients choose lies before and between them.
_TIMES = re.compile(
    rf" from connection ([^;\s]*);totalTime:{_MS},requestQueueTime:{_MS},localTime:{_MS},"
    rf"remoteTime:{_MS},throttleTime:{_MS},responseQueueTime:{_MS},sendTime:{_MS},"
    r"securityProtocol:[A-Z_]+,principal:"
)
_LISTENER = ",listener:"
# Names and versions of clients: ``ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN``.
_END = re.compile(
    r",listener:([^,\s]+)"
    r"(?:,clientInformation:ClientInformation\("
    r"softwareName=([\w.-]*), softwareVersion=([\w.-]*)\))?"
    r"(?:,temporaryMemoryBytes:\d+)?(?:,messageConversionsTime:[\d.E]+)?(?:\s.*)?",
    re.DOTALL,
)
_TIMES_OF_0_10 = re.compile(r" from connection [^;\s]*;totalTime:\d+,requestQueueTime:\d+,")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line's parts; ``response`` is empty where the client wanted none (acks=0).

    ``line.throttleTimeMs`` is what the log says, which up to 2.5 is no throttle time (KAFKA-9652);
    those releases print it with decimals.
    """

    line: RequestLine
    request: str
    response: str
    throttle_has_decimals: bool


class CutLineError(ValueError):
    """The line ends before its last field."""


class NoResponseLoggedError(ValueError):
    """The line is of a release that did not log responses, before 1.0."""


def split_text_line(text: str) -> TextLine:
    """Return the parts of the text behind ``Completed request:``.

    Raises CutLineError or NoResponseLoggedError; KeyError for a kind of request that Kafka 2.7
    does not have; ValueError for a number out of its range.
    """
    end = _end(text)
    tail = _last_times(text, end.start()) if end else None
    header = _HEADER.match(text)
    if end is None or tail is None or header is None or tail.start() < header.end():
        raise NoResponseLoggedError if _TIMES_OF_0_10.search(text) else CutLineError
    request, answered, response = text[header.end() : tail.start()].partition(_RESPONSE)
    if not answered:
        raise NoResponseLoggedError
    times = [_milliseconds(time) for time in tail.groups()[1:]]
    total, request_queue, local, remote, throttle, response_queue, send = times
    in_range(str(int(throttle)), 32)
    line = RequestLine(
        requestHeader=_header(header),
        request=msgspec.Raw(),
        response=msgspec.Raw(),
        connection=tail[1],
        totalTimeMs=total,
        requestQueueTimeMs=request_queue,
        localTimeMs=local,
        remoteTimeMs=remote,
        throttleTimeMs=throttle,
        responseQueueTimeMs=response_queue,
        sendTimeMs=send,
        principal=text[tail.end() : end.start()],
        listener=end[1],
        clientInformation=ClientInformation(end[2], end[3]) if end[2] else None,
    )
    return TextLine(line, request, response, throttle_has_decimals="." in tail[6])


def _end(text: str) -> re.Match[str] | None:
    """Return the match of the last listener from which the line reads on to its end."""
    begin = text.rfind(_LISTENER)
    while begin >= 0:
        if end := _END.fullmatch(text, begin):
            return end
        begin = text.rfind(_LISTENER, 0, begin)
    return None


def _last_times(text: str, before: int) -> re.Match[str] | None:
    """Return the last match of the connection and its times that ends at ``before``, or earlier."""
    last = None
    for found in _TIMES.finditer(text, 0, before):
        last = found
    return last


def _header(found: re.Match[str]) -> RequestHeader:
    return RequestHeader(
        requestApiKey=API_KEYS[found[1]],
        requestApiVersion=in_range(found[2], 16),
        correlationId=in_range(found[4], 32),
        requestApiKeyName=found[1],
        # A client that calls itself null is printed like one without a name.
        clientId=None if found[3] == "null" else found[3],
    )


def in_range(digits: str, bits: int) -> int:
    """Return the number; raises ValueError where it is no integer of so many bits."""
    value = int(digits)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"found {digits}, expected an int{bits}")
    return value


def _milliseconds(text: str) -> float:
    value = float(text)
    if value > MILLISECONDS_MAX:
        raise ValueError(f"found {text} ms, expected at most {MILLISECONDS_MAX:.0f}")
    return value
