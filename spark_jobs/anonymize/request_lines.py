"""The lines of a request log under pseudonyms: as many, each read as what it was read as.

A request is written anew from the fields that an audit reads. Of any other line nothing is copied
but its stamp: a line that cannot be read becomes one that cannot be read for the same reason.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from collections import Counter
from functools import cache
from typing import Any

import msgspec

from spark_jobs.anonymize.message_names import replace_names
from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.anonymize.text_lines import written_text
from spark_jobs.ingest.lines.envelope import JOINED_BYTES_MAX, EnvelopeState, stream_of, unwrap
from spark_jobs.ingest.lines.line_reader import Reason, read_request
from spark_jobs.ingest.lines.line_time import STAMP, LineClock
from spark_jobs.ingest.lines.request_line import (
    MARKER,
    NO_RESPONSE,
    ClientInformation,
    RequestLine,
    request_begin,
)
from spark_jobs.ingest.lines.text_request import TEXT_BEGIN, LoggedRequest
from spark_jobs.ingest.messages.message_definition import API_NAMES, message_struct

_PLACE = b"<set aside>"
# After stamp, level and marker: read as the same reason, whatever stands for the place.
_LIKE: dict[Reason, bytes] = {
    Reason.CUT: b"{<set aside>",
    Reason.INTERLEAVED: b"<set aside>" + MARKER,
    Reason.BROKEN_JSON: b"{<set aside>}",
    Reason.UNEXPECTED_FIELD: b'{"<set aside>":0}',
    Reason.BROKEN_TEXT: (
        b"RequestHeader(apiKey=PRODUCE, apiVersion=0, clientId=null, correlationId=0) -- "
        b"{<set aside>},response:{} from connection -;totalTime:0,requestQueueTime:0,localTime:0,"
        b"remoteTime:0,throttleTime:0,responseQueueTime:0,sendTime:0,securityProtocol:PLAINTEXT,"
        b"principal:,listener:PLAINTEXT"
    ),
    Reason.BEFORE_2_0: b"Name:<set aside>",
}
_API_NAME = re.compile(r"[A-Z_]{1,60}")
_ENVELOPE_TIME = b"1970-01-01T00:00:00Z "


class _Header(msgspec.Struct, gc=False):
    requestApiKey: int
    requestApiVersion: int
    correlationId: int
    clientId: str | None
    requestApiKeyName: str


class _Client(msgspec.Struct, gc=False, omit_defaults=True):
    softwareName: str | None = None
    softwareVersion: str | None = None


class _Line(msgspec.Struct, gc=False, omit_defaults=True):
    """What is written of a request: these fields, in Kafka's order, and no other."""

    isForwarded: bool
    requestHeader: _Header
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    totalTimeMs: float
    requestQueueTimeMs: float
    localTimeMs: float
    remoteTimeMs: float
    throttleTimeMs: float
    responseQueueTimeMs: float
    sendTimeMs: float
    securityProtocol: str
    principal: str
    listener: str
    clientInformation: _Client | None = None


class _Throttle(msgspec.Struct, gc=False, omit_defaults=True):
    throttleTimeMs: int | None = None


_encode = msgspec.json.Encoder().encode


