"""The lines of a request log under pseudonyms: as many, each read as what it was read as.

A request is written anew from the fields that an audit reads. Of any other line nothing is copied
but its stamp: a line that cannot be read becomes one that cannot be read for the same reason.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import math
import re
from collections import Counter
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from spark_jobs.anonymize.message_names import replace_names
from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.lines.envelope import JOINED_BYTES_MAX, EnvelopeState, stream_of, unwrap
from spark_jobs.ingest.lines.line_reader import Reason, read_request
from spark_jobs.ingest.lines.line_time import STAMP, LineClock
from spark_jobs.ingest.lines.request_line import (
    MARKER,
    NO_RESPONSE,
    TIMES,
    ClientInformation,
    RequestLine,
    request_begin,
)
from spark_jobs.ingest.lines.text_message import Layout, Slot, message_layout, snake_case
from spark_jobs.ingest.lines.text_request import (
    PRODUCE_VERSIONS,
    TEXT_BEGIN,
    LoggedRequest,
    TextLine,
    split_text_line,
    text_messages,
)
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

    def _json(self, line: RequestLine) -> dict[str, Any]:
        """Return the fields of a request that are written, in Kafka's order, and no other."""
        names, header = self._pseudonyms, line.requestHeader
        request, response = self._messages(line)
        client_id, api_name = header.clientId, header.requestApiKeyName
        client = _client(line.clientInformation, names)
        return {
            "isForwarded": line.isForwarded,
            "requestHeader": {
                "requestApiKey": header.requestApiKey,
                "requestApiVersion": header.requestApiVersion,
                "correlationId": header.correlationId,
                "clientId": None if client_id is None else names.name(client_id, Kind.CLIENT_ID),
                "requestApiKeyName": (
                    api_name if _API_NAME.fullmatch(api_name) else names.text(api_name)
                ),
            },
            "request": request,
            "response": response,
            "connection": names.connection(line.connection),
            **{name: getattr(line, name) for name in TIMES},
            "securityProtocol": "PLAINTEXT",  # nobody reads it
            "principal": names.principal(line.principal),
            "listener": names.listener(line.listener),
        } | ({} if client is None else {"clientInformation": client})

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


def _client(client: ClientInformation | None, names: Pseudonyms) -> ClientInformation | None:
    if client is None:
        return None
    name, version = client.softwareName, client.softwareVersion
    software = name and names.software(name)
    return ClientInformation(software, version and names.software_version(version))


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


_PRODUCE, _API_VERSIONS = 0, 18
_JAVA_ARRAY = "[Ljava.lang.Object;@0"
_RECORDS_WITHOUT_SIZE = "[(record=)]"


def written_text(text: str, found: LoggedRequest, pseudonyms: Pseudonyms) -> str:
    """Return the text behind the marker: ``text``, read as ``found``, under pseudonyms.

    What records held, or in which file they lay, is printed in some lines; only sizes are written.
    """
    parts = split_text_line(text)
    header = parts.line.requestHeader
    client_id = header.clientId
    shown = "null" if client_id is None else pseudonyms.name(client_id, Kind.CLIENT_ID)
    request, response = _messages(parts, found, pseudonyms)
    return (
        f"RequestHeader(apiKey={header.requestApiKeyName}, apiVersion={header.requestApiVersion}, "
        f"clientId={shown}, correlationId={header.correlationId}) -- "
        f"{request},response:{response}{_tail(parts, pseudonyms)}"
    )


def _messages(parts: TextLine, found: LoggedRequest, pseudonyms: Pseudonyms) -> tuple[str, str]:
    header = parts.line.requestHeader
    name, version = API_NAMES.get(header.requestApiKey), header.requestApiVersion
    if name is None:
        return "{}", _other_response(parts, found.fields.throttle_time_ms)
    request, response = text_messages(parts)
    replace_names(f"{name}Request", request, pseudonyms)
    if header.requestApiKey == _PRODUCE:
        written = _produce(request)
    else:
        written = _message(f"{name}Request", version, request)
    if response is None:
        return written, ""
    replace_names(f"{name}Response", response, pseudonyms)
    return written, _message(f"{name}Response", version, response)


