"""Generates, per message and version, the Python function that adds up its bytes on the wire.

Kafka: ``MessageDataGenerator.generateClassMessageSize``. The generated function takes the decoded
message (:mod:`message_struct`) and walks it once; everything whose size is
the same in every message is one constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spark_jobs.ingest.messages.message_definition import Field, Message

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
    """The lines of one generated function; ``n`` is the sum so far."""

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
