from __future__ import annotations

import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.kept_files import (
    Acknowledgement,
    read_acknowledgements,
    with_acknowledgement,
)

ONE = Acknowledgement(
    "0123456789012345",
    dt.date(2026, 11, 10),
    dt.date(2026, 12, 1),
    "Orders",
    "moves on Monday",
    "warning",
    12,
)
printable = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Z"]), min_size=1, max_size=60
)


@given(st.lists(st.tuples(printable, printable), max_size=4))
def test_what_is_written_is_read_again(texts: list[tuple[str, str]]) -> None:
    entries = [msgspec.structs.replace(ONE, owner=owner, reason=reason) for owner, reason in texts]
    text = ""
    for entry in entries:
        text = with_acknowledgement(text, "known.yaml", entry)
    assert read_acknowledgements(text, "known.yaml") == entries


def test_an_id_of_digits_only_stays_a_text() -> None:
    text = with_acknowledgement("", "known.yaml", ONE)
    assert read_acknowledgements(text, "known.yaml")[0].finding == ONE.finding


def test_comments_and_order_of_people_stay() -> None:
    text = with_acknowledgement("", "known.yaml", ONE).replace(
        "    owner:", "    # ask Ada first\n    owner:"
    )
    more = with_acknowledgement(text, "known.yaml", ONE)
    assert more.startswith(text)


@pytest.mark.parametrize("text", ["", "  \n", "acknowledged:\n", "acknowledged: []\n"])
def test_an_empty_file_acknowledges_nothing_and_can_be_added_to(text: str) -> None:
    assert read_acknowledgements(text, "known.yaml") == []
    assert read_acknowledgements(with_acknowledgement(text, "k", ONE), "k") == [ONE]


def test_who_was_signed_in_is_kept_and_need_not_be_said() -> None:
    text = with_acknowledgement("", "known.yaml", ONE)
    assert "acknowledged_by" not in text
    by = msgspec.structs.replace(ONE, acknowledged_by="viv")
    assert read_acknowledgements(with_acknowledgement(text, "k", by), "k") == [ONE, by]


def test_none_is_longer_than_is_allowed() -> None:
    assert ONE.within(21) == ONE
    assert ONE.within(20).until == dt.date(2026, 11, 30)
    endless = msgspec.structs.replace(ONE, until=dt.date.max)
    last = msgspec.structs.replace(endless, since=dt.date.max)
    assert last.within(3650) == last
    assert endless.within(3650).until < dt.date(2037, 1, 1)


VALID = with_acknowledgement("", "known.yaml", ONE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("acknowledged: [", "known.yaml is no YAML"),
        ("[" * 500, "known.yaml is no YAML"),
        (VALID.replace("2026-12-01", "2026-02-30"), "known.yaml is no YAML: day is out of range"),
        ("{hunter2", "known.yaml is no YAML: expected ',' or '}', but got '<stream end>', line 1"),
        ("acknowledged:\n- *hunter2", "known.yaml is no YAML: found undefined alias …, line 2"),
        ("- hunter2: 1\n  hunter2: 2", "known.yaml is no YAML: found duplicate key …"),
        ("owners: []", "is not a list named 'acknowledged'"),
        ("acknowledged: {a: 1}", "is not a list named 'acknowledged'"),
        ("- a", "is not a list named 'acknowledged'"),
        ("a: !!python/object/apply:os.getcwd []", "is not a list named 'acknowledged'"),
        ("acknowledged:\n  - 3\n", "line 2: Expected `object`, got `int`"),
        (VALID.replace("2026-12-01", "soon"), "line 5: Expected `date`, got `str` - at `$.until`"),
        (VALID.replace("reason", "why"), "line 5: Object contains unknown field `why`"),
        (VALID.replace("warning", "bad"), "line 5: severity is 'bad', expected one of critical"),
        (VALID.replace("decisions: 12", "decisions: -1"), "line 5: Expected `int` >= 0"),
        (VALID.replace("2026-12-01", "2026-11-01"), "until 2026-11-01 is before since 2026-11-10"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_acknowledgements(text, "known.yaml")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_nothing_is_added_to_a_file_that_cannot_be_read() -> None:
    with pytest.raises(BadInputError):
        with_acknowledgement(VALID.replace("warning", "bad"), "known.yaml", ONE)
