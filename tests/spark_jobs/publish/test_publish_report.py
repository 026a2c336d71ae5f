from __future__ import annotations

from pathlib import Path

from spark_jobs.publish.publish_report import REPORT_NAME, publish_report, report_pages
from spark_jobs.publish.read_facts import gather
from spark_jobs.settings import ReportSettings
from tests.builders.day_builder import busy_day, quiet_day


def test_the_report_is_one_file_where_people_find_it_beside_its_outcome(tmp_path: Path) -> None:
    report = publish_report(quiet_day(tmp_path))
    assert report == tmp_path / "reports" / "cluster=default" / "date=2026-11-10" / "report.html"
    assert sorted(p.name for p in report.parent.iterdir()) == [
        "apply.sh", "audit.json", "findings.jsonl", "metrics.prom", "recommendations.csv",
        "report.html", "rollback.sh",
    ]  # fmt: skip
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_publishing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    first = publish_report(scope).read_bytes()
    assert publish_report(scope).read_bytes() == first


def test_the_files_of_the_recommendations_are_named_where_they_exist(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    (tmp_path / "recommendations.csv").touch()
    pages = report_pages(gather(scope), ReportSettings(pictures_max=0), tmp_path)
    page = dict(pages)[REPORT_NAME]
    assert "<code>recommendations.csv</code>" in page
    assert "apply.sh" not in page
