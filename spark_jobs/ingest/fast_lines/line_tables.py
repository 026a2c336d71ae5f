"""Kafka's message definitions as tables of numbers, which the compiled reader of lines walks.

One struct of a line, or of a version of a message, is a row of ``structs`` and a run of rows of
``fields``, in the order in which Kafka prints them (``RequestConvertToJson.requestDescMetrics`` and
the generated ``*JsonConverter``). Beside the name, a field's row says what its value must be and
what it adds to the size on the wire, as :mod:`spark_jobs.ingest.messages.wire_size` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.ingest.fast_lines import line_layout as at
from spark_jobs.ingest.fast_lines.line_layout import LineTables
from spark_jobs.ingest.messages.message_definition import (
    API_NAMES,
    INTEGER_BITS,
    Field,
    Message,
    message_definition,
)
from spark_jobs.ingest.messages.wire_size import (
    FETCH_APIS,
    FIXED_BYTES,
    NOT_IN_SIZE_OF,
    header_size,
    varint_bytes,
)

_KEPT: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "ProduceRequest": {
        "acks": (at.KEEP_NUMBER, at.ACKS),
        "topicData.name": (at.BEGIN_TOPIC, 0),
        "topicData.topicId": (at.BEGIN_TOPIC, 0),
        "topicData.partitionData.records": (at.ADD_RECORDS, 0),
    },
    "ProduceResponse": {
        "throttleTimeMs": (at.KEEP_NUMBER, at.RESPONSE_THROTTLE_MS),
        "responses.partitionResponses.errorCode": (at.ADD_ERROR, 0),
    },
    "FetchRequest": {
        "maxBytes": (at.KEEP_NUMBER, at.FETCH_MAX_BYTES),
        "replicaId": (at.KEEP_NUMBER, at.REPLICA_ID),
        "replicaState.replicaId": (at.KEEP_NUMBER, at.REPLICA_ID),
    },
    "ShareFetchRequest": {"maxBytes": (at.KEEP_NUMBER, at.FETCH_MAX_BYTES)},
} | {
    f"{name}Response": {
        "throttleTimeMs": (at.KEEP_NUMBER, at.RESPONSE_THROTTLE_MS),
        "errorCode": (at.ADD_ERROR, 0),
        "responses.topic": (at.BEGIN_TOPIC, 0),
        "responses.topicId": (at.BEGIN_TOPIC, 0),
        "responses.partitions.errorCode": (at.ADD_ERROR, 0),
        "responses.partitions.records": (at.ADD_RECORDS, 0),
    }
    for name in ("Fetch", "ShareFetch")
}


@cache
def line_tables() -> LineTables:
    """Return the tables of a line and of every version of the messages in TABLED_APIS."""
    build = _Build()
    build.line()
    messages = np.full((at.API_KEYS, at.API_VERSIONS, 2), -1, np.int32)
    header_bytes = np.zeros((at.API_KEYS, at.API_VERSIONS), np.int32)
    readers = np.full(at.API_KEYS, at.ANY_MESSAGE, np.int32)
    readers[list(API_NAMES)] = at.BY_REFERENCE
    readers[list(at.TABLED_APIS)] = at.BY_TABLE
    for api_key in at.TABLED_APIS:
        for version, definitions in _versions(API_NAMES[api_key]):
            header_bytes[api_key, version] = header_size(api_key, version, None)
            for side, message in enumerate(definitions):
                is_fetched = api_key in FETCH_APIS and side == 1
                blank = NOT_IN_SIZE_OF if is_fetched else frozenset[str]()
                messages[api_key, version, side] = build.message(message, version, blank)
    return build.tables(messages, header_bytes, readers)


def _versions(api_name: str) -> Iterator[tuple[int, tuple[Message, Message]]]:
    """Yield each version with its request and response as the newest release defines them."""
    for version in range(at.API_VERSIONS):
        found = [
            message_definition(f"{api_name}{side}", version) for side in ("Request", "Response")
        ]
        if found[0] is not None and found[1] is not None:
            yield version, (found[0], found[1])


@dataclass(slots=True)
class _Build:
    """The tables as far as they are made."""

    names: bytearray = field(default_factory=bytearray)
    known_names: dict[bytes, int] = field(default_factory=dict)
    structs: list[tuple[int, int, int, bool]] = field(default_factory=list)
    fields: list[list[int]] = field(default_factory=list)

    def tables(
        self,
        messages: npt.NDArray[np.int32],
        header_bytes: npt.NDArray[np.int32],
        readers: npt.NDArray[np.int32],
    ) -> LineTables:
        return LineTables(
            np.frombuffer(bytes(self.names), np.uint8),
            np.array(self.fields, np.int32),
            np.array(self.structs, np.int32),
            messages,
            header_bytes,
            readers,
        )

    def row(self, name: str, kind: int, **columns: int) -> list[int]:
        """Return the row of a field; columns not given are those of a plain value."""
        key = f'"{name}":'.encode()
        if key not in self.known_names:
            self.known_names[key] = len(self.names)
            self.names += key
        row = [0] * at.FIELD_COLUMNS
        row[at.NAME], row[at.NAME_END] = self.known_names[key], self.known_names[key] + len(key)
        row[at.KIND], row[at.NULL_BYTES], row[at.IS_COUNTED] = kind, at.NO_NULL, 1
        for column, value in columns.items():
            row[getattr(at, column)] = value
        return row

    def number(self, name: str, column: int, kind: int = at.INTEGER, **columns: int) -> list[int]:
        """Return the row of a number that is kept in ``column``."""
        return self.row(name, kind, KEEP=at.KEEP_NUMBER, COLUMN=column, **columns)

    def text(self, name: str, column: int, **columns: int) -> list[int]:
        """Return the row of a text that is kept in ``column``."""
        return self.row(name, at.STRING, KEEP=at.KEEP_TEXT, COLUMN=column, **columns)

    def struct(self, rows: list[list[int]], constant: int = 0, *, lacks_error: bool = False) -> int:
        """Add a struct and return its number."""
        first = len(self.fields)
        self.fields += rows
        self.structs.append((first, len(self.fields), constant, lacks_error))
        return len(self.structs) - 1

    def line(self) -> None:
        """Add what stands outside of the messages; the line itself is LINE_STRUCT."""
        self.structs.append((0, 0, 0, False))  # the line's, whose rows follow those of its structs
        header = self.struct(
            [
                self.number("requestApiKey", at.API_KEY, BITS=16),
                self.number("requestApiVersion", at.API_VERSION, BITS=16),
                self.number("correlationId", at.CORRELATION_ID, BITS=32),
                self.text("clientId", at.CLIENT_ID, NULL_BYTES=0),
                self.text("requestApiKeyName", at.API_NAME),
                self.row("requestApiVersionDeprecated", at.BOOLEAN, MAY_LACK=1),
            ]
        )
        software = self.struct(
            [
                self.text("softwareName", at.SOFTWARE, NULL_BYTES=0),
                self.text("softwareVersion", at.SOFTWARE_VERSION, NULL_BYTES=0),
            ]
        )
        times = {
            "totalTimeMs": at.TOTAL_US,
            "requestQueueTimeMs": at.QUEUE_US,
            "localTimeMs": at.HANDLER_US,
            "remoteTimeMs": at.REMOTE_US,
            "throttleTimeMs": at.THROTTLE_US,
            "responseQueueTimeMs": at.RESPONSE_QUEUE_US,
            "sendTimeMs": at.SEND_US,
        }
        rows = [
            self.number("isForwarded", at.IS_FORWARDED, at.BOOLEAN, MAY_LACK=1),
            self.row("requestHeader", at.STRUCT, CHILD=header),
            self.row("request", at.REQUEST),
            self.row("response", at.RESPONSE),
            self.text("connection", at.CONNECTION),
            *(self.number(name, column, at.MILLISECONDS) for name, column in times.items()),
            self.row("securityProtocol", at.STRING),
            self.text("principal", at.PRINCIPAL),
            self.text("listener", at.LISTENER),
            self.row("clientInformation", at.STRUCT, CHILD=software, MAY_LACK=1),
            self.row("temporaryMemoryBytes", at.ANY, MAY_LACK=1),
            self.row("messageConversionsTime", at.ANY, MAY_LACK=1),
        ]
        self.structs[at.LINE_STRUCT] = self.structs[self.struct(rows)]

    def message(self, message: Message, version: int, blank: frozenset[str]) -> int:
        """Add ``version`` of ``message`` and return the number of its struct."""
        source = _MessageSource(self, message, version, _KEPT[message.name])
        return source.struct(message.fields, "", blank)


@dataclass(frozen=True, slots=True)
class _MessageSource:
    """One version of one message on its way into the tables."""

    build: _Build
    message: Message
    version: int
    kept: Mapping[str, tuple[int, int]]

    def struct(self, fields: tuple[Field, ...], path: str, blank: frozenset[str]) -> int:
        constant = 1 if self.version in self.message.flexible else 0  # the count of tagged fields
        rows = []
        for one in fields:
            if self.version not in one.versions:
                continue
            is_tagged = self.version in one.tagged
            row = self._field(one, path)
            if is_tagged:
                row[at.MAY_LACK], row[at.TAG] = 1, varint_bytes(one.tag)
            elif row[at.BYTES] and not one.is_array:
                constant += row[at.BYTES]
                row[at.BYTES] = 0
            if one.name in blank:
                row[at.IS_COUNTED] = 0
                constant += 0 if is_tagged else self._null_bytes(one)
            rows.append(row)
        # The reference takes the top-level code of a fetch as 0 where its version has none.
        lacks_error = (
            "errorCode" in self.kept and not path and all(r[at.KEEP] != at.ADD_ERROR for r in rows)
        )
        return self.build.struct(rows, constant, lacks_error=lacks_error)

    def _field(self, one: Field, path: str) -> list[int]:
        is_flexible = self.version in (one.flexible or self.message.flexible)
        name, columns = one.name, self._kind(one, path)
        keep, column = self.kept.get(path + one.name, (at.NOTHING, 0))
        if one.kind == "records":
            # A null is printed under the field's own name: a line for the reference reader.
            name += "SizeInBytes"
        elif self.version in one.nullable:
            columns["NULL_BYTES"] = self._null_bytes(one)
        return self.build.row(
            name,
            **columns,
            IS_ARRAY=int(one.is_array),
            IS_FLEXIBLE=int(is_flexible),
            PREFIX=4 if one.is_array or one.kind != "string" else 2,
            KEEP=keep,
            COLUMN=column,
        )

    def _kind(self, one: Field, path: str) -> dict[str, Any]:
        if one.is_struct:
            child = self.struct(one.fields, f"{path}{one.name}.", frozenset())
            return {"kind": at.STRUCT, "CHILD": child}
        if one.kind == "records":
            return {"kind": at.RECORDS, "BITS": 32}
        if one.kind == "string":
            return {"kind": at.STRING}
        kind = {"bool": at.BOOLEAN, "uuid": at.UUID}.get(one.kind, at.INTEGER)
        return {"kind": kind, "BITS": INTEGER_BITS.get(one.kind, 0), "BYTES": FIXED_BYTES[one.kind]}

    def _null_bytes(self, one: Field) -> int:
        if self.version in (one.flexible or self.message.flexible):
            return 1
        return 4 if one.is_array or one.kind != "string" else 2
