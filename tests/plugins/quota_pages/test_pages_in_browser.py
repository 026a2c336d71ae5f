"""Every page in a real Chromium: what it complains about, asks for, and is like to use."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from quota_pages.addresses import Addresses
from spark_jobs.warehouse.scope import RunScope
from tests.builders.opened_page import SIZES, watched_page
from tests.plugins.quota_pages.every_address import every_address, pages_app
from tests.plugins.quota_pages.hostile_day import hostile_day
from tests.plugins.quota_pages.served_pages import served_pages

pytestmark = pytest.mark.browser

NO_PAGE = ("/static/", "/reports/", "/data_docs/")
SERIOUS = ("serious", "critical")
DRAWN = "[data-drawn]"
CHART = "JSON.parse(document.querySelector('[data-series]').textContent)"


@pytest.fixture(scope="module")
def origin(small_day: RunScope) -> Iterator[str]:
    with served_pages(small_day.warehouse) as origin:
        yield origin


@pytest.fixture
def new_page(browser: Browser, origin: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page; in the end nothing may have been complained about."""
    pages: list[tuple[Page, list[str]]] = []

    def new(address: str, size: str = "desktop", scheme: str = "light") -> Page:
        page, noticed = watched_page(browser, origin, size, scheme)
        pages.append((page, noticed))
        page.goto(address)
        if page.locator("[data-chart]").count():
            page.wait_for_selector(DRAWN)
        return page

    yield new
    for page, noticed in pages:
        page.context.close()
        assert noticed == []


@pytest.fixture
def client(new_page: Callable[..., Page], origin: str, small_day: RunScope) -> Page:
    """Return the page of the throttled client, opened."""
    return new_page(address_of_client(origin, small_day))


def address_of_client(origin: str, scope: RunScope, name: str = "alice", **query: str) -> str:
    return Addresses(origin).entity(scope.cluster, scope.day, name, "", **query)


def pages_of(scope: RunScope) -> list[str]:
    addresses = every_address(pages_app(scope.warehouse), scope)
    return [a for a in addresses.values() if not a.startswith(NO_PAGE) and ".csv" not in a]


def view(page: Page) -> list[str] | None:
    """Return from when until when the address says that the chart is."""
    query = parse_qs(urlsplit(page.url).query)
    return [query["from"][0], query["until"][0]] if "from" in query else None


def changed(page: Page, do: Callable[[], Any]) -> None:
    """Do something and return when the address has changed and the chart is drawn again."""
    before = page.url
    do()
    page.wait_for_url(lambda url: url != before)
    page.wait_for_selector(DRAWN)


