"""One line of a broker's log → a request, another log line, or a reason why it cannot be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from spark_jobs.request_log.api_fields import ApiFields, api_fields
from spark_jobs.request_log.request_line import MARKER, RequestLine, decode_request_line

_LOGGER_AT_END = re.compile(rb"\}\s*(\([\w.$]+\))?\s*$")
_JSON_BEGIN = b"{"
_TEXT_BEGIN = b"RequestHeader("


class Reason(StrEnum):
    """Why a line is in quarantine."""

    FOREIGN = "foreign"  # no line of a Kafka log
    BAD_TIME = "bad_time"  # a stamp that is no moment in the time zone
    CUT = "cut"  # the line ends early
    INTERLEAVED = "interleaved"  # two requests in one line
    BROKEN_JSON = "broken_json"  # the JSON does not read
    UNEXPECTED_FIELD = "unexpected_field"  # the JSON reads, a field of it is missing or of no use
    TEXT_FORMAT = "text_format"  # written before 2.8, without JSON
    UNKNOWN_BROKER = "unknown_broker"  # neither folder nor listener names the broker


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that was read, still without its time."""

    line: RequestLine
    fields: ApiFields


def read_request(text: bytes) -> LoggedRequest | Reason | None:
    """Return the request of a log line, why it is unreadable, or None: no line of a request."""
    start = text.find(MARKER)
    if start < 0:
        return None
    start += len(MARKER)
    if text.find(MARKER, start) >= 0:
        return Reason.INTERLEAVED
    if not text.startswith(_JSON_BEGIN, start):
        return Reason.TEXT_FORMAT if text.startswith(_TEXT_BEGIN, start) else Reason.CUT
    try:
        line = decode_request_line(text[start : text.rfind(b"}") + 1])
        return LoggedRequest(line, api_fields(line))
    except msgspec.ValidationError:
        return Reason.UNEXPECTED_FIELD
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Reason.BROKEN_JSON if _LOGGER_AT_END.search(text[-200:]) else Reason.CUT
    except (AttributeError, TypeError):  # a field that this version's readers need is absent
        return Reason.UNEXPECTED_FIELD
