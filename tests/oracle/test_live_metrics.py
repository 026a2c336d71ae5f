"""Brokers whose metrics are read while they work, beside the audit of what they logged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.judge.crosscheck_metrics import crosscheck_metrics
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.warehouse.scope import RunScope, days_of
from tests.oracle.live_audit import audit_live

AGREEING_MIN = 0.99
"""1.0 where it was measured: 913 and 934 samples of 4.1.0."""

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("mvn", "java")),
        reason="mvn or java is not on PATH: no Kafka broker can be started",
    ),
]


def test_brokers_measure_what_their_logs_lead_to(spark: SparkSession, tmp_path: Path) -> None:
    live = audit_live(spark, "metrics", "3.7.2", tmp_path)
    exports = find_archive(live.capture, "default").metrics
    day = days_of(live.warehouse, "default")[0]
    scope = RunScope(live.warehouse, "default", day)
    found = crosscheck_metrics(scope, exports, CrosscheckSettings())
    assert found.compared > 500
    assert found.compared - found.disagreeing >= AGREEING_MIN * found.compared
    assert found.findings == ()
