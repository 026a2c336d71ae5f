r"""A line in the text format of Kafka 2.0 to 2.7 → the request it tells of.

Kafka: ``RequestChannel.Request.updateRequestMetrics`` of those releases::

    RequestHeader(apiKey=…, apiVersion=…, clientId=…, correlationId=…) -- {…},response:{…} from
    connection …;totalTime:…,requestQueueTime:…,localTime:…,remoteTime:…,throttleTime:…,
    responseQueueTime:…,sendTime:…,securityProtocol:…,principal:User:…,listener:…

and where they are known ``,clientInformation:…`` (2.5 and later), ``,temporaryMemoryBytes:…`` and
``,messageConversionsTime:…``. 1.0 and 1.1 wrote the same; earlier releases had no response in it.
Client ids and principals may hold any of this: a part is found from the side where it is sure.

Its messages are brought into the shape of the later JSON and read from there on as those are.
Three things only the text format has:

- The text of a produce request holds its records' sizes at TRACE, and at DEBUG only the number of
  partitions (``ProduceRequest.toString``); never the transactional id, which is taken as absent.
- The throttle time is the response's. Where there is none (acks=0) the line's own counts from 2.6
  on; before, it is not in the log (KAFKA-9652) and read as 0.
- Fetches keep no size where records lay in memory before 2.4.

Until 1.1 a throttled response was held back for its throttle time; since 2.0 (KIP-219) it is sent
at once and the connection is muted: another rule of when a request was recorded and answered. Two
kinds of line tell which it was:

- The answer to API_VERSIONS names the highest version of every request that the broker knows:
  2.0 was the first with Produce 6 (KIP-219 raised it).
- A held response of a produce or fetch spent its throttle time in the broker, so ``throttleTime``
  is at least as long; from 2.0 to 2.5 it is not the throttle time (KAFKA-9652), and 2.6 prints it
  without decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from spark_jobs.ingest.lines.api_fields import ApiFields, fields_of_messages
from spark_jobs.ingest.lines.request_line import (
    MILLISECONDS_MAX,
    TIMES,
    ClientInformation,
    RequestHeader,
    RequestLine,
)
from spark_jobs.ingest.lines.text_message import TextMessageError, read_message
from spark_jobs.ingest.messages.message_definition import API_NAMES, message_struct
from spark_jobs.quota.apis import API_KEYS

_PRODUCE, _FETCH, _API_VERSIONS = 0, 1, 18

TEXT_BEGIN = b"RequestHeader("
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
    times: list[Any] = [_milliseconds(time) for time in tail.groups()[1:]]
    of_line = dict(zip(TIMES, times, strict=True))
    in_range(str(int(of_line["throttleTimeMs"])), 32)
    line = RequestLine(
        requestHeader=_header(header),
        request=msgspec.Raw(),
        response=msgspec.Raw(),
        connection=tail[1],
        **of_line,
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


_PRODUCE_TEXT = re.compile(
    r"\{acks=(-?\d{1,5}),timeout=(-?\d{1,10}),"
    r"(?:numPartitions=\d+|partitionSizes=\[(?P<sizes>.*)\])\}",
    re.DOTALL,
)
_PARTITION_SIZE = re.compile(r"(.*?)-(\d+)=(\d+)(?:,|$)", re.DOTALL)
# First of all fields, or last of the untagged ones; nowhere else.
_FIRST_THROTTLE = re.compile(r"\{throttle_time_ms=(-?\d{1,10})[,}]")
_THROTTLE = ",throttle_time_ms="
_LAST_THROTTLE = re.compile(r",throttle_time_ms=(-?\d{1,10})(?:\}|(?P<tagged>,_tagged_fields=\{))")
_END_OF_TAGGED = "}}"


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that was read, still without its time."""

    line: RequestLine
    fields: ApiFields
    clue: VersionClue | None = None  # only of lines in the text format


def read_text_request(text: str) -> LoggedRequest:
    """Return the request of the text behind ``Completed request:``.

    Raises the errors of :func:`split_text_line`, TextMessageError or msgspec.ValidationError where
    a message is not that of its version.
    """
    parts = split_text_line(text)
    throttle_ms = _throttle_time_ms(parts)
    if parts.line.requestHeader.requestApiKey in API_NAMES:
        fields = _fields(parts)
    else:
        fields = ApiFields(throttle_time_ms=throttle_ms)
    if throttle_ms is None and parts.throttle_has_decimals:
        fields = fields._replace(throttle_time_ms=0)
    return LoggedRequest(parts.line, fields, version_clue(parts, throttle_ms))