def rows(page: Page) -> list[list[str]]:
    """Return the texts of the table beside the chart."""
    found: list[list[str]] = page.locator("#view details tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_opens_without_a_complaint_a_foreign_request_or_sideways_scrolling(
    new_page: Callable[..., Page], origin: str, small_day: RunScope, size: str, scheme: str
) -> None:
    axe = axe_source()
    wrong: dict[str, Any] = {}
    for address in pages_of(small_day):
        page = new_page(origin + address, size, scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > SIZES[size][0]:
            wrong[address] = f"{width} pixels wide"
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        if serious := [
            (v["id"], n["html"][:200]) for v in found if v["impact"] in SERIOUS for n in v["nodes"]
        ]:
            wrong[address] = serious
    assert wrong == {}


def axe_source() -> str:
    """Return axe-core's script, which comes with the package for Playwright."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def test_charts_are_drawn_and_in_the_dark_with_other_colours(
    new_page: Callable[..., Page], origin: str, small_day: RunScope
) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        overview = new_page(f"{origin}/", scheme=scheme)
        assert overview.locator(DRAWN).get_attribute("data-drawn") == "days"
        page = new_page(address_of_client(origin, small_day), scheme=scheme)
        assert page.locator(DRAWN).get_attribute("data-drawn") == "history"
        canvas = page.locator("[data-canvas]")
        assert canvas.locator("canvas").count() == 1
        colours[scheme] = canvas.evaluate(
            """canvas => {
                const drawn = echarts.getInstanceByDom(canvas).getOption();
                const axis = drawn.yAxis[0], lines = drawn.series.map(one => one.lineStyle.color);
                return [...lines, axis.axisLabel.color, axis.splitLine.lineStyle.color];
            }"""
        )
    assert len(colours["light"]) == len(colours["dark"]) == 6
    assert not set(colours["light"]) & set(colours["dark"])


def test_a_click_zooms_and_the_address_the_form_and_the_table_follow(client: Page) -> None:
    before = rows(client)
    changed(client, client.get_by_role("button", name="Zoom in").click)
    assert view(client) == ["2026-11-10T12:00:30.000Z", "2026-11-10T12:01:30.000Z"]
    assert client.locator("[data-from]").input_value() == "2026-11-10T12:00:30.000Z"
    assert 0 < len(rows(client)) < len(before)
    assert set(map(tuple, rows(client))) < set(map(tuple, before))
    assert client.evaluate("document.activeElement.dataset.zoom") == "in"


def test_keys_zoom_and_move_and_0_shows_the_day(client: Page) -> None:
    client.locator("[data-chart]").focus()
    seen = []
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "0"):
        changed(client, lambda key=key: client.keyboard.press(key))
        seen.append([moment[8:19] for moment in view(client) or []])
    assert seen == [
        ["10T12:00:30", "10T12:01:30"],
        ["10T12:01:00", "10T12:02:00"],
        ["10T12:00:30", "10T12:01:30"],
        ["10T12:00:00", "10T12:02:00"],
        ["10T00:00:00", "11T00:00:00"],
    ]
    assert client.evaluate("document.activeElement.matches('[data-chart]')")


def test_steps_in_quick_succession_follow_each_other(client: Page) -> None:
    client.locator("[data-chart]").focus()
    for key in ("+", "+"):
        client.keyboard.press(key)
    client.wait_for_url("**from=2026-11-10T12%3A00%3A45.000Z&until=2026-11-10T12%3A01%3A15.000Z")
    client.wait_for_selector(DRAWN)
    assert client.evaluate(f"{CHART}.until - {CHART}.from") == 30_000


def test_scrolling_and_dragging_zoom_too(client: Page) -> None:
    box = client.locator("[data-canvas]").bounding_box()
    assert box is not None
    client.mouse.move(box["x"] + box["width"] / 2, box["y"] + 90)
    changed(client, lambda: client.mouse.wheel(0, -300))
    scrolled = client.evaluate(f"{CHART}.until - {CHART}.from")
    assert 1000 <= scrolled < 120_000

    def drag() -> None:
        box = client.locator("[data-canvas]").bounding_box()
        assert box is not None
        y = box["y"] + box["height"] - 8 - 11
        client.mouse.move(box["x"] + box["width"] - 18, y)
        client.mouse.down()
        client.mouse.move(box["x"] + box["width"] / 2, y, steps=8)
        client.mouse.up()

    changed(client, drag)
    assert client.evaluate(f"{CHART}.until - {CHART}.from") < scrolled * 0.7


def test_the_address_of_a_view_shows_it_again(client: Page, new_page: Callable[..., Page]) -> None:
    changed(client, client.get_by_role("button", name="Zoom in").click)
    changed(client, client.get_by_role("button", name="Earlier").click)
    again = new_page(client.url)
    assert again.evaluate(CHART) == client.evaluate(CHART)
    assert rows(again) == rows(client)


def test_the_csv_has_the_rows_of_the_table_in_the_view(client: Page) -> None:
    for _ in range(2):
        changed(client, client.get_by_role("button", name="Zoom in").click)
    with client.expect_download() as started:
        client.get_by_role("link", name="These steps as CSV").click()
    lines = list(csv.DictReader(io.StringIO(Path(started.value.path()).read_text())))
    shown = rows(client)
    assert len(shown) > 10
    assert [(line["start"][11:19], line["broker_id"]) for line in lines] == [
        (row[0][:8], row[1]) for row in shown
    ]
    assert [line["throttled_requests"] for line in lines] == [row[4] for row in shown]


@pytest.mark.parametrize("path", ["overview", "client"])
def test_tab_reaches_every_control_and_shows_where_it_is(
    new_page: Callable[..., Page], origin: str, small_day: RunScope, path: str
) -> None:
    address = f"{origin}/" if path == "overview" else address_of_client(origin, small_day)
    page = new_page(address)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href],button,input,select,summary,[tabindex]")]
            .filter(e => e.checkVisibility({contentVisibilityAuto: true}))
            .map((e, i) => (e.dataset.place = i))"""
    )
    reached, unseen = set(), []
    for _ in wanted:
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const e = document.activeElement, style = getComputedStyle(e);
                const box = e.getBoundingClientRect();
                return {place: e.dataset.place, html: e.outerHTML.slice(0, 80),
                        seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0
                              && box.width > 0 && box.height > 0};
            }"""
        )
        reached.add(int(found["place"]))
        unseen += [] if found["seen"] else [found["html"]]
    assert sorted(set(wanted) - reached) == []
    assert unseen == []


def test_the_samples_of_a_window_are_marked_where_the_view_is_short(
    new_page: Callable[..., Page], origin: str, small_day: RunScope
) -> None:
    day = {"from": "2026-11-10T00:00:00Z", "until": "2026-11-11T00:00:00Z"}
    near = {"from": "2026-11-10T12:00:00Z", "until": "2026-11-10T12:01:30Z"}
    far_away = new_page(address_of_client(origin, small_day, **day)).evaluate(CHART)
    close = new_page(address_of_client(origin, small_day, **near)).evaluate(CHART)
    assert [panel["samples"] for panel in far_away["panels"]] == [[], []]
    for panel in close["panels"]:
        starts = panel["samples"]
        assert len(starts) > 60
        assert all(b - a >= 1000 for a, b in pairwise(starts))


def test_hostile_names_open_no_dialog_and_break_no_chart(browser: Browser, tmp_path: Path) -> None:
    scope = hostile_day(tmp_path)
    with served_pages(tmp_path) as origin:
        for address in pages_of(scope):
            page, noticed = watched_page(browser, origin, "phone", "light")
            page.goto(origin + address)
            if page.locator("[data-chart]").count():
                page.wait_for_selector(DRAWN)
                page.locator("[data-canvas]").hover()
            assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
            assert noticed == [], address
            page.context.close()
