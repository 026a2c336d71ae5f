"""A whole audit: what it publishes and when, and which days of an archive it does again."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.audit import run_audit
from spark_jobs.errors import DataQualityError
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.runs import draft_of, published_run
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.write import put_validated
from tests.builders.shifted_capture import from_the_middle_to_midnight, shifted

pytestmark = pytest.mark.spark
TABLES = ("requests", "files", "quota_changes", "decisions", "rates", "quota_state", "findings")
OPTIONS = IngestOptions.of(broker_version="3.7.2")


def passed(scope: RunScope, stage: str, _spark: SparkSession) -> str:
    put_validated(stage, scope)
    return ""


@pytest.fixture(autouse=True)
def _quick_steps(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the tests' Spark; what validation says has tests of its own."""
    monkeypatch.setattr(run_audit, "spark_session", lambda _step: nullcontext(spark))
    monkeypatch.setattr(run_audit, "validate_stage", passed)
    monkeypatch.setattr(run_audit, "print_summary", lambda _: None)


def audit(archive: Path, warehouse: Path, *, due: bool = False) -> dict[dt.date, str | None]:
    """Audit and return the run that is published of each day."""
    run_audit.run_audit(archive, warehouse, None, None, OPTIONS, only_due=due)
    scopes = [RunScope(warehouse, "default", day) for day in days_of(warehouse, "default")]
    return {scope.day: published_run(scope.runs) for scope in scopes}


def digests(warehouse: Path) -> dict[tuple[dt.date, str], str]:
    return {
        (day, table): table_digest(read_table(RunScope(warehouse, "default", day), table))
        for day in days_of(warehouse, "default")
        for table in TABLES
    }


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return a log with midnight in its middle."""
    return shifted(tmp_path / "archive", from_the_middle_to_midnight())


def halved(archive: Path) -> tuple[Path, bytes]:
    """Take every fourth line of a log's first day out, into what comes late; return both."""
    log = archive / "broker=1" / "kafka-request.log"
    lines = log.read_bytes().splitlines(keepends=True)
    first = [i for i, line in enumerate(lines) if line[:11] == lines[0][:11]]
    late = {i for i in first if i % 4 == 0}
    log.write_bytes(b"".join(line for i, line in enumerate(lines) if i not in late))
    return log.with_name("kafka-request.log.late"), b"".join(lines[i] for i in sorted(late))


def test_a_late_file_is_audited_with_its_day_and_the_next_as_if_it_had_been_there(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, late = halved(archive)
    first = audit(archive, tmp_path / "w", due=True)
    (monday, tuesday) = first
    assert audit(archive, tmp_path / "w", due=True) == first
    path.write_bytes(late)
    capsys.readouterr()
    again = audit(archive, tmp_path / "w", due=True)
    assert again[monday] != first[monday]
    assert again[tuesday] != first[tuesday]
    said = capsys.readouterr().err
    assert f"default {monday} is due: new: broker=1/kafka-request.log.late" in said
    assert f"default {tuesday} is due: {monday} was audited again, and left other states" in said
    audit(archive, tmp_path / "whole")
    assert digests(tmp_path / "w") == digests(tmp_path / "whole")


def test_a_run_that_fails_leaves_what_is_published(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = audit(archive, tmp_path / "w")
    before = digests(tmp_path / "w")

    def bad(_scope: RunScope, stage: str, _spark: SparkSession) -> str:
        if stage == "judged":
            raise DataQualityError("The data is bad.")
        return ""

    monkeypatch.setattr(run_audit, "validate_stage", bad)
    with pytest.raises(DataQualityError):
        audit(archive, tmp_path / "w")
    assert digests(tmp_path / "w") == before
    scopes = [RunScope(tmp_path / "w", "default", day) for day in first]
    assert [published_run(scope.runs) for scope in scopes] == list(first.values())
    assert all(draft_of(scope.runs) is not None for scope in scopes)
