from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.apply.changes.change_key import (
    change_key,
    change_key_with_values,
    chosen_changes,
    entity_path,
    parse_selection,
)
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
parts = st.tuples(st.none() | names, st.none() | names).filter(any)


def change(quota_type: str, user: str | None, client_id: str | None) -> QuotaAlteration:
    return QuotaAlteration(quota_type, user, client_id, 1.0, 2.0)


@given(st.sampled_from(QUOTA_TYPES), parts)
def test_a_change_is_found_again_by_its_name_and_no_other_is(
    quota_type: str, entity: tuple[str | None, str | None]
) -> None:
    wanted = change(quota_type, *entity)
    selection = parse_selection(change_key(wanted))
    assert selection.covers(wanted)
    others = [change(t, *entity) for t in QUOTA_TYPES if t != quota_type]
    others.append(change(quota_type, f"{entity[0] or ''}x", entity[1]))
    assert not any(selection.covers(other) for other in others)


@given(parts)
def test_an_entity_stands_for_all_its_quota_types(entity: tuple[str | None, str | None]) -> None:
    selection = parse_selection(entity_path(*entity))
    assert all(selection.covers(change(quota_type, *entity)) for quota_type in QUOTA_TYPES)


@given(parts)
def test_a_name_is_one_plain_word(entity: tuple[str | None, str | None]) -> None:
    name = entity_path(*entity)
    assert name.isascii()
    assert name.isprintable()
    assert not set(name.replace(DEFAULT, "")) & set(" \"'$`\\;&|*?<>()[]{}!#\n\t")


def test_names_are_written_as_kafka_keeps_them() -> None:
    assert entity_path("alice", "etl") == "users/alice/clients/etl"
    assert entity_path(DEFAULT, DEFAULT) == "users/<default>/clients/<default>"
    assert entity_path(None, "a/b c:d") == "clients/a%2Fb%20c%3Ad"


def test_an_unusual_name_may_be_typed_as_it_is() -> None:
    selection = parse_selection("users/CN=alice,O=a b:c:producer_byte_rate")
    assert selection.covers(change("producer_byte_rate", "CN=alice,O=a b:c", None))


@pytest.mark.parametrize(
    "text", ["", "alice", "user/alice", "users/", "clients/", "clients/x/users/y", "users/a/b/c",
             "users/a/clients/b/x", ":producer_byte_rate"]
)  # fmt: skip
def test_what_names_no_entity_is_refused_and_the_form_is_shown(text: str) -> None:
    with pytest.raises(BadInputError, match=r"names no quota entity: expected users/NAME"):
        parse_selection(text)


@given(parts, st.none() | st.floats(0, 1e18), st.none() | st.floats(0, 1e18))
def test_a_change_with_its_values_is_that_very_one(
    entity: tuple[str | None, str | None], before: float | None, after: float | None
) -> None:
    wanted = QuotaAlteration("producer_byte_rate", *entity, before, after)
    chosen = parse_selection(change_key_with_values(wanted))
    assert chosen_changes([wanted], [chosen]) == [wanted]
    for other in (replace(wanted, before=7e18), replace(wanted, after=7e18)):
        with pytest.raises(BadInputError, match=r"^Nothing was changed: proposed is .* by now"):
            chosen_changes([other], [chosen])


def test_without_a_selection_everything_is_chosen() -> None:
    changes = [change("producer_byte_rate", "alice", None)]
    assert chosen_changes(changes, []) == changes


def test_the_chosen_stay_in_their_order() -> None:
    changes = [change("producer_byte_rate", name, None) for name in "abc"]
    selections = [parse_selection("users/c"), parse_selection("users/a")]
    assert [c.user for c in chosen_changes(changes, selections)] == ["a", "c"]


def test_a_selection_of_nothing_is_refused_and_says_what_there_is() -> None:
    changes = [change("producer_byte_rate", "alice", None)]
    with pytest.raises(BadInputError, match=r"for users/bob; what is: users/alice:producer_byte"):
        chosen_changes(changes, [parse_selection("users/bob")])
    with pytest.raises(BadInputError, match="what is: nothing"):
        chosen_changes([], [parse_selection("users/bob:request_percentage")])
