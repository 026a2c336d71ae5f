"""Two real brokers, their metrics read twice a second beside their logs."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.cli.print_agreement import print_crosscheck
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.crosscheck_metrics import Crosscheck, crosscheck_metrics
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

pytestmark = pytest.mark.spark
CAPTURE = Path(__file__).parents[2] / "golden" / "metrics" / "kafka-4.1.0"
EXPORT = CAPTURE / "broker-metrics.json.gz"
KIND = "disagrees_with_metrics"


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    return audit(spark, CAPTURE, tmp_path_factory.mktemp("whole"))


def audit(spark: SparkSession, capture: Path, warehouse: Path) -> RunScope:
    archive = find_archive(capture, "default")
    report = ingest_requests(spark, archive, warehouse, None, IngestOptions.of())
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    judge_decisions(lambda: spark, scope, metrics=archive.metrics)
    return scope


def changed(folder: Path, change: Callable[[list[list[object]]], None]) -> Path:
    """Return an export whose samples ``change`` was called with, series by series."""
    export = json.loads(gzip.decompress(EXPORT.read_bytes()))
    for series in export["data"]["result"]:
        change(series["values"])
    path = folder / "export.json"
    path.write_text(json.dumps(export))
    return path


def checked(scope: RunScope, export: Path) -> Crosscheck:
    return crosscheck_metrics(scope, [export], CrosscheckSettings())


def causes(found: Crosscheck, metric: str = "byte-rate") -> set[str]:
    evidence = [json.loads(row["evidence"]) for row in found.findings]
    return {one["likely_cause"] for one in evidence if one["metric"] == metric}


def test_what_brokers_measured_is_what_their_logs_lead_to(whole: RunScope) -> None:
    found = checked(whole, EXPORT)
    assert found.compared > 800
    assert (found.disagreeing, found.findings) == (0, ())
    assert {one.metric for one in found.comparisons if one.compared} == {
        "byte-rate",
        "throttle-time",
    }
    assert read_table(whole, "findings").num_rows == 0


def test_a_log_that_lost_a_tenth_of_its_lines_is_a_finding_of_the_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    thinned = tmp_path / "archive"
    shutil.copytree(CAPTURE, thinned)
    for log in thinned.glob("broker=*/kafka-request.log.gz"):
        lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        log.write_bytes(gzip.compress(b"".join(x for i, x in enumerate(lines) if i % 10 != 5)))
    scope = audit(spark, thinned, tmp_path / "warehouse")
    rows = [row for row in read_table(scope, "findings").to_pylist() if row["kind"] == KIND]
    evidence = [json.loads(row["evidence"]) for row in rows]
    rates = [one for one in evidence if one["metric"] == "byte-rate"]
    assert len(rates) >= 6
    assert {one["likely_cause"] for one in rates} == {"broker_counted_more"}
    assert all(1.03 < one["measured_to_expected"] < 2.5 for one in rates)
    assert {row["severity"] for row in rows} == {"warning"}
    assert any("known to be missing from the log" in row["explanation"] for row in rows)


@pytest.mark.parametrize("shift_s", [30, -30])
def test_a_clock_that_is_half_a_minute_off_is_found_and_named(
    whole: RunScope, tmp_path: Path, shift_s: int
) -> None:
    def shift(values: list[list[object]]) -> None:
        for sample in values:
            sample[0] = float(str(sample[0])) + shift_s

    found = checked(whole, changed(tmp_path, shift))
    assert found.findings
    named = [json.loads(row["evidence"])["shift_s"] for row in found.findings]
    assert {round(one / 3) * 3 for one in named if one is not None} == {shift_s}


def test_a_metric_of_something_else_is_a_finding(whole: RunScope, tmp_path: Path) -> None:
    def halve(values: list[list[object]]) -> None:
        for sample in values:
            sample[1] = str(float(str(sample[1])) / 2)

    found = checked(whole, changed(tmp_path, halve))
    assert causes(found) == {"log_holds_more"}
    assert causes(found, "throttle-time") == {"log_holds_more"}
    ids = [row["finding_id"] for row in found.findings]
    assert len(set(ids)) == len(ids)


def test_samples_that_prometheus_made_for_whole_seconds_agree_too(
    whole: RunScope, tmp_path: Path
) -> None:
    """As of /api/v1/query_range: at each moment what was scraped last before it."""

    def resample(values: list[list[object]]) -> None:
        scraped = [(float(str(at)), value) for at, value in values]
        begin, end = int(scraped[0][0]) + 1, int(scraped[-1][0])
        values[:] = [
            [second, next(v for at, v in reversed(scraped) if at <= second)]
            for second in range(begin, end, 5)
        ]

    settings = CrosscheckSettings(scrape_interval_ms=1000)
    found = crosscheck_metrics(whole, [changed(tmp_path, resample)], settings)
    assert found.compared > 50
    assert found.findings == ()


def test_the_command_says_what_was_compared_and_why_the_rest_was_not(
    whole: RunScope, capsys: pytest.CaptureFixture[str]
) -> None:
    print_crosscheck([EXPORT], whole.warehouse, "default", None, {}, as_json=False)
    text = capsys.readouterr().out
    assert "agree (100.00%)" in text
    assert "no number: nothing was recorded" in text
    assert text.rstrip().endswith("No finding: metrics and log agree.")
    print_crosscheck([EXPORT], whole.warehouse, "default", None, {}, as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["agreeing"] == record["compared"] > 800
    assert record["findings"] == []
