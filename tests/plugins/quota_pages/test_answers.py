from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from fastapi.responses import FileResponse

from quota_pages.addresses import Addresses
from quota_pages.answers import Answers
from spark_jobs.publish.publish_report import publish_report
from spark_jobs.quota.codes import SEVERITIES
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.runs import PUBLISHED
from tests.builders.tables_builder import row, scope_in, write_day, write_rows
from tests.plugins.quota_pages.every_address import client_of, pages_app

TO = Addresses("/quota-audit")


def answers(warehouse: Path) -> Answers:
    return Answers(warehouse, TO, "quota_audit_daily")


def test_a_day_that_was_not_published_for_its_data_shows_its_data_quality(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "files", [row("files")])
    assert answers(tmp_path).quality(scope.cluster, scope.day).status_code == 200
    assert answers(tmp_path).audit(scope.cluster, scope.day).status_code == 404


def test_a_day_that_was_never_read_has_no_page(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    found = answers(tmp_path).quality(scope.cluster, scope.day)
    assert found.status_code == 404
    assert b"No audit of" in bytes(found.body)


def test_a_link_out_of_the_data_docs_is_not_followed(tmp_path: Path) -> None:
    docs = tmp_path / "data_docs"
    docs.mkdir()
    (tmp_path / "secret.html").write_text("secret")
    (docs / "link.html").symlink_to(tmp_path / "secret.html")
    (docs / "index.html").write_text("index")
    endless = f"{'x' * 5000}.html", "y/" * 2500
    for name in ("link.html", "../secret.html", "x/../../secret.html", "\0", "", *endless):
        assert answers(tmp_path).data_docs(name).status_code == 404, name
    found = answers(tmp_path).data_docs("index.html")
    assert isinstance(found, FileResponse)
    assert found.path == docs / "index.html"


def test_no_other_site_shows_a_published_file_in_a_frame(tmp_path: Path) -> None:
    docs = tmp_path / "data_docs"
    docs.mkdir()
    (docs / "index.html").write_text("index")
    policy = answers(tmp_path).data_docs("index.html").headers["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in policy.split("; ")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": "x"', "[" * 100_000])
def test_a_damaged_pointer_is_told_on_the_page(tmp_path: Path, text: str) -> None:
    scope = scope_in(tmp_path)
    write_day(scope)
    publish_report(scope)
    scope.runs.mkdir(parents=True, exist_ok=True)
    (scope.runs / PUBLISHED).write_text(text)
    client = client_of(pages_app(tmp_path))
    for page in ("", "/entities", "/recommendations", "/whatif", "/quality"):
        found = client.get(f"/clusters/{scope.cluster}/{scope.day}{page}")
        assert found.status_code == 500
        assert "published.json is damaged: expected a JSON object" in found.text


def test_every_audit_is_a_row_of_the_csv(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_day(scope)
    publish_report(scope)
    found = answers(tmp_path).outcomes()
    (one,) = csv.DictReader(io.StringIO(bytes(found.body).decode()))
    assert (one["cluster"], one["day"]) == (scope.cluster, str(scope.day))
    findings = read_table(scope, "findings")["severity"].to_pylist()
    for severity in SEVERITIES:
        assert int(one[f"findings_{severity}"]) == findings.count(severity)
    assert int(one["decisions"]) > 0
