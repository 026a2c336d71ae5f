r"""Requests and responses as brokers of 2.0 to 2.7 print them, read by their message definitions.

Kafka: ``Struct.toString``: ``{name=value,name=[{…},{…}],name=null}``, every field of the version in
its order on the wire. Strings stand there as they are, so where one ends can only be told from the
name of the field that follows. Classes that were written by hand used other names than the
definitions do (``timeout`` for ``timeout_ms``) and put fields into structs of their own
(``partition_header``, ``new_partitions``): fields are read by their position, not by their name.

The result has the shape of the JSON that later brokers log: camelCase names, records as
``…SizeInBytes``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from spark_jobs.ingest.messages.message_definition import Field, message_definition

_NAME = re.compile(r"([a-z][a-z_]*)=")
_NAMED_INTEGER = re.compile(r"[a-z][a-z_]*=(-?\d{1,19})")
_INTEGER = re.compile(r"-?\d{1,19}")
_DECIMAL = re.compile(r"-?(?:\d+\.\d+(?:E-?\d{1,3})?|Infinity)|NaN")
_BOOLEAN = re.compile(r"true|false")
_NULL = re.compile(r"null(?=[,}])")
_NEVER_IN_BRACES = frozenset({"integer", "bool", "float64"})
_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint16"})
# What closes the last string of a struct: a brace behind which the outer text goes on.
_END_OF_STRUCT = re.compile(r"\}(?=,\{|,[a-z_]+=|, \d+=|\]|\}|$)")
_END_OF_ELEMENT = re.compile(r"[,\]]")
# An array within an array (the brokers of a CreatePartitions before 2.5) is printed as an object.
_JAVA_ARRAY = re.compile(r"\[L[\w.$]+;@[0-9a-f]+")
_TAGGED = "_tagged_fields"
_TAG = re.compile(r"(?:, )?(\d+)=")
_UNKNOWN_TAG = re.compile(r"[^,{}]*")
# The names before 2.8 of fields that can follow a string.
_OLDER_NAMES = {
    "partition_data": ("data",),
    "partitions": ("partition_responses",),
    "count": ("new_partitions",),
    "value": ("config_value",),
}
# A conversion to an older format is counted with the size before it, which is the inner one.
_RECORDS = re.compile(
    r"(?:LazyDownConversionRecords\(size=\d+, underlying=(?P<converted>.*?), toMagic=-?\d+, "
    r"firstOffset=-?\d+\)|(?P<plain>(?:File|Memory)Records\(.*?[\])\d]\)|\[\]|null)"
    r"|\[\(record=.*?\)\]|[\w.$]+@[0-9a-f]+)(?=[,}])"
)
_RECORDS_SIZE = re.compile(r"(?:File|Memory)Records\(size=(\d+)")
# Before 2.4 without their size.
_FILE_SLICE = re.compile(r"FileRecords\(file= .*, start=(\d+), end=(\d+)\)")


class TextMessageError(ValueError):
    """The text of a message does not read as the fields of its version."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One field at its position: what it holds, and what ends it where it is a string."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    end: re.Pattern[str]
    layout: Layout | None  # of a struct, or of an array's structs


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct in the order of one version; the tagged ones by their tag."""

    plain: tuple[Slot, ...]
    tagged: Mapping[int, Slot]
    is_flexible: bool


def read_message(name: str, version: int, text: str) -> dict[str, Any]:
    """Return message ``name`` (like ``FetchResponse``) of ``version`` from its text.

    Absent is what the text does not tell: the size of records in memory before 2.4, arrays of
    arrays.
    Raises TextMessageError, naming the position, where the text is not that of this version.

    >>> read_message("DeleteTopicsRequest", 1, "{topics=[a,b],timeout=30}")
    {'topicNames': ['a', 'b'], 'timeoutMs': 30}
    """
    layout = message_layout(name, version)
    if layout is None:
        raise TextMessageError(f"{name} has no version {version}")
    reader = _Reader(text)
    try:
        found = reader.struct(layout)
        if reader.position == len(text):
            return found
    except _UnexpectedTextError:
        pass
    near = text[max(0, reader.position - 20) : reader.position + 40]
    raise TextMessageError(
        f"{name} version {version}: unexpected text at character {reader.position}, in {near!r}"
    )


@cache
def message_layout(name: str, version: int) -> Layout | None:
    """Return the fields of message ``name`` in ``version``; None where it has no such version."""
    found = message_definition(name, version)
    return _layout(found.fields, version, version in found.flexible) if found else None


def _layout(fields: tuple[Field, ...], version: int, is_flexible: bool) -> Layout:
    present = [f for f in fields if version in f.versions]
    plain = [f for f in present if version not in f.tagged]
    ends = [_end_before(snake_case(f.name)) for f in plain[1:]]
    ends.append(_end_before(_TAGGED) if is_flexible else _END_OF_STRUCT)

    def slot(field: Field, end: re.Pattern[str]) -> Slot:
        return Slot(
            name=field.name,
            kind="integer" if field.kind in _INTEGERS else field.kind,
            is_array=field.is_array,
            is_nullable=version in field.nullable,
            end=_END_OF_ELEMENT if field.is_array else end,
            layout=_layout(field.fields, version, is_flexible) if field.is_struct else None,
        )

    return Layout(
        plain=tuple(map(slot, plain, ends)),
        tagged={f.tag: slot(f, _END_OF_STRUCT) for f in present if version in f.tagged},
        is_flexible=is_flexible,
    )


def snake_case(camel: str) -> str:
    """Return a field's name as the text prints it: ``topicData`` → ``topic_data``."""
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), camel)


