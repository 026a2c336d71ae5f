from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from spark_jobs.publish.facts.whatif import replays_of
from spark_jobs.publish.page.whatif_page import ClientPictures, client_pictures
from tests.builders.page_elements import PageElements
from tests.builders.tables_builder import Row
from tests.spark_jobs.publish.page.whatif_builder import delayed, quiet, refused, three_policies


def drawn(rows: Sequence[Row], pictures_max: int = 10) -> ClientPictures:
    return client_pictures(rows, replays_of(rows, ["now", "strict", "lossy"]), pictures_max)


def words(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", svg)


def test_every_policy_has_its_name_and_its_seconds_at_its_bar() -> None:
    (picture,) = drawn(three_policies()).pictures
    assert words(picture.svg) == ["now", "0 s", "strict", "5.0 s", "lossy", "0 s"]


def test_the_brokers_of_a_client_are_one_picture() -> None:
    rows = [delayed("now", 1000, broker_id=2), delayed("now", 250), quiet("now", broker_id=3)]
    (picture,) = drawn(rows).pictures
    assert words(picture.svg) == ["now", "1.2 s"]
    assert picture.where == "Produce, brokers 1, 2"


def test_a_policy_that_did_not_decide_on_a_client_has_no_bar() -> None:
    rows = [delayed("now", client_id="a"), quiet("strict", client_id="b")]
    (picture,) = drawn(rows).pictures
    assert words(picture.svg) == ["now", "5.0 s"]


def test_those_throttled_longest_under_any_policy_are_drawn() -> None:
    rows = [
        row
        for n in range(5)
        for row in (delayed("now", 10 * n, client_id=str(n)), quiet("strict", client_id=str(n)))
    ]
    found = drawn(rows, pictures_max=2)
    assert [p.client.split("'")[3] for p in found.pictures] == ["4", "3"]
    assert found.clients_total == 4


def test_where_nobody_is_throttled_there_is_nothing_to_draw() -> None:
    found = drawn([quiet(), refused()])
    assert (found.pictures, found.clients_total) == ((), 0)


def test_what_is_waited_for_others_is_hatched() -> None:
    plain = drawn([delayed()])
    harmed = drawn([delayed(harm_time_ms=2000, harmed_requests=1)])
    assert (plain.has_harm, harmed.has_harm) == (False, True)
    assert "<pattern" not in plain.pictures[0].svg
    assert "<pattern" in harmed.pictures[0].svg
    assert "5.000 s, 2.000 s of it for others" in harmed.pictures[0].svg


def test_modes_are_named_where_there_are_two() -> None:
    rows = [delayed("now"), delayed("now", 900, mode="closed_loop")]
    (picture,) = drawn(rows).pictures
    assert words(picture.svg) == ["as logged", "now", "5.0 s", "closed loop", "now", "0.9 s"]
    label = "as logged: now 5.000 s; closed loop: now 0.900 s."
    assert label in PageElements(picture.svg).attributes("aria-label")[0]


@pytest.mark.parametrize("label", ["$x_1$", "クォータ", "<b>&amp;", "0.125 of #010101", "a\u202eb"])
def test_a_label_is_never_a_formula_or_markup_and_needs_no_glyphs(label: str) -> None:
    (picture,) = drawn([delayed(label)]).pictures
    shown = label.replace("\u202e", "\\u202e")
    assert PageElements(picture.svg).text == f"{shown} 5.0 s"


def test_a_long_label_is_cut() -> None:
    (picture,) = drawn([delayed("x" * 300)]).pictures
    assert len(words(picture.svg)[0]) == 26


def test_colours_are_names_that_the_page_decides() -> None:
    (picture,) = drawn([delayed(harm_time_ms=2000, harmed_requests=1)]).pictures
    assert {"var(--rate)", "var(--over)"} <= set(re.findall(r"var\(--\w+\)", picture.svg))
    assert re.findall(r"#0[1-6]0[1-6]0[1-6]|#[0-9a-f]{6}\b(?=[;\"])", picture.svg) == []


def test_no_id_of_one_picture_is_one_of_another() -> None:
    harm = {"harm_time_ms": 2000, "harmed_requests": 1}
    found = drawn([delayed(client_id=str(n), **harm) for n in range(3)])
    ids = [one for p in found.pictures for one in PageElements(p.svg).attributes("id")]
    assert len(ids) == len(set(ids)) > 0
