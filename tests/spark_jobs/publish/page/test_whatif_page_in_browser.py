from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from spark_jobs.publish.publish_report import publish_whatif
from tests.builders.day_builder import HOSTILE
from tests.builders.opened_page import SIZES, opened
from tests.builders.tables_builder import scope_in
from tests.spark_jobs.publish.page.whatif_builder import POLICIES, three_policies

pytestmark = pytest.mark.browser


def published(folder: Path) -> Path:
    """Return a page of many clients with long and hostile names, some of them harmed."""
    rows = [
        row | {"mode": mode, "harmed_requests": 1, "waiting": 1.0, "taken_back": 1.0}
        for mode in ("as_logged", "closed_loop")
        for n in range(20)
        for row in three_policies(user=f"{HOSTILE}{'x' * 300}{n}", harm_time_ms=100 * n)
    ]
    return publish_whatif(scope_in(folder), rows, POLICIES)


@pytest.mark.parametrize(
    ("size", "scheme"), [("desktop", "light"), ("phone", "dark"), ("desktop", "dark")]
)
def test_the_page_opens_without_a_complaint_a_request_or_sideways_scrolling(
    browser: Browser, tmp_path: Path, size: str, scheme: str
) -> None:
    page, noticed = opened(browser, published(tmp_path), size, scheme)
    assert noticed == []
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.locator("figure > svg").count() == 10
    assert page.locator("figure > svg").first.bounding_box()["height"] > 60
    page.context.close()


def test_a_wide_table_scrolls_inside_itself_and_keeps_the_policy_in_sight(
    browser: Browser, tmp_path: Path
) -> None:
    page, _ = opened(browser, published(tmp_path), "phone", "light")
    scroller = page.locator("#all .scroll").first
    assert scroller.evaluate("s => s.scrollWidth > s.clientWidth")
    name = scroller.locator("tbody th").first
    before = name.bounding_box()["x"]
    scroller.evaluate("s => { s.scrollLeft = 200 }")
    assert scroller.evaluate("s => s.scrollLeft") == 200
    assert name.bounding_box()["x"] == before
    page.context.close()


def test_on_paper_the_configuration_is_not_folded_away(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, published(tmp_path), "desktop", "light")
    configuration = page.locator("header pre").first
    assert not configuration.is_visible()
    page.emulate_media(media="print")
    assert configuration.is_visible()
    page.context.close()