def _end_before(next_name: str) -> re.Pattern[str]:
    names = "|".join((next_name, *_OLDER_NAMES.get(next_name, ())))
    return re.compile(rf",(?=(?:{names})=)")


class _UnexpectedTextError(Exception):
    """The text does not go on as it should; the reader's position tells where."""


class _Reader:
    """One text and the position in it; every method reads on from there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def struct(self, layout: Layout) -> dict[str, Any]:
        """Return the fields of a struct, from its opening brace to its closing one."""
        found: dict[str, Any] = {}
        self._take("{")
        inner = 0  # open structs that only the text has
        for i, slot in enumerate(layout.plain):
            if inner and self._text.startswith("}", self.position):
                self.position += 1
                inner -= 1
            if i:
                self._take(",")
            if slot.kind == "integer" and (
                number := _NAMED_INTEGER.match(self._text, self.position)
            ):
                self.position = number.end()
                found[slot.name] = int(number[1])
            else:
                inner += self._named(slot)
                self._value(slot, found)
        self._take("}" * inner)
        if layout.is_flexible:
            self._tagged(layout, found)
        self._take("}")
        return found

    def _take(self, expected: str) -> None:
        if not self._text.startswith(expected, self.position):
            raise _UnexpectedTextError
        self.position += len(expected)

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self.position)
        if found is None:
            raise _UnexpectedTextError
        self.position = found.end()
        return found[found.lastindex or 0]

    def _named(self, slot: Slot) -> int:
        """Take the field's name; return the number of structs opened that only the text has."""
        opened = 0
        self._matched(_NAME)
        while slot.kind in _NEVER_IN_BRACES and self._text.startswith("{", self.position):
            self.position += 1
            opened += 1
            self._matched(_NAME)
        return opened

    def _tagged(self, layout: Layout, found: dict[str, Any]) -> None:
        self._take(f",{_TAGGED}={{")  # every struct read here has fields of its own
        while not self._text.startswith("}", self.position):
            slot = layout.tagged.get(int(self._matched(_TAG)))
            if slot is None:
                self._matched(_UNKNOWN_TAG)
            else:
                self._value(slot, found)
        self._take("}")

    def _value(self, slot: Slot, found: dict[str, Any]) -> None:
        if slot.kind == "records":
            self._records(slot, found)
        elif slot.is_nullable and _NULL.match(self._text, self.position):
            self.position += len("null")
            found[slot.name] = None
        else:
            found[slot.name] = self._array(slot) if slot.is_array else self._element(slot)

    def _array(self, slot: Slot) -> list[Any]:
        values: list[Any] = []
        self._take("[")
        if self._text.startswith("]", self.position):
            self.position += 1
            return values
        while True:
            values.append(self._element(slot))
            if not self._text.startswith(",", self.position):
                break
            self.position += 1
        self._take("]")
        return values

    def _element(self, slot: Slot) -> Any:
        if slot.layout is not None:
            if not self._text.startswith("[", self.position):
                return self.struct(slot.layout)
            self._matched(_JAVA_ARRAY)
            return {}
        if slot.kind == "string":
            return self._string(slot.end)
        if slot.kind == "integer":
            return int(self._matched(_INTEGER))
        if slot.kind == "bool":
            return self._matched(_BOOLEAN) == "true"
        return float(self._matched(_DECIMAL))

    def _string(self, end: re.Pattern[str]) -> str:
        found = end.search(self._text, self.position)
        if found is None:
            raise _UnexpectedTextError
        begin, self.position = self.position, found.start()
        return self._text[begin : self.position]

    def _records(self, slot: Slot, found: dict[str, Any]) -> None:
        match = _RECORDS.match(self._text, self.position)
        if match is None:
            raise _UnexpectedTextError
        self.position = match.end()
        text = match["converted"] or match["plain"]
        if text == "null":
            found[slot.name] = None
        elif text is not None and (size := _records_bytes(text)) is not None:
            found[f"{slot.name}SizeInBytes"] = size


def _records_bytes(text: str) -> int | None:
    if text == "[]":
        return 0
    if sized := _RECORDS_SIZE.match(text):
        return int(sized[1])
    if part := _FILE_SLICE.fullmatch(text):
        return int(part[2]) - int(part[1])
    return None
