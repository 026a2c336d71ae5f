from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from quota_pages.audits import (
    audit_of_run,
    published_audit,
    published_audits,
    published_file,
)
from quota_pages.overview_page import DAYS_MAX
from spark_jobs.errors import BadInputError
from spark_jobs.publish.audit_outcome import OUTCOME_NAME
from spark_jobs.publish.publish_report import publish_report
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import quiet_day
from tests.plugins.quota_pages.every_address import client_of, pages_app

DAY = dt.date(2026, 11, 20)
RUN = "manual__2026-11-21T00:00:00+00:00"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "warehouse"
    publish(folder, "east", DAY, {"report.html": "<h1>East</h1>", "recommendations.csv": "a,b\n"})
    publish(folder, "west", dt.date(2026, 11, 21), {"report.html": "<h1>West</h1>"})
    return folder


def publish(warehouse: Path, cluster: str, day: dt.date, files: dict[str, str]) -> Path:
    folder = warehouse / "reports" / f"cluster={cluster}" / f"date={day}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_the_newest_day_comes_first_each_with_its_files(warehouse: Path) -> None:
    found = [(audit.cluster, audit.day, audit.files) for audit in published_audits(warehouse)]
    assert found == [
        ("west", dt.date(2026, 11, 21), ("report.html",)),
        ("east", DAY, ("recommendations.csv", "report.html")),
    ]


def test_a_warehouse_that_is_not_there_holds_no_audit(tmp_path: Path) -> None:
    assert published_audits(tmp_path / "none") == []
    assert published_audit(RunScope(tmp_path / "none", "east", DAY)) is None


def test_what_an_earlier_version_published_is_an_audit_without_an_outcome(warehouse: Path) -> None:
    audit = published_audit(RunScope(warehouse, "east", DAY))
    assert audit is not None
    assert audit.outcome is None


def test_an_audit_is_found_by_its_run_of_airflow_and_anew_when_published_again(
    tmp_path: Path,
) -> None:
    scope = quiet_day(tmp_path)
    assert audit_of_run(tmp_path, RUN) is None
    publish_report(scope, dag_run_id=RUN)
    found = audit_of_run(tmp_path, RUN)
    assert found is not None
    assert (found.cluster, found.day) == (scope.cluster, scope.day)
    publish_report(scope, dag_run_id="another")
    assert audit_of_run(tmp_path, RUN) is None


def test_an_outcome_that_does_not_read_is_none(tmp_path: Path) -> None:
    scope = quiet_day(tmp_path)
    publish_report(scope)
    (scope.output_dir("reports") / OUTCOME_NAME).write_text("{")
    audit = published_audit(scope)
    assert audit is not None
    assert audit.outcome is None


@pytest.mark.parametrize("name", ["..", "../secret.txt", "/etc/passwd", "", ".", "report.html\n"])
def test_a_name_is_looked_up_not_joined(warehouse: Path, name: str) -> None:
    (warehouse / "reports" / "cluster=east" / "secret.txt").write_text("secret")
    assert published_file(RunScope(warehouse, "east", DAY), name) is None
    found = published_file(RunScope(warehouse, "east", DAY), "report.html")
    assert found is not None
    assert found.is_file()


def test_a_link_out_of_the_reports_is_not_followed(warehouse: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = warehouse / "reports" / "cluster=east" / f"date={DAY}"
    (folder / "link.txt").symlink_to(secret)
    (warehouse / "reports" / "cluster=out").mkdir()
    (warehouse / "reports" / "cluster=out" / f"date={DAY}").symlink_to(tmp_path)
    assert published_file(RunScope(warehouse, "east", DAY), "link.txt") is None
    assert published_file(RunScope(warehouse, "out", DAY), "secret.txt") is None
    assert "out" not in {audit.cluster for audit in published_audits(warehouse)}


@pytest.mark.parametrize("cluster", ["..", "../reports/cluster=east", "", ".", "east\n", "a/b"])
def test_a_cluster_s_name_never_leads_out_of_the_reports(warehouse: Path, cluster: str) -> None:
    with pytest.raises(BadInputError):
        published_audit(RunScope(warehouse, cluster, DAY))


def test_folders_that_no_audit_writes_are_passed_over(warehouse: Path) -> None:
    for name in ("cluster=east/date=soon", "cluster=<b>/date=2026-11-20", "other/date=2026-11-20"):
        (warehouse / "reports" / name).mkdir(parents=True)
    (warehouse / "reports" / "cluster=east" / "date=2026-11-22").write_text("a file")
    found = [(audit.cluster, audit.day) for audit in published_audits(warehouse)]
    assert found == [("west", dt.date(2026, 11, 21)), ("east", DAY)]


def test_days_of_the_future_stand_apart_on_the_first_page(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX")
    for number in range(DAYS_MAX):
        publish(warehouse, "west", dt.date(9999, 12, 31 - number), {"report.html": ""})
    publish(warehouse, "west", dt.date(2001, 2, 3), {"report.html": ""})
    page = shown(warehouse)
    days = re.findall(r'<abbr title="(.*?)">', page)
    assert days[0] == "2001-02-03"
    assert max(days) < "9999-12-01"
    assert "a wrong clock made days that are still to come" in page
    assert f"quota-audit doctor {warehouse}" in page
    assert page.count("west 9999-12-") == DAYS_MAX
    assert "of earlier days are not listed" not in page


def test_where_all_days_are_to_come_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX")
    publish(tmp_path, "west", dt.date(9999, 12, 31), {"report.html": ""})
    page = shown(tmp_path)
    assert '<abbr title="9999-12-31">' in page
    assert "still to come" not in page


def shown(warehouse: Path) -> str:
    return client_of(pages_app(warehouse)).get("/").text
