"""Half a minute of real brokers of older versions, audited as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

pytestmark = pytest.mark.spark
CAPTURES = Path(__file__).parents[2] / "golden" / "captures"


def audit(
    spark: SparkSession, capture: str, warehouse: Path, options: IngestOptions | None = None
) -> RunScope:
    archive = find_archive(CAPTURES / capture, "default")
    report = ingest_requests(spark, archive, warehouse, None, options or IngestOptions.of())
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    judge_decisions(lambda: spark, scope)
    return scope


def test_a_controller_that_never_enforced_its_quota_is_a_finding(
    spark: SparkSession, tmp_path: Path
) -> None:
    """KAFKA-14351: the KRaft controller of 3.3 admits every mutation."""
    scope = audit(spark, "kafka-3.3.2", tmp_path)
    found = read_table(scope, "findings").to_pylist()
    assert {f["kind"] for f in found} == {"not_enforced"}
    carol = next(f for f in found if f["quota_user"] == "carol")
    assert carol["quota_type"] == "controller_mutation_rate"
    assert "was not enforced on broker 1" in carol["explanation"]
    evidence = json.loads(carol["evidence"])
    assert evidence["known_fault"] == "KAFKA-14351"
    assert evidence["enforced"] == 0 < evidence["due"]
    assert carol["severity"] == "critical"
    # A client of an older version is never refused, but its connection should have been muted.
    frank = next(f for f in found if f["quota_user"] == "frank")
    assert json.loads(frank["evidence"])["replayed_throttle_time_ms"] > 0


def test_brokers_that_enforced_everything_are_accused_of_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    scope = audit(spark, "kafka-3.7.2", tmp_path)
    decisions = read_table(scope, "decisions")
    assert {b["rate_profile"] for b in read_table(scope, "brokers").to_pylist()} == {"rate_3_3"}
    assert decisions.filter(pc.field("verdict").isin(WRONG_VERDICTS)).num_rows == 0
    assert read_table(scope, "findings").num_rows == 0
    refused = pc.sum(pc.invert(decisions["logged_admitted"])).as_py()
    assert refused > 0
    assert decisions.filter(pc.field("logged_throttle_time_ms") > 0).num_rows > 50


def test_a_broker_newer_than_what_is_known_is_replayed_and_not_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Judged by the rules that are known, broker 1 of this capture is accused.
    newer = IngestOptions.of(broker_version="1=4.5.0,2=3.3.2")
    scope = audit(spark, "kafka-3.3.2", tmp_path, newer)
    told = {b["broker_id"]: b["newer_than_known"] for b in read_table(scope, "brokers").to_pylist()}
    assert told == {1: "its version is 4.5.0", 2: None}
    decisions = read_table(scope, "decisions")
    newer_rows = decisions.filter(pc.field("broker_id") == 1)
    bound = newer_rows.filter(pc.field("bound").is_valid())
    assert bound.num_rows > 100
    assert set(bound["verdict"].to_pylist()) == {"indeterminate"}
    assert set(bound["reason"].to_pylist()) == {"broker_not_known"}
    assert bound["replayed_throttle_time_ms"].null_count == 0
    assert set(newer_rows["verdict"].to_pylist()) <= {"indeterminate", "no_quota"}
    known = decisions.filter(pc.field("broker_id") == 2)
    assert pc.sum(pc.equal(known["verdict"], "agree")).as_py() > 100
    assert [f for f in read_table(scope, "findings").to_pylist() if f["broker_id"] == 1] == []
