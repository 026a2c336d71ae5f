from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from expectations.validate.data_docs import offline
from expectations.validate.runner import validate_tables
from spark_jobs.errors import DataQualityError
from tests.builders.tables_builder import row, write_rows
from tests.expectations.broken_warehouse import write_sound_day

pytestmark = pytest.mark.spark

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scope = write_sound_day(tmp_path_factory.mktemp("docs"))
    write_rows(scope, "findings", [row("findings", kind=HOSTILE, quota_user=HOSTILE)])
    with pytest.raises(DataQualityError, match="breaks known_kind"):
        validate_tables(scope, "judged")
    validate_tables(scope, "ingested")
    return scope.warehouse / "data_docs"


def test_pages_load_nothing_and_run_nothing(pages: Path) -> None:
    written = [pages / "index.html", *pages.glob("*/*/*/*.html")]
    assert len(written) == 1 + 3 + 12
    for page in written:
        text = page.read_text("utf-8")
        text = text.replace('<link rel="icon" href="data:,">', "")
        assert not re.search(r"<(script|link|img|iframe|object|form)|\bon\w+=\"|https?://", text)
        assert "default-src 'none'" in text


def test_values_are_shown_as_text(pages: Path) -> None:
    page = next(pages.glob("*/*/judged/findings.html")).read_text("utf-8")
    index = next(pages.glob("*/*/judged/index.html")).read_text("utf-8")
    assert "onerror=alert(1)" in page
    assert "onerror=alert(1)" in index
    assert "<img" not in page + index


def test_a_page_names_rules_and_severities(pages: Path) -> None:
    page = next(pages.glob("*/*/judged/findings.html")).read_text("utf-8")
    assert "known_kind (critical): kind is one of" in page
    index = next(pages.glob("*/*/judged/index.html")).read_text("utf-8")
    assert "findings: known_kind (critical)" in index
    assert "1 of 1 rows break it." in index


def test_the_overview_links_stages_in_their_order(pages: Path) -> None:
    links = re.findall(r'<a href="([^"]+)"', (pages / "index.html").read_text("utf-8"))
    day = "cluster%3Ddefault/date%3D2026-11-10"
    assert links == [f"{day}/ingested/index.html", f"{day}/judged/index.html"]


def test_links_within_a_stage_lead_to_pages(pages: Path) -> None:
    for page in pages.glob("*/*/*/*.html"):
        for link in re.findall(r'<a [^>]*href="([^"#][^"]*)"', page.read_text("utf-8")):
            # As a browser takes it: an address has no links of files.
            assert Path(os.path.normpath(page.parent / link)).is_file(), f"{page}: {link}"


def test_only_permitted_tags_and_attributes_stay() -> None:
    page = offline(
        '<html><head><script src="https://x">1</script></head><body onload="f()">'
        '<a href="javascript:f()" class="c">text &lt;b&gt;</a><svg><a>no</a></svg></body></html>'
    )
    assert page.endswith('<body><a class="c">text &lt;b&gt;</a></body></html>')
    assert "javascript" not in page


def test_a_stage_has_a_folder_of_its_own(tmp_path: Path) -> None:
    scope = write_sound_day(tmp_path)
    assert (scope.output_dir("data_docs") / "judged") == (
        tmp_path / "data_docs" / "cluster=default" / "date=2026-11-10" / "judged"
    )
