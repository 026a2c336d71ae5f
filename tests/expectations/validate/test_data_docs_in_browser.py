from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from expectations.validate.runner import validate_tables
from spark_jobs.errors import DataQualityError
from spark_jobs.publish.publish_report import publish_report
from tests.builders.day_builder import HOSTILE
from tests.builders.opened_page import SIZES, opened
from tests.builders.tables_builder import row, write_rows
from tests.expectations.broken_warehouse import write_sound_day

pytestmark = pytest.mark.browser
# Of text on its ground: what WCAG asks of a page (level AA).
CONTRAST_MIN = 4.5
CONTRAST = """() => {
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = numbers(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const ratios = [...document.querySelectorAll("body, a, th, td, span, strong, .alert")]
    .filter(e => e.innerText.trim() && e.offsetParent)
    .map(e => [light(numbers(getComputedStyle(e).color)), light(ground(e))])
    .map(([a, b]) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  return Math.min(...ratios);
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scope = write_sound_day(tmp_path_factory.mktemp("docs"))
    write_rows(scope, "findings", [row("findings", kind=HOSTILE, quota_user=HOSTILE + "x" * 300)])
    with pytest.raises(DataQualityError):
        validate_tables(scope, "judged")
    return publish_report(scope)


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_data_docs_open_without_a_complaint_or_a_request_and_can_be_read(
    browser: Browser, report: Path, size: str, scheme: str
) -> None:
    docs = report.parents[3] / "data_docs"
    days = [day.resolve() for day in docs.glob("cluster=*/date=*")]
    pages = sorted([docs / "index.html", *(page for day in days for page in day.rglob("*.html"))])
    assert len(pages) >= 5
    for path in pages:
        page, noticed = opened(browser, path, size, scheme)
        assert noticed == [], path.name
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0], path.name
        assert page.evaluate(CONTRAST) >= CONTRAST_MIN, path.name
        page.context.close()


def test_from_the_report_to_the_data_docs_of_its_run_and_on_to_all_runs(
    browser: Browser, report: Path
) -> None:
    page, _ = opened(browser, report, "desktop", "light")
    page.locator("#quality").get_by_role("link", name="judged").click()
    assert page.get_by_role("heading", level=1).inner_text().startswith("Data quality: judged")
    page.get_by_role("link", name="All runs").click()
    assert page.get_by_role("row").filter(has_text="2026-11-10").count() == 1
    page.context.close()
