"""Lines in the text format of Kafka 2.0 to 2.7, written anew from what was read of them.

What records held, or in which file they lay, is printed in some of these lines; only sizes are
written.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import UNSET

from spark_jobs.anonymize.message_names import replace_names
from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.lines.request_line import RequestLine
from spark_jobs.ingest.lines.text_message import Layout, Slot, message_layout, snake_case
from spark_jobs.ingest.lines.text_request import (
    PRODUCE_VERSIONS,
    LoggedRequest,
    TextLine,
    split_text_line,
    text_messages,
)
from spark_jobs.ingest.messages.message_definition import API_NAMES

_PRODUCE, _API_VERSIONS = 0, 18
_JAVA_ARRAY = "[Ljava.lang.Object;@0"
_RECORDS_WITHOUT_SIZE = "[(record=)]"


def written_text(text: str, found: LoggedRequest, pseudonyms: Pseudonyms) -> str:
    """Return the text behind the marker: ``text``, read as ``found``, under pseudonyms."""
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
    line = parts.line
    throttle = line.throttleTimeMs
    client = line.clientInformation
    software = (
        ""
        if client is None or client.softwareName is None
        else ",clientInformation:ClientInformation("
        f"softwareName={pseudonyms.software(client.softwareName)}, "
        f"softwareVersion={pseudonyms.software_version(client.softwareVersion or '')})"
    )
    return (
        f" from connection {pseudonyms.connection(line.connection)};{_times(line)},"
        f"throttleTime:{throttle if parts.throttle_has_decimals else int(throttle)},"
        f"responseQueueTime:{line.responseQueueTimeMs},sendTime:{line.sendTimeMs},"
        f"securityProtocol:PLAINTEXT,principal:{pseudonyms.principal(line.principal)},"
        f"listener:{pseudonyms.listener(line.listener)}{software}"
    )


def _times(line: RequestLine) -> str:
    return (
        f"totalTime:{line.totalTimeMs},requestQueueTime:{line.requestQueueTimeMs},"
        f"localTime:{line.localTimeMs},remoteTime:{line.remoteTimeMs}"
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
