"""Kafka's own message definitions (vendored from its kafka-clients jars), read into plain records.

Kafka: ``generator/.../message/{MessageSpec,StructSpec,FieldSpec,Versions}.java``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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
