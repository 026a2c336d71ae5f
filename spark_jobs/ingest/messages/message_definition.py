"""Kafka's own message definitions (vendored from its kafka-clients jars), as records and as types.

Kafka: ``generator/.../message/{MessageSpec,StructSpec,FieldSpec,Versions}.java``. The types of
msgspec are of messages as the request log prints them, one per message, any version
(``JsonConverterGenerator``): fields that the version lacks and tagged fields with their default
value are not printed; records are printed as their size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec

CONTROLLER_APIS = ("BROKER_HEARTBEAT", "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION")
"""Requests that only controllers serve; the listener they arrive on is no client's."""

ZOOKEEPER_APIS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
"""What a controller with ZooKeeper tells the brokers by; with KRaft they read it from the log."""

# Newest first. 4.x dropped old versions (3.9.1 has them), and 2.8 printed other field names for
# the same bytes of a fetch response.
RELEASES = ("4.2.0", "3.9.1", "2.8.2")
API_NAMES: Mapping[int, str] = {
    0: "Produce",
    1: "Fetch",
    19: "CreateTopics",
    20: "DeleteTopics",
    37: "CreatePartitions",
    49: "AlterClientQuotas",
    78: "ShareFetch",
}
"""The requests that a client quota weighs, or that change one, by api key."""

_NO_LIMIT = 32767
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of API versions; empty when ``lowest > highest``."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Return the range that ``3``, ``0-9``, ``4+`` or ``none`` (also None) stands for."""
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _NO_LIMIT)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: ``kind`` is its type, or its elements' where ``is_array``."""

    name: str  # as the JSON of the log spells it
    kind: str
    is_array: bool
    fields: tuple[Field, ...]  # of a struct; empty otherwise
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    flexible: Versions | None  # None: as the whole message

    @property
    def is_struct(self) -> bool:
        """Whether the field (or each of its elements) is a struct."""
        return bool(self.fields)


@dataclass(frozen=True, slots=True)
class Message:
    """One request or response of one Kafka release, over all versions that release knows."""

    name: str
    release: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@cache
def message_definitions(name: str) -> tuple[Message, ...]:
    """Return the definitions of message ``name`` (like ``FetchResponse``), newest release first."""
    folder = files("spark_jobs.ingest.messages") / "kafka_messages"
    found = ((r, folder / r / f"{name}.json") for r in RELEASES)
    return tuple(parse_message(path.read_text("utf-8"), r) for r, path in found if path.is_file())


def message_definition(name: str, version: int) -> Message | None:
    """Return the newest definition of ``version`` of a message; None where none has it."""
    return next((m for m in message_definitions(name) if version in m.versions), None)


def parse_message(text: str, release: str) -> Message:
    """Return the message that a definition file describes: JSON with ``//`` comments."""
    spec = json.loads(_STRING_OR_COMMENT.sub(lambda found: found[1] or "", text))
    return Message(
        name=spec["name"],
        release=release,
        versions=Versions.parse(spec["validVersions"]),
        flexible=Versions.parse(spec["flexibleVersions"]),
        fields=_fields(spec),
    )


def _fields(struct: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(spec) for spec in struct["fields"])


def _field(spec: Mapping[str, Any]) -> Field:
    kind: str = spec["type"]
    return Field(
        name=spec["name"][0].lower() + spec["name"][1:],
        kind=kind.removeprefix("[]"),
        is_array=kind.startswith("[]"),
        fields=_fields(spec) if "fields" in spec else (),
        versions=Versions.parse(spec["versions"]),
        nullable=Versions.parse(spec.get("nullableVersions")),
        tagged=Versions.parse(spec.get("taggedVersions")),
        tag=spec.get("tag", -1),
        flexible=Versions.parse(spec["flexibleVersions"]) if "flexibleVersions" in spec else None,
    )


INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SIMPLE: dict[str, Any] = {"bool": bool, "float64": float, "string": str, "uuid": str} | {
    kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    for kind, bits in INTEGER_BITS.items()
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
        # Printed as its size, or as null; of a share fetch as a text that is always empty, without
        # a size (Kafka: RequestConvertToJson.response).
        return str
    kind = _struct(field.kind, [f.fields for f in same]) if field.is_struct else _SIMPLE[field.kind]
    return list[kind] if field.is_array else kind  # type: ignore[valid-type]
