"""The score of a small golden capture, audited as the other tests of golden captures do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.score.score_capture import ScoreRequest, score_capture
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.cluster.standalone import SMALL_SPARK

pytestmark = pytest.mark.spark
CAPTURE = Path(__file__).parents[2] / "golden" / "captures" / "kafka-3.7.2"
DEFAULTS = IngestOptions.of()


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    warehouse = tmp_path_factory.mktemp("warehouse")
    report = ingest_requests(spark, find_archive(CAPTURE, "default"), warehouse, None, DEFAULTS)
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    return scope


def test_a_capture_without_faults_scores_as_such(audited: RunScope) -> None:
    figures = score_capture(ScoreRequest(CAPTURE, DEFAULTS, audited.warehouse))
    assert figures["produce_decisions"] > 500
    assert figures["decision_agreement"] > 0.998
    assert figures["mutation_agreement"] == 1.0
    assert (figures["coverage"], figures["consistent"]) == (1.0, 1.0)
    # One line of this capture was written later than its phases say.
    assert figures["admissible"] >= 0.998
    assert (figures["duplicates"], figures["rows_not_in_log"]) == (0, 0)
    assert figures["flagged"] == 0
    of_sensors = [s for s in figures["sensors"] if s["quota_type"] == "producer_byte_rate"]
    assert sum(s["decisions"] for s in of_sensors) == figures["produce_decisions"]


def test_the_command_prints_the_same_figures(audited: RunScope, tmp_path: Path) -> None:
    decision = read_table(audited, "decisions").slice(0, 1).to_pylist()[0]
    planted = [decision["broker_id"], decision["connection"], decision["correlation_id"], None]
    truth = tmp_path / "truth.json"
    truth.write_text(json.dumps({"violations": [planted]}))
    arguments = ["score", str(CAPTURE), "-w", str(audited.warehouse), "--tampered", str(truth)]
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    assert printed.exit_code == 0, printed.output
    figures = score_capture(ScoreRequest(CAPTURE, DEFAULTS, audited.warehouse))
    assert json.loads(printed.output) == figures | {
        "tampered": 1,
        "recall": 0.0,
        "precision": None,
        "precision_bandwidth": None,
    }
    shown = CliRunner().invoke(app, arguments).output
    assert f"decision_agreement     {figures['decision_agreement']:.4f}\n" in shown
    assert "producer_byte_rate dave:" in shown


def test_an_empty_warehouse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no replayed day of the cluster 'default'"):
        score_capture(ScoreRequest(CAPTURE, DEFAULTS, tmp_path))


def test_options_of_an_audit_are_refused_beside_a_warehouse(tmp_path: Path) -> None:
    arguments = ["score", str(CAPTURE), "-w", str(tmp_path), "--bound-factor", "1.05"]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, BadInputError)


def test_a_log_of_nobody_knows_which_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka-request.log").touch()
    with pytest.raises(BadInputError, match="broker=<id>"):
        score_capture(ScoreRequest(tmp_path, DEFAULTS, tmp_path))


def test_controls_score_clearly_worse_than_the_capture(audited: RunScope) -> None:
    # Two audits with a session of their own, which would end the one of the other tests.
    arguments = ["score", str(CAPTURE), "-w", str(audited.warehouse), "--controls", "--json"]
    command = [sys.executable, "-m", "spark_jobs.cli", *arguments]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | SMALL_SPARK
    )
    figures = json.loads(printed.stdout)
    assert figures["rate_profiles"] == ["rate_3_3"]
    assert list(figures["controls"]) == ["every bound x 1.05", "the rate of 4.1.0"]
    # 28 throttles in one minute: the rates of two versions differ where a sample leaves the window.
    for control in figures["controls"].values():
        assert control["throttle_within_1ms"] < 0.9 * figures["throttle_within_1ms"]
