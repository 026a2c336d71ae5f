"""The bytes of a logged request or response on the wire, from the schema of its version.

The log prints what a message says, not how long it was. These functions give the sizes that a
broker records on its quotas: of a produce ``Request.sizeInBytes`` (header and body, without the
4-byte length in front), of a fetch or share fetch ``FetchResponse.sizeOf`` (4 + body).

Once per line, in a hot loop, with the messages decoded into their types (1 to 2 µs a request)::

    produce = msgspec.json.Decoder(message_struct("ProduceRequest")).decode(raw_request_json)
    body = body_sizer(api_key, api_version, "Request")(produce)
    request_bytes = body + header_size(api_key, api_version, client_id)

    fetch = msgspec.json.Decoder(message_struct("FetchResponse")).decode(raw_response_json)
    response_bytes = body_sizer(1, api_version, "Response")(fetch) + RESPONSE_HEADER_BYTES

``body_sizer`` is None for a kind of request or a version without definition here (known: API_NAMES,
Kafka 2.8 to 4.2), and its function returns None where a field that decides the size is absent: the
size is then unknown, never guessed.

Not in the log, so not counted: tagged fields unknown to the broker, and values a client wrote in
more bytes than Kafka's own serializer needs. A fetch of version 0 to 3 that was down-converted is
recorded with the size before the conversion, and the log has the size after it. A share fetch is
recorded before acknowledgement results are merged into its response, and the log has them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import msgspec

from spark_jobs.ingest.messages.message_definition import (
    API_NAMES,
    Field,
    Message,
    message_definition,
    message_definitions,
    message_struct,
)
from spark_jobs.quota.apis import counted_by

FIXED_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


def varint_bytes(value: int) -> int:
    """Return the size in bytes of Kafka's unsigned varint of ``value``.

    Kafka: ``ByteUtils.sizeOfUnsignedVarint``.

    >>> [varint_bytes(v) for v in (0, 127, 128, 16_383, 16_384)]
    [1, 1, 2, 2, 3]
    """
    return (value.bit_length() + 6) // 7 or 1


def text_bytes(text: str) -> int:
    """Return the length of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def size_function(
    message: Message, version: int, blank: frozenset[str] = frozenset()
) -> Callable[[Any], int]:
    """Return the size of a decoded ``message`` in bytes, as a function compiled for ``version``.

    Top-level fields named in ``blank`` are taken as null or empty, whatever the message says.
    The function raises TypeError where a field that this version must have is absent.
    """
    source = _Source(message, version, blank)
    namespace = {"varint_bytes": varint_bytes, "text_bytes": text_bytes, "UNSET": msgspec.UNSET}
    exec(source.text(), namespace)
    return namespace["size"]  # type: ignore[return-value]


class _Source:
    """The lines of one generated function; ``n`` is the sum so far.

    Everything whose size is the same in every message is one constant. Kafka:
    ``MessageDataGenerator.generateClassMessageSize``.
    """

    def __init__(self, message: Message, version: int, blank: frozenset[str]) -> None:
        self._message, self._version, self._blank = message, version, blank
        self._lines: list[str] = []

    def text(self) -> str:
        self._emit(0, "def size(s0):")
        self._emit(1, "n = 0")
        self._struct(self._message.fields, depth=0, indent=1)
        self._emit(1, "return n")
        return "\n".join(self._lines)

    def _emit(self, indent: int, line: str) -> None:
        self._lines.append("    " * indent + line)

    def _is_flexible(self, field: Field) -> bool:
        return self._version in (field.flexible or self._message.flexible)

    def _present(self, fields: tuple[Field, ...]) -> list[Field]:
        return [f for f in fields if self._version in f.versions]

    def _struct(self, fields: tuple[Field, ...], depth: int, indent: int) -> None:
        """Emit the size of the struct in variable ``s<depth>``: fields, then tagged fields."""
        constant = 0
        tagged = []
        for field in self._present(fields):
            if self._version in field.tagged:
                tagged.append(field)
            elif not field.is_array and field.kind in FIXED_BYTES:
                constant += FIXED_BYTES[field.kind]
            elif depth == 0 and field.name in self._blank:
                constant += self._null_bytes(field)
            else:
                self._emit(indent, f"v = s{depth}.{field.name}")
                self._value(field, depth, indent)
        if self._version in self._message.flexible:
            constant += 1  # the count of tagged fields, always below 128
        self._emit(indent, f"n += {constant}")
        for field in tagged:
            if depth > 0 or field.name not in self._blank:
                self._tagged(field, depth, indent)

    def _tagged(self, field: Field, depth: int, indent: int) -> None:
        # The log prints a tagged field only where it is not the default: exactly where Kafka
        # writes it.
        self._emit(indent, f"v = s{depth}.{field.name}")
        self._emit(indent, "if v is not UNSET:")
        self._emit(indent + 1, f"before{depth} = n")
        self._value(field, depth, indent + 1)
        payload = f"varint_bytes(n - before{depth})"
        self._emit(indent + 1, f"n += {varint_bytes(field.tag)} + {payload}")

    def _value(self, field: Field, depth: int, indent: int) -> None:
        """Emit the size of the field whose value is in variable ``v``."""
        if field.kind == "records":
            self._records(field, depth, indent)
        elif self._version in field.nullable:
            self._emit(indent, f"if v is None: n += {self._null_bytes(field)}")
            self._emit(indent, "else:")
            self._non_null(field, depth, indent + 1)
        else:
            self._non_null(field, depth, indent)

    def _null_bytes(self, field: Field) -> int:
        """Return the size of a null, which is also that of an empty value."""
        if self._is_flexible(field):
            return 1
        return 4 if field.is_array or field.kind != "string" else 2

    def _length_prefix(self, field: Field, length: str) -> str:
        if self._is_flexible(field):
            return f"varint_bytes({length} + 1)"
        return str(self._null_bytes(field))

    def _text(self, field: Field, text: str, indent: int) -> None:
        """Emit the size of the string in variable ``text``: a field or an array's element."""
        prefix = "varint_bytes(k + 1)" if self._is_flexible(field) else "2"
        self._emit(indent, f"k = text_bytes({text})")
        self._emit(indent, f"n += k + {prefix}")

    def _records(self, field: Field, depth: int, indent: int) -> None:
        self._emit(indent, f"k = s{depth}.{field.name}SizeInBytes")
        self._emit(indent, f"if k is UNSET and v is None: n += {self._null_bytes(field)}")
        self._emit(indent, f"else: n += k + {self._length_prefix(field, 'k')}")

    def _non_null(self, field: Field, depth: int, indent: int) -> None:
        if field.is_array:
            self._array(field, depth, indent)
        elif field.is_struct:
            self._emit(indent, f"s{depth + 1} = v")
            self._struct(field.fields, depth + 1, indent)
        elif field.kind == "string":
            self._text(field, "v", indent)
        else:
            self._emit(indent, f"n += {FIXED_BYTES[field.kind]}")

    def _array(self, field: Field, depth: int, indent: int) -> None:
        self._emit(indent, f"n += {self._length_prefix(field, 'len(v)')}")
        if field.kind in FIXED_BYTES:
            self._emit(indent, f"n += len(v) * {FIXED_BYTES[field.kind]}")
            return
        self._emit(indent, f"for s{depth + 1} in v:")
        if field.is_struct:
            self._struct(field.fields, depth + 1, indent + 1)
        else:
            self._text(field, f"s{depth + 1}", indent + 1)


