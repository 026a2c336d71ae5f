from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from spark_jobs.report.publish import publish_report
from spark_jobs.warehouse import RunScope
from tests.spark_jobs.report.day_builder import HOSTILE, busy_day, empty_day

pytestmark = pytest.mark.browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
        if found is None and not Path(own).exists():
            pytest.skip(
                f"no Chromium: none of {', '.join(CHROMIUM)} is on PATH, nor is {own} there"
            )
        # The sandbox needs rights that a container does not have; the page is a local file.
        with playwright.chromium.launch(executable_path=found, args=["--no-sandbox"]) as chromium:
            yield chromium


def opened(browser: Browser, scope: RunScope, size: str, scheme: str) -> tuple[Page, list[str]]:
    """Return the opened report, and what the browser complained about or asked the world for."""
    report = publish_report(scope).report.as_uri()
    width, height = SIZES[size]
    context = browser.new_context(
        offline=True,
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    noticed: list[str] = []
    page.on("console", lambda message: noticed.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: noticed.append(f"error: {error}"))
    page.on("dialog", lambda dialog: noticed.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((report, "data:"))
            else noticed.append(f"request: {request.url}")
        ),
    )
    page.goto(report)
    return page, noticed


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_report_opens_without_a_complaint_a_request_or_sideways_scrolling(
    browser: Browser, tmp_path: Path, size: str, scheme: str
) -> None:
    scope = busy_day(tmp_path, user=HOSTILE + "x" * 300, clients=20)
    page, noticed = opened(browser, scope, size, scheme)
    assert noticed == []
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.locator("figure > svg").count() == 12
    assert page.locator("figure > svg").first.bounding_box()["height"] > 80
    page.context.close()


def test_the_report_of_an_empty_day_opens_too(browser: Browser, tmp_path: Path) -> None:
    page, noticed = opened(browser, empty_day(tmp_path), "phone", "light")
    assert noticed == []
    assert page.get_by_role("heading", level=1).inner_text() == "default, 2026-11-10"
    page.context.close()


def test_links_lead_to_the_picture_of_the_client(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, busy_day(tmp_path), "desktop", "light")
    page.locator("#throttled").get_by_role("link", name="user 'alice'").click()
    assert page.locator("figure:target h3").inner_text() == "user 'alice'"
    page.context.close()
