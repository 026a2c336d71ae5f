"""Patches of KafkaUser resources, by the published schema and by Strimzi's own class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from spark_jobs.apply.changes.targets.strimzi import resource_name
from spark_jobs.apply.render import render
from tests.oracle.jars import maven_jar, run_java
from tests.spark_jobs.apply.changes.fixed_alterations import (
    ALTERATIONS,
    IN_FORCE,
    MUTATION,
    REQUEST,
    alteration,
    value,
)

PROGRAM = Path(__file__).parent / "StrimziQuotas.java"
# The last one whose class files a Java 17 reads; KafkaUserQuotas is the same in 1.2.0.
STRIMZI, JACKSON = "0.51.0", "2.16.2"

# As spec.quotas of KafkaUser, version v1, is defined by 044-Crd-kafkauser.yaml of Strimzi 1.2.0. An
# unknown field is no error to Kubernetes, which leaves it out: here it is one.
_WHOLE, _FRACTION = {"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0}
KAFKA_USER = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kafka.strimzi.io/v1"},
        "kind": {"const": "KafkaUser"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {
            "type": "object",
            "properties": {
                "quotas": {
                    "type": "object",
                    "properties": {
                        "producerByteRate": _WHOLE,
                        "consumerByteRate": _WHOLE,
                        "requestPercentage": _WHOLE,
                        "controllerMutationRate": _FRACTION,
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
}


def patches(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document is not None]


def merged(target: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a resource (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    held = dict(target) if isinstance(target, dict) else {}
    for key, part in patch.items():
        held.pop(key, None) if part is None else held.update({key: merged(held.get(key), part)})
    return held


def patched(text: str) -> list[dict[str, Any]]:
    users = [{"spec": {"quotas": {"producerByteRate": 1}}, "metadata": {"labels": {}}}]
    return [merged(user, patch) for patch in patches(text) for user in users]


@pytest.mark.parametrize("which", ["text", "rollback"])
def test_what_a_patch_makes_of_a_user_is_as_the_schema_wants_it(which: str) -> None:
    text = getattr(render("strimzi", ALTERATIONS, IN_FORCE), which)
    users = patched(text)
    assert len(users) == 4
    for user in users:
        jsonschema.validate(user, KAFKA_USER)


@pytest.mark.jvm
def test_strimzis_own_class_holds_what_is_rendered_and_not_what_is_refused() -> None:
    rendered = render("strimzi", ALTERATIONS, IN_FORCE)
    quotas = [
        user["spec"]["quotas"] for t in (rendered.text, rendered.rollback) for user in patched(t)
    ]
    refused = [{"producerByteRate": 2**31}]
    jackson = [
        maven_jar(f"com.fasterxml.jackson.core:jackson-{part}:{JACKSON}")
        for part in ("databind", "core", "annotations")
    ]
    jars = [maven_jar(f"io.strimzi:api:{STRIMZI}"), *jackson]
    stdin = "\n".join(json.dumps(q) for q in [*quotas, *refused])
    said = [json.loads(line) for line in run_java(PROGRAM, jars, stdin=stdin).splitlines()]
    assert said[: len(quotas)] == quotas
    assert "out of range of int" in said[-1]


def test_each_document_can_be_split_off_at_its_first_line() -> None:
    text = render("strimzi", ALTERATIONS, IN_FORCE).text
    pieces = text.split("---\n")
    assert pieces[0] == ""
    assert all(len(patches(piece)) == 1 for piece in pieces[1:])


def test_values_in_force_stay_and_removed_ones_are_null() -> None:
    unused = alteration("bob", quota_type=REQUEST, before=50.0, after=None)
    (patch,) = patches(render("strimzi", [unused], [value("bob", None, MUTATION, 2.5)]).text)
    assert patch["spec"]["quotas"] == {"requestPercentage": None, "controllerMutationRate": 2.5}


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("alice", "alice"),
        ("CN=alice", "alice"),
        ("svc.orders-1", "svc.orders-1"),
        ("a" * 253, "a" * 253),
        ("a" * 254, None),
        ("CN=" + "a" * 65, None),
        ("Alice", None),
        ("ANONYMOUS", None),
        ("a_b", None),
        ("-a", None),
        ("a.", None),
        ("CN=a,O=b", None),
        ("alice\n", None),
        ("CN=", None),
    ],
)
def test_only_names_of_kubernetes_are_names_of_its_users(user: str, name: str | None) -> None:
    assert resource_name(user) == name


def test_two_users_of_one_resource_name_are_both_refused() -> None:
    both = [alteration("alice"), alteration("CN=alice")]
    rendered = render("strimzi", both, ())
    assert [r.alteration for r in rendered.refusals] == both
    assert all("either the user" in r.reason for r in rendered.refusals)


def test_a_value_in_force_that_no_resource_holds_refuses_its_user_only() -> None:
    held = [value("alice", None, REQUEST, 12.5)]
    rendered = render("strimzi", [alteration("alice"), alteration("bob")], held)
    (refusal,) = rendered.refusals
    assert (refusal.alteration.user, "12.5" in refusal.reason) == ("alice", True)
    assert [p["metadata"]["name"] for p in patches(rendered.text)] == ["bob"]
