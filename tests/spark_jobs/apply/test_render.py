"""What holds for every target: golden files, refusals, and that nothing is lost on the way."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

from spark_jobs.apply.changes.quota_alteration import (
    QuotaAlteration,
    QuotaValue,
    altered,
    quota_set,
)
from spark_jobs.apply.changes.wording import change_sentence
from spark_jobs.apply.render import TARGETS, render
from spark_jobs.cli.print_changes import refusal_line
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES
from tests.spark_jobs.apply.changes.fixed_alterations import (
    CONSUMER,
    MUTATION,
    PRODUCER,
    REQUEST,
    alteration,
    value,
)
from tests.spark_jobs.apply.changes.quota_models import AFTER
from tests.spark_jobs.apply.changes.render_cases import CASES

GOLDEN = Path(__file__).parents[2] / "golden" / "render"
each_target = pytest.mark.parametrize("target", TARGETS)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("file", ["apply", "rollback", "refusals"])
def test_the_fixed_alterations_render_as_the_golden_files(case: str, file: str) -> None:
    rendered = render(*CASES[case])
    refusals = "".join(f"{refusal_line(refusal)}\n" for refusal in rendered.refusals)
    found = {"apply": rendered.text, "rollback": rendered.rollback, "refusals": refusals}[file]
    golden = (GOLDEN / case / file).read_text(encoding="utf-8")
    lines = (text.splitlines(keepends=True) for text in (golden, found))
    difference = "".join(difflib.unified_diff(*lines, f"golden {case}/{file}", "rendered", n=1))
    assert not difference, f"\n{difference}"


def test_every_target_has_golden_files_and_no_other_has() -> None:
    assert set(TARGETS) <= set(CASES)
    assert {folder.name for folder in GOLDEN.iterdir()} == set(CASES)


def test_an_unknown_target_is_refused_by_name() -> None:
    with pytest.raises(BadInputError, match=r"'helm' is not one of kafka-configs, .*kip13"):
        render("helm", [], [])


@each_target
def test_without_proposals_the_document_is_valid_and_says_so(target: str) -> None:
    held = [value("alice", None, PRODUCER)]
    rendered = render(target, [], held)
    assert rendered.refusals == ()
    says_so = '"entries": []' if target == "admin-json" else "No change is proposed."
    for text in (rendered.text, rendered.rollback):
        assert says_so in text
        if target in AFTER:
            assert AFTER[target](quota_set(held), text, ()) == quota_set(held)


USER, CLIENT, PAIR = ("a", None), (None, "c"), ("a", "c")
DEFAULTS = [(DEFAULT, None), (None, DEFAULT)]
PAIRS = [PAIR, ("a", DEFAULT), (DEFAULT, "c"), (DEFAULT, DEFAULT)]
LEVELS = [USER, CLIENT, *DEFAULTS, *PAIRS]
EXPRESSED = {
    "kafka-configs": {(level, t) for level in LEVELS for t in QUOTA_TYPES},
    "admin-json": {(level, t) for level in LEVELS for t in QUOTA_TYPES},
    "strimzi": {(USER, t) for t in QUOTA_TYPES},
    "jikkou": {
        (level, t)
        for level in LEVELS
        if level not in PAIRS[2:]
        for t in QUOTA_TYPES
        if t != MUTATION
    },
    "terraform": {(level, t) for level in (USER, CLIENT, *DEFAULTS) for t in QUOTA_TYPES},
    "rpk": {(level, t) for level in LEVELS for t in QUOTA_TYPES if t != REQUEST},
    "kip13": {(CLIENT, PRODUCER), (CLIENT, CONSUMER)},
}


@each_target
def test_levels_and_types_are_refused_as_the_matrix_says(target: str) -> None:
    for level in LEVELS:
        for quota_type in QUOTA_TYPES:
            one = alteration(*level, quota_type=quota_type, before=None)
            is_refused = bool(render(target, [one], ()).refusals)
            assert is_refused != ((level, quota_type) in EXPRESSED[target]), (level, quota_type)


@each_target
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": 0.0}, "above 0"),
        ({"after": -1.0}, "above 0"),
        ({"after": float("inf")}, "above 0"),
        ({"after": 0.5}, "whole bytes"),
        ({"after": 2.0**64}, "2^63"),
        ({"before": 0.0}, "taken back to is 0"),
        ({"before": None, "after": None}, "no value before or after"),
    ],
)
def test_what_kafka_does_not_set_no_target_writes(
    target: str, change: dict[str, float | None], words: str
) -> None:
    entity = (None, "c") if target == "kip13" else ("a", None)
    (refusal,) = render(target, [alteration(*entity, **change)], ()).refusals
    assert words in refusal.reason


@each_target
def test_a_refusal_is_a_sentence_of_one_line(target: str) -> None:
    refusals = render(*CASES.get(f"{target}-none", CASES[target])).refusals
    assert len(refusals) >= 5
    for refusal in refusals:
        assert refusal.reason.endswith(".")
        assert refusal_line(refusal).isprintable()


@each_target
def test_a_name_of_nothing_is_refused(target: str) -> None:
    for nameless in (alteration(None, None), alteration("", "c"), alteration("")):
        assert len(render(target, [nameless], ()).refusals) == 1


PARTS = st.sampled_from(
    [None, DEFAULT, "a", "CN=a", "b b", "c,d", "{{e}}", "f\ng", "grün", "e\u0301"]
)
BOUNDS = st.sampled_from([None, 1.0, 10.0, 2.5, 0.0, 5e4, 2.0**31, 2.0**63, 1e300])
TYPES = st.sampled_from(QUOTA_TYPES)
ANY = st.builds(QuotaAlteration, TYPES, PARTS, PARTS, BOUNDS, BOUNDS, st.just("Why."))
ANY_VALUE = st.builds(QuotaValue, TYPES, PARTS, PARTS, st.sampled_from([1.0, 3.0, 2.5]))


def expressed(target: str) -> st.SearchStrategy[QuotaAlteration]:
    """Return alterations that a target expresses, unless something in force forbids it."""
    bounds = st.sampled_from([None, 1.0, 10.0, 5e4])
    kinds = st.sampled_from(sorted(EXPRESSED[target], key=str))
    return st.builds(
        lambda kind, before, after: QuotaAlteration(kind[1], *kind[0], before, after, "Why."),
        kinds,
        bounds,
        bounds,
    )


def in_force_with(others: list[QuotaValue], changes: list[QuotaAlteration]) -> list[QuotaValue]:
    """Return a cluster that holds what the alterations' ``before`` says, and the other values."""
    held = {
        (v.quota_type, v.user, v.client_id): v
        for v in others
        if (v.user, v.client_id) != (None, None)
    }
    for change in reversed(changes):
        key = (change.quota_type, *change.entity)
        held.pop(key, None)
        if change.before is not None and any(change.entity):
            held[key] = QuotaValue(*key, change.before)
    return list(held.values())


