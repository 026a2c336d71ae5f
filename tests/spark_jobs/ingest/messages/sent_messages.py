"""Messages of any version as Kafka prints them, drawn from its definitions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from spark_jobs.ingest.messages.message_definition import (
    Field,
    Message,
    message_definitions,
)

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 60}
TEXTS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, blacklist_characters='"\\'), max_size=140
)


def versions(api_name: str) -> list[int]:
    """Return the versions of a request that the definitions here know."""
    return [v for v in range(64) if definition(f"{api_name}Request", v) is not None]


def definition(name: str, version: int) -> Message | None:
    """Return the newest definition of a version of a message."""
    return next((m for m in message_definitions(name) if version in m.versions), None)


@st.composite
def messages(draw: st.DrawFn, name: str, version: int) -> dict[str, Any]:
    """Draw what a message of a version says: every field, tagged ones now and then."""
    message = definition(name, version)
    assert message is not None, (name, version)
    drawn: dict[str, Any] = draw(_structs(message.fields, version))
    return drawn


@st.composite
def _structs(draw: st.DrawFn, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        if version not in field.versions or (version in field.tagged and draw(st.booleans())):
            continue
        if field.kind == "records":
            found[f"{field.name}SizeInBytes"] = draw(st.integers(0, 1 << 21))
        elif version in field.nullable and draw(st.integers(0, 3)) == 0:
            found[field.name] = None
        elif field.is_array:
            found[field.name] = draw(st.lists(_values(field, version), max_size=3))
        else:
            found[field.name] = draw(_values(field, version))
    return found


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.is_struct:
        return _structs(field.fields, version)
    if field.kind in _BITS:
        limit = 1 << (_BITS[field.kind] - 1)
        return st.integers(-1, min(130, limit - 1)) | st.integers(-limit, limit - 1)
    if field.kind == "uuid":
        return st.sampled_from(["AAAAAAAAAAAAAAAAAAAAAQ", "_niq7sYuTdFDSPSp4Z9QNQ", ""])
    return st.booleans() if field.kind == "bool" else TEXTS
