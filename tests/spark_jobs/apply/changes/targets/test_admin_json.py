"""The request of the Admin API, against the message definition that Kafka publishes."""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.apply.render import render
from spark_jobs.ingest.messages.message_definition import Field, message_definitions
from spark_jobs.quota.codes import DEFAULT
from tests.spark_jobs.apply.changes.fixed_alterations import (
    ALTERATIONS,
    CONSUMER,
    IN_FORCE,
    PRODUCER,
    alteration,
)


def has_fields(document: Any, fields: tuple[Field, ...]) -> int:
    """Check that a struct has exactly the fields of its definition; return how many it has."""
    assert set(document) == {field.name for field in fields}
    below = [
        has_fields(element, field.fields)
        for field in fields
        if field.fields
        for element in document[field.name]
    ]
    return len(fields) + sum(below)


def test_the_request_has_exactly_the_fields_of_kafkas_definition() -> None:
    (definition, *_) = message_definitions("AlterClientQuotasRequest")
    rendered = render("admin-json", ALTERATIONS, IN_FORCE)
    for text in (rendered.text, rendered.rollback):
        assert has_fields(json.loads(text), definition.fields) > 100


def test_an_entity_is_one_entry_of_all_its_changes() -> None:
    changes = [
        alteration("a", DEFAULT),
        alteration("b"),
        alteration("a", DEFAULT, quota_type=CONSUMER, after=None),
    ]
    first, second = json.loads(render("admin-json", changes, ()).text)["entries"]
    assert first == {
        "entity": [
            {"entityType": "user", "entityName": "a"},
            {"entityType": "client-id", "entityName": None},
        ],
        "ops": [
            {"key": PRODUCER, "value": 100_000.0, "remove": False},
            {"key": CONSUMER, "value": 0.0, "remove": True},
        ],
    }
    assert second["entity"] == [{"entityType": "user", "entityName": "b"}]


def test_a_value_is_written_as_a_floating_point_number() -> None:
    # Kafka's converter takes no other.
    assert '"value": 100000.0' in render("admin-json", [alteration()], ()).text
