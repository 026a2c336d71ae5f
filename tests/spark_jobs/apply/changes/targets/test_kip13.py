"""KIP-13's properties, read back by the readers of properties and of overrides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.apply.render import render
from spark_jobs.ingest.quota_sources.java_properties import read_properties
from spark_jobs.whatif.policies.kip13.kip13_config import ConfigKeys
from tests.spark_jobs.apply.changes.fixed_alterations import CONSUMER, PRODUCER, alteration, value

OVERRIDES = {PRODUCER: "quota.producer.override", CONSUMER: "quota.consumer.override"}


def overrides(text: str) -> dict[str, dict[str, int]]:
    properties = {name: p.value for name, p in read_properties(text, "rendered").items()}
    keys = ConfigKeys("kip13", properties)
    # A character beyond U+FFFF is two escapes, as in Java, whose texts are UTF-16.
    return {
        name: {
            client_id.encode("utf-16", "surrogatepass").decode("utf-16"): bound
            for client_id, bound in keys.overrides(name).items()
        }
        for name in properties
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_read_back_as_it_is_or_refused(name: str) -> None:
    rendered = render("kip13", [alteration(None, name, reason=name)], ())
    if rendered.refusals:
        (refusal,) = rendered.refusals
        assert "comma" in refusal.reason
        assert "," in name or name != name.strip() or not name.isprintable()
        assert overrides(rendered.text) == {}
    else:
        assert overrides(rendered.text) == {OVERRIDES[PRODUCER]: {name: 100_000}}
        assert overrides(rendered.rollback) == {OVERRIDES[PRODUCER]: {name: 50_000}}


def test_overrides_in_force_are_in_the_list_and_other_levels_are_not() -> None:
    held = [value(None, "b", PRODUCER), value("u", "c", PRODUCER), value(None, "d", CONSUMER)]
    text = render("kip13", [alteration(None, "a")], held).text
    assert overrides(text) == {OVERRIDES[PRODUCER]: {"a": 100_000, "b": 50_000}}


def test_the_last_override_leaves_an_empty_list() -> None:
    rendered = render("kip13", [alteration(None, "a", after=None)], ())
    assert overrides(rendered.text) == {OVERRIDES[PRODUCER]: {}}
    assert overrides(rendered.rollback) == {OVERRIDES[PRODUCER]: {"a": 50_000}}


@pytest.mark.parametrize("lost", ["a,b", " a", "a\n"])
def test_an_override_in_force_that_cannot_be_listed_refuses_its_kind_only(lost: str) -> None:
    alterations = [alteration(None, "x"), alteration(None, "x", quota_type=CONSUMER)]
    rendered = render("kip13", alterations, [value(None, lost, PRODUCER)])
    (refusal,) = rendered.refusals
    assert (refusal.alteration.quota_type, repr(lost) in refusal.reason) == (PRODUCER, True)
    assert list(overrides(rendered.text)) == [OVERRIDES[CONSUMER]]
