"""A line in the text format of Kafka 2.0 to 2.7 → the request it tells of.

Its messages are brought into the shape of the later JSON and read from there on as those are.
Three things only the text format has:

- The text of a produce request holds its records' sizes at TRACE, and at DEBUG only the number of
  partitions (``ProduceRequest.toString``); never the transactional id, which is taken as absent.
- The throttle time is the response's. Where there is none (acks=0) the line's own counts from 2.6
  on; before, it is not in the log (KAFKA-9652) and read as 0.
- Fetches keep no size where records lay in memory before 2.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from spark_jobs.ingest.lines.api_fields import ApiFields, fields_of_messages
from spark_jobs.ingest.lines.request_line import RequestLine
from spark_jobs.ingest.lines.text_line import TextLine, in_range, split_text_line
from spark_jobs.ingest.lines.text_message import TextMessageError, read_message
from spark_jobs.ingest.lines.text_version import VersionClue, version_clue
from spark_jobs.ingest.messages.message_definition import API_NAMES, message_struct

_PRODUCE, _FETCH = 0, 1
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
class TextRequest:
    """A request read from text, and what its line tells of the broker's version."""

    line: RequestLine
    fields: ApiFields
    clue: VersionClue


def read_text_request(text: str) -> TextRequest:
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
    return TextRequest(parts.line, fields, version_clue(parts, throttle_ms))


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
