from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from spark_jobs.publish.publish_report import publish_report
from tests.builders.day_builder import HOSTILE, busy_day, empty_day
from tests.builders.opened_page import SIZES, opened

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_report_opens_without_a_complaint_a_request_or_sideways_scrolling(
    browser: Browser, tmp_path: Path, size: str, scheme: str
) -> None:
    scope = busy_day(tmp_path, user=HOSTILE + "x" * 300, clients=20)
    page, noticed = opened(browser, publish_report(scope), size, scheme)
    assert noticed == []
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.locator("figure > svg").count() == 12
    assert page.locator("figure > svg").first.bounding_box()["height"] > 80
    page.context.close()


def test_the_report_of_an_empty_day_opens_too(browser: Browser, tmp_path: Path) -> None:
    page, noticed = opened(browser, publish_report(empty_day(tmp_path)), "phone", "light")
    assert noticed == []
    assert page.get_by_role("heading", level=1).inner_text() == "default, 2026-11-10"
    page.context.close()


def test_links_lead_to_the_picture_of_the_client(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, publish_report(busy_day(tmp_path)), "desktop", "light")
    page.locator("#throttled").get_by_role("link", name="user 'alice'").click()
    assert page.locator("figure:target h3").inner_text() == "user 'alice'"
    page.context.close()
