"""Terraform's configuration, read back by HashiCorp's own parser of HCL."""

from __future__ import annotations

import unicodedata
from typing import Any

import pygohcl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.apply.changes.targets.terraform import label, quoted
from spark_jobs.apply.render import render
from spark_jobs.quota.codes import DEFAULT
from tests.spark_jobs.apply.changes.fixed_alterations import (
    ALTERATIONS,
    IN_FORCE,
    MUTATION,
    PRODUCER,
    alteration,
    value,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TYPES = {PRODUCER, MUTATION, "consumer_byte_rate", "request_percentage"}


def resources(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = (
        pygohcl.loads(text).get("resource", {}).get("kafka_quota", {})
    )
    return found


@pytest.mark.parametrize("which", ["text", "rollback"])
def test_every_resource_is_as_the_providers_schema_wants_it(which: str) -> None:
    found = resources(getattr(render("terraform", ALTERATIONS, IN_FORCE), which))
    assert len(found) >= 10
    for resource in found.values():
        assert set(resource) - {"entity_name"} == {"entity_type", "config"}
        assert resource["entity_type"] in {"user", "client-id"}
        assert resource.get("entity_name", "default") != ""
        assert resource["config"]
        for quota_type, bound in resource["config"].items():
            assert quota_type in TYPES
            assert bound > 0


@given(names)
def test_any_name_is_read_back_as_it_is(name: str) -> None:
    composed = unicodedata.normalize("NFC", name)
    assert pygohcl.loads(f"a = {quoted(name)}") == {"a": composed}
    rendered = render("terraform", [alteration(f"{name}.")], ())
    if rendered.refusals:
        assert composed != name
        assert "NFC" in rendered.refusals[0].reason
    else:
        (resource,) = resources(rendered.text).values()
        assert resource["entity_name"] == f"{name}."


@given(st.lists(names, min_size=2, max_size=2, unique=True))
def test_two_entities_never_share_a_label(pair: list[str]) -> None:
    entities = [e for name in pair for e in ((name, None), (None, name))]
    labels = {label(entity) for entity in [*entities, (DEFAULT, None), (None, DEFAULT)]}
    assert len(labels) == 6 if DEFAULT not in pair else 4


def test_a_name_like_a_digest_has_a_digest_of_its_own() -> None:
    borrowed = label((None, "a b")).removeprefix("client_id_")
    assert label((None, borrowed)) != label((None, "a b"))


def test_values_in_force_stay_in_the_config() -> None:
    text = render("terraform", [alteration("alice")], [value("alice", None, MUTATION, 2.5)]).text
    assert resources(text)["user_alice"]["config"] == {PRODUCER: 100_000, MUTATION: 2.5}


def test_an_entity_that_keeps_nothing_is_removed() -> None:
    parsed = pygohcl.loads(render("terraform", [alteration(None, "etl", after=None)], ()).text)
    assert parsed == {
        "removed": {"from": "kafka_quota.client_id_etl", "lifecycle": {"destroy": True}}
    }
