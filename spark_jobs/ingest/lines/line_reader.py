"""One line of a broker's log → a request, another log line, or a reason why it cannot be read."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec
from msgspec import UNSET

from spark_jobs.ingest.lines.api_fields import api_fields
from spark_jobs.ingest.lines.request_line import MARKER, decode_request_line, request_begin
from spark_jobs.ingest.lines.text_message import TextMessageError
from spark_jobs.ingest.lines.text_request import (
    TEXT_BEGIN,
    CutLineError,
    LoggedRequest,
    NoResponseLoggedError,
    read_text_request,
)

_LOGGER_AT_END = re.compile(rb"\}\s*(\([\w.$]+\))?\s*$")
_JSON_BEGIN = b"{"
# What brokers up to 0.10 wrote in place of RequestHeader(…); the first are messages of Scala.
_OLDER_BEGINS = (b"{api_key=", b"Name:")
_THROTTLE_MS_END = 1 << 31


class Reason(StrEnum):
    """Why a line is in quarantine."""

    FOREIGN = "foreign"  # no line of a Kafka log
    BAD_TIME = "bad_time"  # a stamp that is no moment in the time zone
    FUTURE = "future"  # later than the clock of the machine that reads it can explain
    CUT = "cut"  # the line ends early
    INTERLEAVED = "interleaved"  # two requests in one line
    BROKEN_JSON = "broken_json"  # the JSON does not read
    UNEXPECTED_FIELD = "unexpected_field"  # the JSON reads, a field of it is missing or of no use
    BROKEN_TEXT = "broken_text"  # the text format of 2.0 to 2.7, with a message that does not read
    BEFORE_2_0 = "before_2_0"  # by a broker that held throttled responses back (before KIP-219)
    TOO_LONG = "too_long"  # more bytes than LINE_BYTES_MAX: no request is
    UNKNOWN_BROKER = "unknown_broker"  # neither folder nor listener names the broker


def read_request(text: bytes) -> LoggedRequest | Reason | None:
    """Return the request of a log line, why it is unreadable, or None: no line of a request."""
    found = _read(text)
    if isinstance(found, LoggedRequest) and not _fits_its_columns(found):
        return Reason.UNEXPECTED_FIELD
    return found


def _fits_its_columns(found: LoggedRequest) -> bool:
    """Return True if nothing that lists of ``tables.REQUESTS`` need is absent or too large."""
    fields = found.fields
    codes: list[object] = [*(fields.error_codes or ())]
    throttle_ms = fields.throttle_time_ms
    if (found.line.throttleTimeMs if throttle_ms is None else throttle_ms) >= _THROTTLE_MS_END:
        return False
    entries = (fields.mutations or []) + (fields.quota_alterations or [])
    return UNSET not in codes and not any(UNSET in entry.values() for entry in entries)


def _read(text: bytes) -> LoggedRequest | Reason | None:
    start = request_begin(text)
    if start < 0:
        return None
    if text.find(MARKER, start) >= 0:
        return Reason.INTERLEAVED
    if not text.startswith(_JSON_BEGIN, start) or text.startswith(_OLDER_BEGINS, start):
        return _text_format(text, start)
    try:
        line = decode_request_line(text[start : text.rfind(b"}") + 1])
        return LoggedRequest(line, api_fields(line))
    except msgspec.ValidationError:
        return Reason.UNEXPECTED_FIELD
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Reason.BROKEN_JSON if _LOGGER_AT_END.search(text[-200:]) else Reason.CUT
    except RecursionError:  # deeper than any message of Kafka's
        return Reason.BROKEN_JSON
    except (AttributeError, TypeError):  # a field that this version's readers need is absent
        return Reason.UNEXPECTED_FIELD


def _text_format(text: bytes, start: int) -> LoggedRequest | Reason:
    if text.startswith(_OLDER_BEGINS, start):
        return Reason.BEFORE_2_0
    if not text.startswith(TEXT_BEGIN, start):
        return Reason.CUT
    try:
        return read_text_request(text[start:].decode())
    except CutLineError:
        return Reason.CUT
    except NoResponseLoggedError:
        return Reason.BEFORE_2_0
    except (TextMessageError, UnicodeDecodeError):
        return Reason.BROKEN_TEXT
    except (ValueError, KeyError, AttributeError, TypeError):  # among them msgspec's
        return Reason.UNEXPECTED_FIELD
