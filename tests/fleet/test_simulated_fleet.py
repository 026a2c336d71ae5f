"""Three simulated brokers, from the draw to the scores."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs.score.agreement import Tally
from tests.fleet import simulated_fleet
from tests.fleet.fleet_table import KEPT, OVER_LIMITS, WIDTH
from tests.fleet.random_cluster import simulated_cluster
from tests.fleet.run_score import RunScore
from tests.fleet.simulated_fleet import SimulatedRuns, kept_clusters, run_simulated_fleet
from tests.fleet.simulated_plan import KAFKA_VERSIONS
from tests.fleet.simulated_run import SCORE, keep_missing, read_cluster, simulate
from tests.fleet.test_fleet_figures import ACCUSATION, GOOD

CLUSTER = simulated_cluster(2, 1, "4.1.0", 3)


@pytest.mark.jvm
@pytest.mark.spark
def test_brokers_are_simulated_audited_and_scored(spark: SparkSession, tmp_path: Path) -> None:
    runs = SimulatedRuns(Console(width=WIDTH, file=io.StringIO()))
    run_simulated_fleet(runs, spark, [CLUSTER], tmp_path, is_keeping_all=True)
    assert [kept.name for kept in kept_clusters(tmp_path)] == [CLUSTER.name]
    assert [score.run for score in runs.scores] == [CLUSTER.run_of(b) for b in CLUSTER.brokers]
    of_brokers, of_controller = runs.scores[:2], runs.scores[2]
    assert all(score.produces.decisions > 100 for score in of_brokers)
    assert sum(score.produces.throttled for score in of_brokers) > 20
    assert of_controller.mutations.decisions > 100
    assert of_controller.mutation_agreement == 1
    assert [score.missing for score in runs.scores] == [0, 0, 0]


@pytest.mark.jvm
@pytest.mark.spark
def test_logs_that_begin_amid_the_load_accuse_nobody(spark: SparkSession, tmp_path: Path) -> None:
    runs = SimulatedRuns(Console(width=WIDTH, file=io.StringIO()), begin_amid=True)
    run_simulated_fleet(runs, spark, [CLUSTER], tmp_path, is_keeping_all=True)
    assert not any(score.is_accusing for score in runs.scores)
    undecided = [score.undecided.get("producer_byte_rate", {}) for score in runs.scores]
    assert sum(reasons.get("state_unknown", 0) for reasons in undecided) > 0
    assert runs.print() == KEPT


@pytest.mark.jvm
@pytest.mark.parametrize("version", [KAFKA_VERSIONS[0], KAFKA_VERSIONS[-1]])
def test_a_cluster_is_simulated_the_same_again(version: str, tmp_path: Path) -> None:
    cluster = simulated_cluster(2, 1, version, 2)
    for name in ("once", "again"):
        simulate(cluster, tmp_path / name)
    assert read_cluster(tmp_path / "once") == cluster
    logs = [
        sorted((tmp_path / name).glob("broker=*/kafka-request.log")) for name in ("once", "again")
    ]
    assert [log.read_bytes() for log in logs[0]] == [log.read_bytes() for log in logs[1]]
    assert all(log.stat().st_size > 10_000 for log in logs[0])


def clusters_folder(folder: Path) -> Path:
    own = folder / CLUSTER.name
    for broker in CLUSTER.brokers:
        (own / f"broker={broker.broker_id}").mkdir(parents=True)
    (own / "cluster.json").write_bytes(msgspec.json.encode(CLUSTER))
    return own


def scores_of(accusing: int) -> list[RunScore]:
    return [
        msgspec.structs.replace(
            GOOD,
            run=CLUSTER.run_of(broker),
            accusations=(ACCUSATION,) if broker.broker_id == accusing else (),
        )
        for broker in CLUSTER.brokers
    ]


@pytest.mark.parametrize("missed", [{"accusations": (ACCUSATION,)}, {"mutations": Tally(20, 19)}])
def test_only_brokers_that_miss_a_limit_are_kept_and_the_controller(
    missed: dict[str, Any], tmp_path: Path
) -> None:
    own = clusters_folder(tmp_path)
    scores = scores_of(accusing=0)
    scores[1] = msgspec.structs.replace(scores[1], **missed)
    keep_missing(own, scores)
    assert sorted(path.name for path in own.iterdir()) == ["broker=2", "broker=3", "cluster.json"]
    kept = msgspec.json.decode((own / "broker=2" / SCORE).read_bytes(), type=RunScore)
    assert kept == scores[1]
    assert not (own / "broker=3" / SCORE).exists()


@pytest.mark.parametrize(("accusing", "code"), [(0, KEPT), (2, OVER_LIMITS)])
def test_a_cluster_that_accuses_nobody_leaves_nothing(
    accusing: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_fleet, "simulate", lambda _, __, **___: clusters_folder(tmp_path))
    monkeypatch.setattr(simulated_fleet, "audit_cluster", lambda _, __: scores_of(accusing))
    runs = SimulatedRuns(Console(width=WIDTH, file=io.StringIO()))
    run_simulated_fleet(runs, None, [CLUSTER], tmp_path, is_keeping_all=False)  # type: ignore[arg-type]
    assert bool(kept_clusters(tmp_path)) is (accusing > 0)
    assert runs.print() == code


def test_an_audit_that_breaks_fails_all_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object, __: Path) -> list[RunScore]:
        raise ValueError("a defect")

    monkeypatch.setattr(simulated_fleet, "simulate", lambda _, __, **___: clusters_folder(tmp_path))
    monkeypatch.setattr(simulated_fleet, "audit_cluster", broken)
    text = io.StringIO()
    runs = SimulatedRuns(Console(width=WIDTH, file=text))
    run_simulated_fleet(runs, None, [CLUSTER], tmp_path, is_keeping_all=False)  # type: ignore[arg-type]
    assert runs.print() != KEPT
    assert len(runs.failed) == 3
    assert kept_clusters(tmp_path)
    assert "ValueError('a defect')" in text.getvalue()
