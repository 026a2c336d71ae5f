"""The file that ``rpk cluster quotas import`` reads, in the form of its ``describeResponse``."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from spark_jobs.apply.render import render
from spark_jobs.quota.codes import DEFAULT
from tests.spark_jobs.apply.changes.fixed_alterations import (
    CONSUMER,
    MUTATION,
    PRODUCER,
    REQUEST,
    alteration,
    value,
)
from tests.spark_jobs.apply.changes.render_cases import CASES


def quotas(text: str) -> list[dict[str, Any]]:
    document = yaml.safe_load(text)
    assert set(document) == {"quotas"}
    found = document["quotas"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("which", ["text", "rollback"])
def test_every_quota_has_the_fields_of_rpks_struct(which: str) -> None:
    found = quotas(getattr(render(*CASES["rpk"]), which))
    assert len(found) >= 12
    for quota in found:
        assert set(quota) == {"entity", "values"}
        for part in quota["entity"]:
            assert set(part) == {"name", "type"}
            assert isinstance(part["name"], str)
            assert part["type"] in {"user", "client-id"}
        for held in quota["values"]:
            assert held["key"] in {PRODUCER, CONSUMER, MUTATION}
            assert isinstance(held["value"], str)
            assert int(held["value"]) > 0


def test_what_is_in_force_stays_in_the_file() -> None:
    held = [value("bob", None, CONSUMER, 7.0)]
    text = render("rpk", [alteration("alice")], held).text
    assert quotas(text) == [
        {"entity": [{"name": "alice", "type": "user"}],
         "values": [{"key": PRODUCER, "value": "100000"}]},
        {"entity": [{"name": "bob", "type": "user"}],
         "values": [{"key": CONSUMER, "value": "7"}]},
    ]  # fmt: skip


def test_a_default_has_an_empty_name() -> None:
    (quota,) = quotas(render("rpk", [alteration(DEFAULT, "etl")], ()).text)
    assert quota["entity"] == [{"name": "etl", "type": "client-id"}, {"name": "", "type": "user"}]


@pytest.mark.parametrize(
    ("quota_type", "bound"), [(REQUEST, 50.0), (MUTATION, 2.5), (PRODUCER, 0.0)]
)
def test_a_value_in_force_that_would_be_lost_makes_the_file_unreadable(
    quota_type: str, bound: float
) -> None:
    lost = [value("bob", None, quota_type, bound)]
    (refusal,) = render("rpk", [alteration("alice")], lost).refusals
    assert f"{quota_type} of user 'bob'" in refusal.reason
    # Also with nothing to change: a list, even an empty one, would delete what it lacks.
    for alterations in ([alteration("alice")], []):
        document = yaml.safe_load(render("rpk", alterations, lost).text)
        assert isinstance(document["quotas"], str)
