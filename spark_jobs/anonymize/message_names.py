"""Names in the messages that an audit reads: which fields hold one, replaced in decoded messages.

A text field that is not listed is free text, of which only the length stays. Fields that Kafka's
definitions do not have are not decoded, so they are not there (:mod:`message_struct`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec import UNSET

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.messages.message_definition import Field, message_definitions
from spark_jobs.ingest.quota_sources.out_of_scope import CONNECTION_CREATION_RATE
from spark_jobs.quota.codes import QUOTA_TYPES

NAME_FIELDS: dict[str, Kind] = {
    "ProduceRequest.transactionalId": Kind.TRANSACTIONAL_ID,
    "ProduceRequest.topicData.name": Kind.TOPIC,
    "ProduceResponse.responses.name": Kind.TOPIC,
    "ProduceResponse.nodeEndpoints.host": Kind.ADDRESS,
    "ProduceResponse.nodeEndpoints.rack": Kind.RACK,
    "FetchRequest.clusterId": Kind.CLUSTER,
    "FetchRequest.topics.topic": Kind.TOPIC,
    "FetchRequest.forgottenTopicsData.topic": Kind.TOPIC,
    "FetchRequest.rackId": Kind.RACK,
    "FetchResponse.responses.topic": Kind.TOPIC,
    "FetchResponse.nodeEndpoints.host": Kind.ADDRESS,
    "FetchResponse.nodeEndpoints.rack": Kind.RACK,
    "CreateTopicsRequest.topics.name": Kind.TOPIC,
    "CreateTopicsResponse.topics.name": Kind.TOPIC,
    "DeleteTopicsRequest.topics.name": Kind.TOPIC,
    "DeleteTopicsRequest.topicNames": Kind.TOPIC,
    "DeleteTopicsResponse.responses.name": Kind.TOPIC,
    "CreatePartitionsRequest.topics.name": Kind.TOPIC,
    "CreatePartitionsResponse.results.name": Kind.TOPIC,
    "ShareFetchRequest.groupId": Kind.GROUP,
    "ShareFetchRequest.memberId": Kind.GROUP,
    "ShareFetchResponse.nodeEndpoints.host": Kind.ADDRESS,
    "ShareFetchResponse.nodeEndpoints.rack": Kind.RACK,
}
"""Fields of one name each, or of a list of names, by message and path in it."""

KEPT_WORDS = frozenset({*QUOTA_TYPES, CONNECTION_CREATION_RATE})
"""Of the keys that ALTER_CLIENT_QUOTAS sets."""
ENTITY_KINDS = {"user": Kind.PRINCIPAL, "client-id": Kind.CLIENT_ID, "ip": Kind.ADDRESS}

_Change = Callable[[Any, Pseudonyms], None]


def replace_names(name: str, message: Any, pseudonyms: Pseudonyms) -> None:
    """Replace the names of a decoded message (a ``message_struct``) called ``name``, in place."""
    for change in _changes(name):
        change(message, pseudonyms)


@cache
def _changes(path: str) -> tuple[_Change, ...]:
    """Return the changes to make to the message, or the struct in a message, at ``path``."""
    name, *places = path.split(".")
    variants = [m.fields for m in message_definitions(name)]
    for place in places:
        variants = [f.fields for fields in variants for f in fields if f.name == place]
    by_name = {field.name: field for fields in reversed(variants) for field in fields}
    if {"entityType", "entityName"} <= by_name.keys():
        return (_entity,)
    found = (_change(f"{path}.{field.name}", field) for field in by_name.values())
    return tuple(change for change in found if change is not None)


def _change(path: str, field: Field) -> _Change | None:
    if field.is_struct:
        return _of_structs(field.name, path)
    if field.kind == "uuid":
        return _of_texts(field.name, lambda pseudonyms, text: pseudonyms.uuid(text))
    if field.kind != "string":
        return None  # a number, a truth, or records, of which the log has the size
    kind = NAME_FIELDS.get(path)
    if kind is Kind.ADDRESS:
        return _of_texts(field.name, lambda pseudonyms, text: pseudonyms.address(text))
    if kind is not None:
        return _of_texts(field.name, lambda pseudonyms, text: pseudonyms.name(text, kind))
    return _of_texts(field.name, _word_or_blank)


def _word_or_blank(pseudonyms: Pseudonyms, text: str) -> str:
    return text if text in KEPT_WORDS else pseudonyms.text(text)


def _of_structs(name: str, path: str) -> _Change:
    inner = _changes(path)

    def change(struct: Any, pseudonyms: Pseudonyms) -> None:
        value = getattr(struct, name)
        if value is None or value is UNSET:
            return
        for each in value if isinstance(value, list) else (value,):
            for one in inner:
                one(each, pseudonyms)

    return change


def _of_texts(name: str, replaced: Callable[[Pseudonyms, str], str]) -> _Change:
    def change(struct: Any, pseudonyms: Pseudonyms) -> None:
        value = getattr(struct, name)
        if isinstance(value, str):
            setattr(struct, name, replaced(pseudonyms, value))
        elif isinstance(value, list):
            setattr(struct, name, [replaced(pseudonyms, each) for each in value])

    return change


def _entity(struct: Any, pseudonyms: Pseudonyms) -> None:
    """Replace the name of a quota's entity; the pseudonym of an address is that of connections."""
    kind = ENTITY_KINDS.get(struct.entityType)
    if kind is None and isinstance(struct.entityType, str):
        struct.entityType = pseudonyms.text(struct.entityType)
    name = struct.entityName
    if isinstance(name, str):
        is_address = kind is Kind.ADDRESS
        struct.entityName = (
            pseudonyms.address(name) if is_address else pseudonyms.name(name, kind or Kind.TEXT)
        )