class RequestLines:
    """The lines of one file, in their order. ``prefix`` is what shippers put before each."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        key: bytes,
        timezone: dt.tzinfo,
        prefix: re.Pattern[bytes] | None,
    ) -> None:
        """``key`` marks lines that were set aside, so that different ones stay different."""
        self._pseudonyms, self._key, self._prefix = pseudonyms, key, prefix
        self._clock = LineClock(timezone)
        self._envelope = EnvelopeState()
        self._begun: set[bytes] = set()
        self._is_after_other = False
        self.requests = 0
        self.bodies_left_out = 0
        self.other = 0
        self.set_aside: Counter[Reason] = Counter()

    def line(self, raw: bytes) -> bytes:
        """Return the line that stands for ``raw``, without its line end."""
        text = unwrap(raw, self._envelope, self._prefix)
        stream = None if text is raw else stream_of(raw, self._prefix)
        if text is None:  # goes on in a later line
            self.other += 1
            assert stream is not None, "only an envelope parts lines"
            self._begun.add(stream)
            return _ENVELOPE_TIME + stream + b" P "
        written = self._written(text)
        if stream in self._begun:
            self._begun.discard(stream)
            return _ENVELOPE_TIME + stream + b" F " + written
        return written

    def _written(self, text: bytes) -> bytes:
        stamp = STAMP.match(text)
        if len(text) >= JOINED_BYTES_MAX:
            self._is_after_other = False
            if stamp is not None:
                self._clock.epoch_ms(stamp[1])
            self.set_aside[Reason.TOO_LONG] += 1
            return (b"[%b] " % stamp[1] if stamp else b"") + _filler()
        if stamp is None:
            return self._without_stamp(text)
        begin = b"[%b]" % stamp[1]
        if self._clock.epoch_ms(stamp[1]) is None:
            self._is_after_other = False
            self.set_aside[Reason.BAD_TIME] += 1
            return begin
        found = read_request(text)
        self._is_after_other = found is None
        if found is None:
            self.other += 1
            return begin
        begin += b" DEBUG " + MARKER
        if isinstance(found, LoggedRequest):
            self.requests += 1
            return begin + self._request(text, found) + b" (kafka.request.logger)"
        self.set_aside[found] += 1
        return begin + _LIKE[found].replace(_PLACE, self._mark(text))

    def _without_stamp(self, text: bytes) -> bytes:
        if not text.strip() or self._is_after_other:
            self.other += 1
            return b""
        self.set_aside[Reason.FOREIGN] += 1
        return b"set aside " + self._mark(text)

    def _mark(self, text: bytes) -> bytes:
        """Return a mark that tells this line from others: files of equal lines count once."""
        return hmac.digest(self._key, b"line\0" + text, "sha256")[:8].hex().encode()

    def _request(self, text: bytes, found: LoggedRequest) -> bytes:
        start = request_begin(text)
        if found.line.requestHeader.requestApiKey not in API_NAMES:
            self.bodies_left_out += 1
        if text.startswith(TEXT_BEGIN, start):
            return written_text(text[start:].decode(), found, self._pseudonyms).encode()
        return _encode(self._json(found.line))

    def _json(self, line: RequestLine) -> _Line:
        names, header = self._pseudonyms, line.requestHeader
        request, response = self._messages(line)
        client_id, api_name = header.clientId, header.requestApiKeyName
        return _Line(
            isForwarded=line.isForwarded,
            requestHeader=_Header(
                header.requestApiKey,
                header.requestApiVersion,
                header.correlationId,
                None if client_id is None else names.name(client_id, Kind.CLIENT_ID),
                api_name if _API_NAME.fullmatch(api_name) else names.text(api_name),
            ),
            request=request,
            response=response,
            connection=names.connection(line.connection),
            totalTimeMs=line.totalTimeMs,
            requestQueueTimeMs=line.requestQueueTimeMs,
            localTimeMs=line.localTimeMs,
            remoteTimeMs=line.remoteTimeMs,
            throttleTimeMs=line.throttleTimeMs,
            responseQueueTimeMs=line.responseQueueTimeMs,
            sendTimeMs=line.sendTimeMs,
            securityProtocol="PLAINTEXT",  # nobody reads it
            principal=names.principal(line.principal),
            listener=names.listener(line.listener),
            clientInformation=_client(line.clientInformation, names),
        )

    def _messages(self, line: RequestLine) -> tuple[msgspec.Raw, msgspec.Raw]:
        is_answered = bytes(line.response) not in NO_RESPONSE
        name = API_NAMES.get(line.requestHeader.requestApiKey)
        if name is None:
            body = _decode_throttle(line.response) if is_answered else None
            return msgspec.Raw(b"{}"), _raw(body) if is_answered else line.response
        request = self._message(f"{name}Request", line.request)
        if not is_answered:
            return request, line.response
        return request, self._message(f"{name}Response", line.response)

    def _message(self, name: str, raw: msgspec.Raw) -> msgspec.Raw:
        message = _decoder(name)(raw)
        replace_names(name, message, self._pseudonyms)
        return _raw(message)


def _client(client: ClientInformation | None, names: Pseudonyms) -> _Client | None:
    if client is None:
        return None
    name, version = client.softwareName, client.softwareVersion
    return _Client(name and names.software(name), version and names.software_version(version))


_decode_throttle = msgspec.json.Decoder(_Throttle).decode


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


@cache
def _decoder(name: str) -> Any:
    return msgspec.json.Decoder(message_struct(name)).decode


@cache
def _filler() -> bytes:
    """Return a line's text that is too long to be read, and packs no better than hexadecimals."""
    return hashlib.shake_256(b"too long").hexdigest(JOINED_BYTES_MAX // 2 + 1).encode()
