"""Resources of Jikkou, for which no schema of ``spec.configs`` is published."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from spark_jobs.apply.changes.targets.jikkou import API_VERSION
from spark_jobs.apply.render import render
from spark_jobs.quota.codes import DEFAULT
from tests.spark_jobs.apply.changes.fixed_alterations import (
    CONSUMER,
    MUTATION,
    REQUEST,
    alteration,
    value,
)
from tests.spark_jobs.apply.changes.render_cases import CASES


def resources(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document is not None]


@pytest.mark.parametrize("which", ["text", "rollback"])
def test_every_resource_has_the_fields_of_the_documentation(which: str) -> None:
    found = resources(getattr(render(*CASES["jikkou"]), which))
    assert len(found) >= 15
    for resource in found:
        assert (resource["apiVersion"], resource["kind"]) == (API_VERSION, "KafkaClientQuota")
        assert set(resource["spec"]["entity"]) <= {"user", "clientId"}
        configs = resource["spec"].get("configs", {})
        assert set(configs) <= {"producerByteRate", "consumerByteRate", "requestPercentage"}
        is_deleted = resource.get("metadata") == {"annotations": {"jikkou.io/delete": True}}
        assert is_deleted != bool(configs)


@pytest.mark.parametrize(
    ("user", "client_id", "spec"),
    [
        ("a", None, {"type": "USER", "entity": {"user": "a"}}),
        (None, "c", {"type": "CLIENT", "entity": {"clientId": "c"}}),
        ("a", "c", {"type": "USER_CLIENT", "entity": {"user": "a", "clientId": "c"}}),
        ("a", DEFAULT, {"type": "USER_ALL_CLIENTS", "entity": {"user": "a"}}),
        (DEFAULT, None, {"type": "USERS_DEFAULT", "entity": {}}),
        (None, DEFAULT, {"type": "CLIENTS_DEFAULT", "entity": {}}),
    ],
)
def test_every_level_has_jikkous_type(
    user: str | None, client_id: str | None, spec: dict[str, Any]
) -> None:
    (resource,) = resources(render("jikkou", [alteration(user, client_id)], ()).text)
    assert {key: resource["spec"][key] for key in ("type", "entity")} == spec


def test_limits_in_force_stay_and_the_mutation_rate_is_not_jikkous() -> None:
    held = [value("alice", None, CONSUMER, 7.0), value("alice", None, MUTATION, 2.5)]
    (resource,) = resources(render("jikkou", [alteration("alice")], held).text)
    assert resource["spec"]["configs"] == {"producerByteRate": 100_000, "consumerByteRate": 7}
    (resource,) = resources(render("jikkou", [alteration("alice", after=None)], held[1:]).text)
    assert resource["metadata"] == {"annotations": {"jikkou.io/delete": True}}


def test_a_client_of_the_default_user_in_force_refuses_everything() -> None:
    rendered = render("jikkou", [alteration("alice")], [value(DEFAULT, "etl", REQUEST)])
    (refusal,) = rendered.refusals
    assert "every user by default, client-id 'etl'" in refusal.reason
    assert resources(rendered.text)[0]["items"] == []


def test_no_comment_has_a_mark_of_a_template() -> None:
    reason = "{{ values.x }} {% raw %} {# c #}"
    text = render("jikkou", [alteration("alice", reason=reason)], ()).text
    assert not any(mark in text for mark in ("{{", "{%", "{#"))
    assert "values.x" in text
