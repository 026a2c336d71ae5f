from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import Archive, find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.score.score_capture import ScoreRequest, score_capture
from spark_jobs.warehouse.scope import RunScope
from tests.fleet.live_run import PlannedRun, audit
from tests.fleet.run_score import Run, RunScore, score_brokers, score_run
from tests.oracle.live_audit import audit_archive

CAPTURES = Path(__file__).parents[1] / "golden" / "captures"
OPTIONS = IngestOptions.of()

pytestmark = pytest.mark.spark


def audited(spark: SparkSession, name: str, folder: Path) -> tuple[Archive, list[RunScope]]:
    archive = find_archive(CAPTURES / name, "default")
    return archive, audit_archive(spark, archive, folder, OPTIONS)


@pytest.fixture(scope="module")
def sound(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Archive, list[RunScope]]:
    return audited(spark, "kafka-3.7.2", tmp_path_factory.mktemp("sound"))


def test_the_figures_are_those_of_the_score(sound: tuple[Archive, list[RunScope]]) -> None:
    archive, scopes = sound
    found = score_run(Run("one", "3.7.2"), archive, scopes)
    figures = score_capture(ScoreRequest(archive.root, OPTIONS, scopes[0].warehouse))
    assert found.produces.decisions == figures["produce_decisions"] > 0
    assert found.decision_agreement == figures["decision_agreement"]
    assert found.throttle_within_1ms == figures["throttle_within_1ms"]
    assert found.mutation_agreement == figures["mutation_agreement"]
    assert (found.missing, figures["coverage"]) == (0, 1.0)
    assert not found.is_accusing
    assert found.decisions > found.decided > 0


def test_brokers_that_are_runs_of_their_own_add_up(sound: tuple[Archive, list[RunScope]]) -> None:
    archive, scopes = sound
    whole = score_run(Run("both", "3.7.2"), archive, scopes)
    of_brokers = score_brokers({1: Run("1", "3.7.2"), 2: Run("2", "3.7.2")}, archive, scopes)
    assert [score.run.name for score in of_brokers] == ["1", "2"]
    assert sum(score.decisions for score in of_brokers) == whole.decisions
    assert all(score.decisions > 0 for score in of_brokers)
    assert sum(score.produces.agreeing for score in of_brokers) == whole.produces.agreeing


def test_a_broker_that_enforced_nothing_is_accused_with_its_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, scopes = audited(spark, "kafka-3.3.2", tmp_path)
    found = score_run(Run("one", "3.3.2"), archive, scopes)
    assert found.is_accusing
    assert found.mutation_agreement is not None
    assert found.mutation_agreement < 1
    assert {one.kind for one in found.findings} == {"not_enforced"}
    assert all(one.wrong > 0 for one in found.findings)
    assert {row.quota_type for row in found.accusations} == {"controller_mutation_rate"}
    assert all(row.source_line > 0 for row in found.accusations)
    assert msgspec.json.decode(msgspec.json.encode(found), type=RunScore) == found


@pytest.mark.parametrize(("version", "is_accusing"), [("3.7.2", False), ("3.3.2", True)])
def test_a_recorded_run_is_audited_again_from_its_folder(
    spark: SparkSession, tmp_path: Path, version: str, is_accusing: bool
) -> None:
    plan = PlannedRun(1, 2, version, 30_000, True, "DEBUG")
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(plan))
    shutil.copytree(CAPTURES / f"kafka-{version}", tmp_path / "capture")
    found = audit(spark, tmp_path)
    assert found.run == plan.conditions
    assert found.run.is_loaded
    assert found.is_accusing is is_accusing
    kept = (tmp_path / "score.json").read_bytes()
    assert msgspec.json.decode(kept, type=RunScore) == found