Sizer = Callable[[Any], int | None]

# FetchResponse.sizeOf and ShareFetchResponse.sizeOf build the message without these.
NOT_IN_SIZE_OF = frozenset({"nodeEndpoints", "errorMessage"})
FETCH_APIS = frozenset(counted_by("fetch"))
"""Api keys whose response is weighed by the consumer quota: Fetch and ShareFetch."""
_HELD_CLIENT_ID_MAX = 1000
"""Sizes of longer ones are not held: thousands of names of megabytes would fill the memory."""
RESPONSE_HEADER_BYTES = 4
"""What ``sizeOf`` adds to the body of a fetch response."""


def header_size(api_key: int, api_version: int, client_id: str | None) -> int:
    """Return the bytes of a request header: version 2 where the request is flexible, else 1.

    Kafka: ``ApiMessageType.requestHeaderVersion``, ``RequestHeader.size``.
    """
    if client_id is None or len(client_id) <= _HELD_CLIENT_ID_MAX:
        return _held_header_size(api_key, api_version, client_id)
    return _header_size(api_key, api_version, client_id)


def _header_size(api_key: int, api_version: int, client_id: str | None) -> int:
    request = message_definition(f"{API_NAMES[api_key]}Request", api_version)
    assert request is not None, (api_key, api_version)
    header_version = 2 if api_version in request.flexible else 1
    header = message_struct("RequestHeader")(clientId=client_id)
    return _header_sizer(header_version)(header)


_held_header_size = lru_cache(maxsize=4096)(_header_size)


@cache
def _header_sizer(header_version: int) -> Callable[[Any], int]:
    return size_function(message_definitions("RequestHeader")[0], header_version)


@cache
def body_sizer(api_key: int, api_version: int, side: str) -> Sizer | None:
    """Return the size of a decoded body as a function; None where no definition is known.

    ``side`` is ``Request`` or ``Response``. The function takes a ``message_struct`` and returns
    bytes, or None where a field that the version must have is absent.
    """
    if api_key not in API_NAMES:
        return None
    name = f"{API_NAMES[api_key]}{side}"
    is_fetched = api_key in FETCH_APIS and side == "Response"
    blank = NOT_IN_SIZE_OF if is_fetched else frozenset[str]()
    known = [m for m in message_definitions(name) if api_version in m.versions]
    # Later ones have the same bytes; only field names can differ between releases.
    sizes = [size_function(m, api_version, blank) for m in known]
    return _first_that_fits(sizes) if sizes else None


def _first_that_fits(sizes: list[Callable[[Any], int]]) -> Sizer:
    def size(message: Any) -> int | None:
        for size_of in sizes:
            try:
                return size_of(message)
            except (TypeError, AttributeError):  # a field of this definition is UNSET
                continue
        return None

    return size