def _throttle_time_ms(parts: TextLine) -> int | None:
    text = parts.response
    if found := _FIRST_THROTTLE.match(text):
        return in_range(found[1], 32)
    last_end, begin = text.rfind(_END_OF_TAGGED), text.rfind(_THROTTLE)
    while begin >= 0:
        found = _LAST_THROTTLE.match(text, begin)
        if found and (not found["tagged"] or last_end >= found.end()):
            return in_range(found[1], 32)
        begin = text.rfind(_THROTTLE, 0, begin)
    return None


def _fields(parts: TextLine) -> ApiFields:
    request, response = text_messages(parts)
    return fields_of_messages(parts.line, request, response)


def text_messages(parts: TextLine) -> tuple[Any, Any]:
    """Return request and response as :func:`message_struct`; None for the response of acks=0.

    Only of the kinds of request in API_NAMES; raises as :func:`read_text_request`.
    """
    header = parts.line.requestHeader
    name, version = API_NAMES[header.requestApiKey], header.requestApiVersion
    if header.requestApiKey == _PRODUCE:
        request = _produce_request(parts.request)
    else:
        request = read_message(f"{name}Request", version, parts.request)
    response = read_message(f"{name}Response", version, parts.response) if parts.response else None
    return (
        msgspec.convert(request, message_struct(f"{name}Request")),
        None if response is None else msgspec.convert(response, message_struct(f"{name}Response")),
    )


def _produce_request(text: str) -> dict[str, Any]:
    found = _PRODUCE_TEXT.fullmatch(text)
    if found is None:
        raise TextMessageError(f"this is no produce request: {text[:80]!r}")
    request: dict[str, Any] = {
        "transactionalId": None,
        "acks": int(found[1]),
        "timeoutMs": int(found[2]),
    }
    if found["sizes"] is not None:
        request["topicData"] = _topic_data(found["sizes"])
    return request


def _topic_data(sizes: str) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, int]]] = {}
    end = 0
    # Not finditer: it would look again from every character behind which nothing is found.
    while found := _PARTITION_SIZE.match(sizes, end):
        partition = {"index": int(found[2]), "recordsSizeInBytes": int(found[3])}
        topics.setdefault(found[1], []).append(partition)
        end = found.end()
    if end != len(sizes):
        raise TextMessageError(f"these are no sizes of partitions: {sizes[end : end + 80]!r}")
    return [{"name": name, "partitionData": data} for name, data in topics.items()]


HELD_MIN_MS = 50
"""Shorter throttles may have been waited for by chance."""
HELD_IN_A_ROW = 3
"""So many held responses without one that was not: no pause of a broker does that."""

_PRODUCE_OF_2_0 = 6
PRODUCE_VERSIONS = re.compile(r"\{api_key=0,min_version=\d+,max_version=(\d+)[,}]")
"""What the text of an API_VERSIONS answer says of produces."""


class VersionClue(Enum):
    """What one line says of the version of the broker that wrote it."""

    NONE = 0
    BEFORE_2_0 = 1
    SINCE_2_0 = 2
    HELD = 3  # as before 2.0, or by chance


def version_clue(parts: TextLine, throttle_time_ms: int | None) -> VersionClue:
    """Return the clue of one line; ``throttle_time_ms`` is the response's."""
    api_key = parts.line.requestHeader.requestApiKey
    if api_key == _API_VERSIONS:
        found = PRODUCE_VERSIONS.search(parts.response)
        if found is None:
            return VersionClue.NONE
        is_since_2_0 = int(found[1]) >= _PRODUCE_OF_2_0
        return VersionClue.SINCE_2_0 if is_since_2_0 else VersionClue.BEFORE_2_0
    is_timed = api_key in (_PRODUCE, _FETCH)  # of the others the wait is in remoteTime
    if not is_timed or throttle_time_ms is None or throttle_time_ms < HELD_MIN_MS:
        return VersionClue.NONE
    if not parts.throttle_has_decimals:
        return VersionClue.SINCE_2_0
    is_held = parts.line.throttleTimeMs >= throttle_time_ms
    return VersionClue.HELD if is_held else VersionClue.SINCE_2_0


@dataclass(slots=True)
class BrokerVersion:
    """What the lines of one file told so far; a broker may be upgraded in the middle of it."""

    is_before_2_0: bool = False
    held_in_a_row: int = 0

    def take(self, clue: VersionClue) -> None:
        """Take a line's clue into account."""
        if clue is VersionClue.HELD:
            self.held_in_a_row += 1
            self.is_before_2_0 |= self.held_in_a_row >= HELD_IN_A_ROW
        elif clue is not VersionClue.NONE:
            self.held_in_a_row = 0
            self.is_before_2_0 = clue is VersionClue.BEFORE_2_0
