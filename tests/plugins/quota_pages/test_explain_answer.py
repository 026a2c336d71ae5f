"""The page that explains a request: its form, its answer, and what strangers put into names."""

from __future__ import annotations

from pathlib import Path

import pytest

from quota_pages import explain_page
from quota_pages.addresses import Addresses
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.spark_jobs.recommend.day import produces, steady

HOSTILE = "<script>alert('1')</script>\u202e\"&\n../"
BUSY = produces(
    steady(80_000.0, 20), 50_000.0, waits=True, user=HOSTILE, quota_user=HOSTILE, client_id=HOSTILE
)


def answer(warehouse: Path, form: dict[str, str]) -> tuple[str, int]:
    return explain_page.explain_answer(warehouse, form, Addresses("/quota-audit"))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    scope = scope_in(tmp_path)
    write_rows(scope, "decisions", BUSY)
    write_rows(scope, "brokers", [row("brokers", broker_id=1)])
    return tmp_path


def test_without_a_question_it_is_the_form(warehouse: Path) -> None:
    page, status = answer(warehouse, {"cluster": "east", "junk": "x"})
    assert status == 200
    assert '<input name="cluster" value="east"' in page
    assert 'id="answer"' not in page
    assert 'action="/quota-audit/explain"' in page


def test_the_answer_stands_below_what_was_asked_and_names_are_text(warehouse: Path) -> None:
    page, status = answer(warehouse, {"user": HOSTILE, "at": "12:00:10"})
    assert status == 200
    assert "<script" not in page
    assert "\u202e" not in page.replace("value=", "", 1).split("</form>")[1]
    assert "PRODUCE of user &#39;&lt;script&gt;" in page
    assert "The broker then held:" in page
    assert 'name="at" value="12:00:10"' in page


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"user": "nobody"}, "is about user &#39;nobody&#39;"),
        ({"user": "x", "broker": "one"}, "expected the number of a broker"),
        ({"user": "x", "day": "today"}, "expected one like 2026-11-21"),
        ({"user": "x", "cluster": "../.."}, "there is none of such a name"),
        ({"user": "x", "cluster": "other"}, "the days there are: none"),
        ({"line": HOSTILE}, "expected a file of the archive and a line number"),
        ({"client_id": "x" * 70_000}, "is about client_id"),
    ],
)
def test_a_question_without_an_answer_is_told_so(
    warehouse: Path, form: dict[str, str], words: str
) -> None:
    page, status = answer(warehouse, form)
    assert status == 400
    assert words in page
    assert "<script" not in page
