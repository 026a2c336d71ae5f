from __future__ import annotations

from collections.abc import Iterator

import msgspec

from spark_jobs.anonymize.message_names import ENTITY_KINDS, NAME_FIELDS, replace_names
from spark_jobs.anonymize.pseudonyms import Pseudonyms
from spark_jobs.ingest.messages.message_definition import (
    API_NAMES,
    Field,
    message_definitions,
    message_struct,
)

MESSAGES = [f"{name}{side}" for name in API_NAMES.values() for side in ("Request", "Response")]
FREE_TEXTS = {
    "ProduceResponse.responses.partitionResponses.recordErrors.batchIndexErrorMessage",
    "ProduceResponse.responses.partitionResponses.errorMessage",
    "CreateTopicsRequest.topics.configs.name",
    "CreateTopicsRequest.topics.configs.value",
    "CreateTopicsResponse.topics.configs.name",
    "CreateTopicsResponse.topics.configs.value",
    "CreateTopicsResponse.topics.errorMessage",
    "DeleteTopicsResponse.responses.errorMessage",
    "CreatePartitionsResponse.results.errorMessage",
    "AlterClientQuotasRequest.entries.ops.key",  # one of KEPT_WORDS stays
    "AlterClientQuotasResponse.entries.errorMessage",
    "ShareFetchResponse.errorMessage",
    "ShareFetchResponse.responses.partitions.errorMessage",
    "ShareFetchResponse.responses.partitions.acknowledgeErrorMessage",
}
ENTITIES = {
    f"AlterClientQuotas{side}.entries.entity.{name}"
    for side in ("Request", "Response")
    for name in ("entityType", "entityName")
}


def fields(path: str, of: tuple[Field, ...]) -> Iterator[tuple[str, Field]]:
    for field in of:
        yield f"{path}.{field.name}", field
        yield from fields(f"{path}.{field.name}", field.fields)


ALL = [
    found
    for name in MESSAGES
    for definition in message_definitions(name)
    for found in fields(name, definition.fields)
]


def test_of_every_text_in_a_message_it_was_decided_what_it_is() -> None:
    texts = {path for path, field in ALL if field.kind == "string"}
    assert texts == NAME_FIELDS.keys() | FREE_TEXTS | ENTITIES
    kinds = {field.kind for _, field in ALL if not field.is_struct}
    numbers = {"int8", "int16", "int32", "int64", "bool", "float64"}
    assert kinds == numbers | {"string", "uuid", "records"}


def test_no_text_of_a_message_stays_whatever_field_it_is_in() -> None:
    """Every field of every message is filled with a text that must not come through."""
    secret = "treasure"

    def value(field: Field) -> object:
        if field.is_struct:
            one: object = {f.name: value(f) for f in field.fields if f.kind != "records"}
        elif field.kind in ("string", "uuid"):
            one = secret
        else:
            one = True if field.kind == "bool" else 7
        return [one] if field.is_array else one

    for name in MESSAGES:
        for definition in message_definitions(name):
            body = {f.name: value(f) for f in definition.fields if f.kind != "records"}
            message = msgspec.convert(body, message_struct(name))
            replace_names(name, message, Pseudonyms(b"k" * 32))
            assert secret.encode() not in msgspec.json.encode(message), name


def test_a_quotas_address_is_an_address_and_its_keys_stay() -> None:
    names = Pseudonyms(b"k" * 32)
    body = {
        "entries": [
            {
                "entity": [
                    {"entityType": "ip", "entityName": "10.0.0.5"},
                    {"entityType": "user", "entityName": None},
                ],
                "ops": [
                    {"key": "connection_creation_rate", "value": 1.0, "remove": False},
                    {"key": "of my own", "value": 1.0, "remove": False},
                ],
            }
        ]
    }
    message = msgspec.convert(body, message_struct("AlterClientQuotasRequest"))
    replace_names("AlterClientQuotasRequest", message, names)
    (entry,) = msgspec.to_builtins(message)["entries"]
    assert entry["entity"][0] == {"entityType": "ip", "entityName": names.address("10.0.0.5")}
    assert entry["entity"][1] == {"entityType": "user", "entityName": None}
    assert [op["key"] for op in entry["ops"]] == ["connection_creation_rate", "xxxxxxxxx"]
    assert ENTITY_KINDS.keys() == {"user", "client-id", "ip"}
