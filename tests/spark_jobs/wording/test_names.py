from __future__ import annotations

import doctest
import importlib
import json
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import wording as room
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.ingest.read_logs import UNREADABLE_FILE
from spark_jobs.publish.facts.findings import evidence_items
from spark_jobs.quota.codes import FINDING_KINDS as KINDS
from spark_jobs.quota.codes import VERDICTS
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.verdicts import verdicts
from spark_jobs.wording import names
from spark_jobs.wording.names import REASONS, entity_name, in_words
from spark_jobs.wording.numbers import byte_step, duration, rate, share, time_of_day
from spark_jobs.wording.visible_text import shortened, visible
from tests.builders.tables_builder import DAY, NOON_MS

MODULES = sorted(module.name for module in pkgutil.iter_modules(room.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    module = importlib.import_module(f"{room.__name__}.{name}")
    failed, tried = doctest.testmod(module)
    assert failed == 0, f"{failed} of {tried} examples of {name} fail"


@given(st.text())
def test_no_name_reaches_the_page_with_a_character_nobody_sees(name: str) -> None:
    assert visible(name).isprintable()


@given(st.text(), st.integers(10, 200))
def test_a_shortened_name_keeps_its_length_and_both_ends(name: str, length_max: int) -> None:
    short = shortened(name, length_max)
    assert len(short) <= max(length_max, 0)
    assert (short[:3], short[-2:]) == (name[:3], name[-2:])


def test_two_names_that_differ_only_in_a_hidden_character_look_different() -> None:
    assert entity_name("bob", None) != entity_name("bob\u200b", None)


def test_a_code_nobody_described_is_readable() -> None:
    assert in_words("some_new_reason", REASONS) == "some new reason"


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_share_says_none_or_all_only_where_it_is_so(part: int, rest: int) -> None:
    assert share(part, part + rest) not in ("0 %", "100 %", "0.0 %", "100.0 %")


@given(st.floats(1.0, 1e15))
def test_a_byte_rate_is_a_number_people_can_read(value: float) -> None:
    divisor, _ = byte_step(value)
    assert 0.999 <= value / divisor < 1000 or divisor == 1e12


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (59_960, "1 min"), (3_599_600, "1 h"), (200_000_000, "2 d 8 h"), (None, "–")],
)
def test_durations_never_show_sixty_of_a_unit(milliseconds: float | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_a_time_of_another_day_names_it() -> None:
    assert time_of_day(NOON_MS, DAY) == "12:00:00"
    assert time_of_day(NOON_MS - 86_400_000, DAY) == "2026-11-09 12:00:00"


def test_there_is_a_dash_where_there_is_no_number() -> None:
    assert rate(None, "producer_byte_rate") == rate(float("nan"), "producer_byte_rate") == "–"


@pytest.mark.parametrize("text", ["[1, 2]", "not json", '"text"'])
def test_evidence_that_is_no_object_is_shown_as_it_is(text: str) -> None:
    assert evidence_items(text) == (("evidence", text),)


def test_evidence_spells_out_hidden_characters() -> None:
    assert evidence_items('{"na\u202eme": ["\u202e"]}') == (("na\\u202eme", '["\\u202e"]'),)


def test_each_object_of_a_list_is_a_line_and_lengths_of_time_are_readable() -> None:
    brokers = [{"broker_id": 1, "throttle_time_ms_before": 61_000, "throttle_time_ms_after": None}]
    assert evidence_items(json.dumps({"brokers": brokers, "seen": []})) == (
        ("brokers 1", "broker id 1, throttle time before 1 min 1 s, throttle time after –"),
        ("seen", "[]"),
    )


def test_a_long_list_is_cut_and_says_how_much_is_left_out() -> None:
    items = evidence_items(json.dumps({"clients": [{"n": n} for n in range(25)]}))
    assert (len(items), items[-1]) == (11, ("clients", "and 15 more"))


INDETERMINATE_REASONS = {
    value
    for name, value in vars(verdicts).items()
    if name.isupper() and isinstance(value, str) and name != "THROTTLED_WITHOUT_QUOTA"
}


@pytest.mark.parametrize(
    ("written", "described"),
    [
        (INDETERMINATE_REASONS, names.REASONS),
        ({*Reason, UNREADABLE_FILE}, names.QUARANTINE_REASONS),
        (set(RateProfile), names.RATE_PROFILES),
        (set(VERDICTS), names.VERDICTS),
        (set(KINDS), names.FINDING_KINDS),
    ],
    ids=["reasons", "quarantine", "profiles", "verdicts", "kinds"],
)
def test_every_code_that_is_written_has_its_words(
    written: set[str], described: dict[str, str]
) -> None:
    assert {str(code) for code in written} <= set(described)
