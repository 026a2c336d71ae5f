"""msgspec types of Kafka's messages as its request log prints them: one per message, any version.

Kafka: ``JsonConverterGenerator`` (how a message becomes JSON): fields that the version lacks and
tagged fields with their default value are not printed; records are printed as their size.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

import msgspec

from spark_jobs.ingest.messages.message_definition import Field, message_definitions

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SIMPLE: dict[str, Any] = {"bool": bool, "float64": float, "string": str, "uuid": str} | {
    kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    for kind, bits in _BITS.items()
}
_RECORDS_BYTES: Any = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


@cache
def message_struct(name: str) -> type[msgspec.Struct]:
    """Return the type of message ``name``: the fields of all its versions, absent ones UNSET.

    Attributes are named as in the log (camelCase). Decoding ignores fields Kafka does not define
    and refuses values of the wrong type.
    """
    return _struct(name, [m.fields for m in message_definitions(name)])


def _struct(name: str, variants: Iterable[tuple[Field, ...]]) -> type[msgspec.Struct]:
    by_name: dict[str, list[Field]] = {}
    for fields in variants:
        for field in fields:
            by_name.setdefault(field.name, []).append(field)
    attributes: list[tuple[str, Any, Any]] = []
    for field_name, same in by_name.items():
        if same[0].kind == "records":
            size = _RECORDS_BYTES | msgspec.UnsetType
            attributes.append((f"{field_name}SizeInBytes", size, msgspec.UNSET))
        kind = _type(same) | None | msgspec.UnsetType
        attributes.append((field_name, kind, msgspec.UNSET))
    # Messages hold no cycles, so the garbage collector need not look at them.
    return msgspec.defstruct(name, attributes, gc=False)


def _type(same: list[Field]) -> Any:
    field = same[0]
    if field.kind == "records":
        return msgspec.UnsetType  # only ever printed as null: otherwise as its size
    kind = _struct(field.kind, [f.fields for f in same]) if field.is_struct else _SIMPLE[field.kind]
    return list[kind] if field.is_array else kind  # type: ignore[valid-type]