def _other_response(parts: TextLine, throttle_time_ms: int | None) -> str:
    """Return the text of all that is read of a response that no quota weighs."""
    if not parts.response:
        return ""
    fields = []
    if parts.line.requestHeader.requestApiKey == _API_VERSIONS:
        versions = PRODUCE_VERSIONS.search(parts.response)
        known = f"{{api_key=0,min_version=0,max_version={versions[1]}}}" if versions else ""
        fields = ["error_code=0", f"api_keys=[{known}]"]
    if throttle_time_ms is not None:
        fields.append(f"throttle_time_ms={throttle_time_ms}")
    return "{" + ",".join(fields) + "}"


def _tail(parts: TextLine, pseudonyms: Pseudonyms) -> str:
    line, client = parts.line, parts.line.clientInformation
    times = {name: getattr(line, name) for name in TIMES}
    if not parts.throttle_has_decimals:
        times["throttleTimeMs"] = int(line.throttleTimeMs)
    said = ",".join(f"{name.removesuffix('Ms')}:{ms}" for name, ms in times.items())
    software = (
        ""
        if client is None or client.softwareName is None
        else ",clientInformation:ClientInformation("
        f"softwareName={pseudonyms.software(client.softwareName)}, "
        f"softwareVersion={pseudonyms.software_version(client.softwareVersion or '')})"
    )
    return (
        f" from connection {pseudonyms.connection(line.connection)};{said},"
        f"securityProtocol:PLAINTEXT,principal:{pseudonyms.principal(line.principal)},"
        f"listener:{pseudonyms.listener(line.listener)}{software}"
    )


def _produce(request: Any) -> str:
    begin = f"{{acks={request.acks},timeout={request.timeoutMs},"
    if request.topicData is UNSET:
        return f"{begin}numPartitions=0}}"
    sizes = ",".join(
        f"{topic.name}-{partition.index}={partition.recordsSizeInBytes}"
        for topic in request.topicData
        for partition in topic.partitionData
    )
    return f"{begin}partitionSizes=[{sizes}]}}"


def _message(name: str, version: int, message: Any) -> str:
    layout = message_layout(name, version)
    assert layout is not None, (name, version)
    return _struct(message, layout)


def _struct(struct: Any, layout: Layout) -> str:
    fields = [f"{snake_case(slot.name)}={_value(struct, slot)}" for slot in layout.plain]
    if layout.is_flexible:
        tagged = ", ".join(
            f"{tag}={_value(struct, slot)}"
            for tag, slot in layout.tagged.items()
            if getattr(struct, slot.name) is not UNSET
        )
        fields.append(f"_tagged_fields={{{tagged}}}")
    return "{" + ",".join(fields) + "}"


def _value(struct: Any, slot: Slot) -> str:
    value = getattr(struct, slot.name)
    if slot.kind == "records":
        size = getattr(struct, f"{slot.name}SizeInBytes")
        if size is not UNSET:
            return f"MemoryRecords(size={size})"
        return _RECORDS_WITHOUT_SIZE if value is UNSET else "null"
    if value is None:
        return "null"
    if slot.is_array:
        return "[" + ",".join(_element(each, slot) for each in value) + "]"
    return _element(value, slot)


def _element(value: Any, slot: Slot) -> str:
    if slot.layout is not None:
        is_unread = all(getattr(value, name) is UNSET for name in value.__struct_fields__)
        return _JAVA_ARRAY if is_unread else _struct(value, slot.layout)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _decimal(value) if isinstance(value, float) else str(value)


def _decimal(value: float) -> str:
    """Return a number as Java prints it: ``1.0E10``, ``Infinity``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    digits, exponent, power = repr(value).partition("e")
    if not exponent:
        return digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(power)}"