@each_target
@given(st.data())
@settings(max_examples=40)
def test_every_alteration_is_in_the_text_or_refused_and_the_rollback_is_the_inverse(
    target: str, data: st.DataObject
) -> None:
    changes = data.draw(st.lists(st.one_of(ANY, expressed(target), expressed(target)), max_size=6))
    others = data.draw(st.lists(ANY_VALUE, max_size=2))
    in_force = in_force_with(others, changes)
    rendered = render(target, changes, in_force)
    written = list(changes)
    for refusal in rendered.refusals:
        written.remove(refusal.alteration)
    event(f"{target}: {'some' if written else 'none'} written")
    if target in AFTER and readable(target, rendered.text):
        names = {change.entity for change in written}
        before = quota_set(in_force)
        after = altered(before, written)
        assert AFTER[target](before, rendered.text, names) == after
        assert AFTER[target](after, rendered.rollback, names) == before
    elif target in AFTER:
        assert written == []
    for change in written:
        said = change.quota_type if target == "admin-json" else change_sentence(change)
        assert said in rendered.text


def readable(target: str, text: str) -> bool:
    return target != "rpk" or not isinstance(yaml.safe_load(text)["quotas"], str)


@pytest.mark.parametrize("which", ["before", "after", "in force"])
def test_what_no_java_long_holds_is_no_override_of_kip13(which: str) -> None:
    change = alteration(None, "c", **({} if which == "in force" else {which: 2.0**63}))
    others = [value(None, "d", PRODUCER, 2.0**63)] if which == "in force" else []
    rendered = render("kip13", [change], others)
    (refusal,) = rendered.refusals
    assert "is a Java long" in refusal.reason


@each_target
def test_before_wins_over_what_is_said_to_be_in_force(target: str) -> None:
    entity = (None, "c") if target == "kip13" else ("a", None)
    other = [value(*entity, PRODUCER, 7.0)]
    change = alteration(*entity, before=50_000.0)
    assert render(target, [change], other) == render(target, [change], ())


def test_the_same_input_renders_the_same_text() -> None:
    for case in CASES.values():
        target, changes, held = case
        assert render(target, changes, held[::-1]) == render(target, changes, held)
