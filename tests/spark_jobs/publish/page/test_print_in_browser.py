"""The report on paper: one first page for people who read only that, then the detail."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pypdf import PdfReader

from spark_jobs.publish.publish_report import publish_report
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import HOSTILE, busy_day, empty_day, quiet_day
from tests.builders.opened_page import opened
from tests.builders.tables_builder import row, write_rows

pytestmark = pytest.mark.browser
FIRST_PAGE = (
    "How exact", "Findings", "Throttled most", "Proposed", "Data quality", "Not checked",
    "The detail follows on the next pages.",
)  # fmt: skip
# As long as a client-id can be: one word, and many.
LONG = "x" * 65_536
MANY_WORDS = HOSTILE + "Ж w" * 20_000
# Of the three parts of the first page: how much of each is cut off.
CUT_OFF = """() => [".page-head", ".answer", ".digest"]
  .map(name => document.querySelector(name)).map(e => e.scrollHeight - e.clientHeight)"""


def crowded_day(warehouse: Path, name: str) -> RunScope:
    """Write a day with more of everything than a page holds, all of it with long names."""
    scope = busy_day(warehouse, user=name, clients=20)
    # The whole name once, for the detail shows it whole; the others are as long as a page shows.
    said = [f"Broker 1 throttled {name}.", *(f"{n} {name}"[:400] for n in range(8))]
    findings = [row("findings", finding_id=f"f{n}", explanation=said[n]) for n in range(9)]
    write_rows(scope, "findings", findings)
    write_rows(
        scope, "recommendations",
        [row("recommendations", quota_user=f"{n}{name}") for n in range(9)],
    )  # fmt: skip
    return scope


def printed(browser: Browser, scope: RunScope, paper: str) -> list[str]:
    """Return the text of the first two pages, blanks taken together."""
    page, noticed = opened(browser, publish_report(scope), "desktop", "dark")
    reader = PdfReader(io.BytesIO(page.pdf(format=paper)))
    assert noticed == []
    page.context.close()
    # The page's number comes first.
    return [
        " ".join(each.extract_text().split()).removeprefix(f"{number} ")
        for number, each in enumerate(reader.pages[:2], start=1)
    ]


@pytest.mark.parametrize(
    ("paper", "name"), [("A4", "alice"), ("Letter", "alice"), ("A4", LONG), ("Letter", MANY_WORDS)]
)
def test_the_first_page_is_one_page_and_the_detail_begins_on_the_second(
    browser: Browser, tmp_path: Path, paper: str, name: str
) -> None:
    first, second = printed(browser, crowded_day(tmp_path, name), paper)
    assert first.startswith("KAFKA QUOTA AUDIT default, 2026-11-10")
    assert [text for text in FIRST_PAGE if text not in first] == []
    assert "and 6 more" in first.partition("Throttled most")[0]
    assert "and 15 more" in first
    assert "and 6 more" in first.partition("Proposed")[2]
    assert second.startswith("Findings 9")


@pytest.mark.parametrize("day", [quiet_day, empty_day])
def test_a_day_without_findings_has_a_first_page_too(
    browser: Browser, tmp_path: Path, day: object
) -> None:
    first, second = printed(browser, day(tmp_path), "A4")  # type: ignore[operator]
    assert [text for text in FIRST_PAGE if text not in first] == []
    assert second.startswith("Findings None.")


@pytest.mark.parametrize("name", ["alice", LONG, MANY_WORDS])
def test_nothing_on_the_first_page_is_cut_off(browser: Browser, tmp_path: Path, name: str) -> None:
    page, _ = opened(browser, publish_report(crowded_day(tmp_path, name)), "desktop", "dark")
    page.emulate_media(media="print")
    # Letter's width less its margins, at 96 pixels an inch.
    page.set_viewport_size({"width": 718, "height": 950})
    assert page.evaluate(CUT_OFF) == [0, 0, 0]
    page.context.close()


def test_on_screen_nothing_is_said_twice(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, publish_report(busy_day(tmp_path)), "desktop", "light")
    assert not page.locator(".digest").is_visible()
    for text in ("Throttled most", "Not checked"):
        assert not page.get_by_text(text).first.is_visible()
    page.context.close()
