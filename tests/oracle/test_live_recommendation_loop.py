"""From too tight quotas of real brokers to a changed cluster and back.

Audited, approved through Airflow's REST API, applied, driven again by the same load, rolled back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.apply.changes.quota_alteration import QuotaKey
from spark_jobs.apply.kafka_jvm import VERSION
from spark_jobs.recommend.weigh.change_results import AS_PREDICTED, NO_TRAFFIC
from tests.builders.airflow_server import RECOMMEND_URL, AirflowServer, airflow_server
from tests.oracle.jars import maven_jar
from tests.oracle.kafka_configs import described_quotas
from tests.oracle.lab import RunningCluster, free_ports, plan_cluster, running_cluster
from tests.oracle.live_loop import (
    CLUSTER,
    FIRST,
    KAFKA_VERSION,
    SECOND,
    AuditedLoad,
    audit,
    carry,
    load_of,
    quota_audit,
)

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("mvn", "java")),
        reason="mvn or java is not on PATH: no Kafka broker can be started",
    ),
]

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
ALICE: QuotaKey = (PRODUCE, "alice", None)
ETL: QuotaKey = (PRODUCE, "bob", "etl")
REPORTS: QuotaKey = (CONSUME, None, "reports")
FRANK: QuotaKey = (CONSUME, "frank", None)
NIGHTLY: QuotaKey = (PRODUCE, "grace", "nightly")
DAVE: QuotaKey = (PRODUCE, "dave", None)
RAISED, REMOVED = (ALICE, ETL, REPORTS), (FRANK, NIGHTLY)

# How Kafka's own tool calls them.
DESCRIBED = {
    ALICE: "user-principal 'alice'",
    ETL: "user-principal 'bob', client-id 'etl'",
    REPORTS: "client-id 'reports'",
    FRANK: "user-principal 'frank'",
    NIGHTLY: "user-principal 'grace', client-id 'nightly'",
    DAVE: "user-principal 'dave'",
}
NOTE = "agreed with the teams"
# One day of a log is all there is to tell that nobody uses a value.
SETTINGS = "reclaim_min_days = 1\n"

MEASURED_SHARE_MAX = 0.15
MEASURED_MS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Approved:
    """What was asked and answered, and what was recorded of applying it."""

    question: Mapping[str, Any]
    answered: Mapping[str, Any]
    applied: list[dict[str, Any]]
    described: list[str]


def by_key(rows: list[dict[str, Any]]) -> dict[QuotaKey, dict[str, Any]]:
    return {(row["quota_type"], row["quota_user"], row["quota_client_id"]): row for row in rows}


def name_of(key: QuotaKey) -> str:
    """Return how a change is chosen: ``users/bob/clients/etl:producer_byte_rate``."""
    quota_type, user, client_id = key
    parts = (("users", user), ("clients", client_id))
    entity = "/".join(f"{kind}/{name}" for kind, name in parts if name is not None)
    return f"{entity}:{quota_type}"


def described_line(key: QuotaKey, value: float) -> str:
    return f"Quota configs for {DESCRIBED[key]} are {key[0]}={value}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    (folder / "settings.toml").write_text(SETTINGS)
    return folder


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[RunningCluster]:
    load = load_of(FIRST)
    plan = plan_cluster(KAFKA_VERSION, load.cluster)
    with running_cluster(plan, load.users, folder / "brokers") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client_env() -> dict[str, str]:
    jar = maven_jar(f"org.apache.kafka:kafka-clients:{VERSION}")
    return {"QUOTA_AUDIT_KAFKA_CLIENTS_JAR": str(jar)}


@pytest.fixture(scope="module")
def first(cluster: RunningCluster, spark: SparkSession, folder: Path) -> AuditedLoad:
    """Return the audit of the load under the quotas that the scenario sets."""
    archive = carry(cluster, FIRST, folder / "first-capture")
    return audit(spark, archive, folder / "first-warehouse", folder / "settings.toml")


@pytest.fixture(scope="module")
def described_at_first(cluster: RunningCluster, first: AuditedLoad) -> list[str]:
    return described_quotas(KAFKA_VERSION, cluster.plan.plaintext_servers)


@pytest.fixture(scope="module")
def approved(
    cluster: RunningCluster,
    first: AuditedLoad,
    described_at_first: list[str],
    migrated_home: Path,
    client_env: dict[str, str],
) -> Approved:
    """Answer `all` through Airflow's REST API, and let its task apply it to the brokers."""
    env = {name: value for name, value in os.environ.items() if "QUOTA_AUDIT" not in name}
    (port,) = free_ports(1)
    servers = cluster.plan.plaintext_servers
    settings = {
        "QUOTA_AUDIT_WAREHOUSE": str(first.scope.warehouse),
        "QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS": servers,
        "QUOTA_AUDIT_KAFKA_DRY_RUN": "false",
        "QUOTA_AUDIT_KAFKA_ALLOW_DELETE": "true",
    }
    with airflow_server(migrated_home, port, {**env, **client_env, **settings}) as server:
        question, answered = approve_all(server, first)
    applied = first.rows("applied_changes")
    return Approved(question, answered, applied, described_quotas(KAFKA_VERSION, servers))


def approve_all(server: AirflowServer, load: AuditedLoad) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the question and the answer, once Airflow's task has applied what was approved."""
    server.until_dags_are_known()
    run = server.trigger(RECOMMEND_URL, cluster=CLUSTER, day=str(load.scope.day))
    run_url = f"{RECOMMEND_URL}/dagRuns/{run}"
    question = server.question(run_url)
    answered = server.answer(run_url, ["all"], NOTE)
    server.until_task(run_url, "apply_changes", "success")
    return question, answered


@pytest.fixture(scope="module")
def second(
    cluster: RunningCluster, spark: SparkSession, folder: Path, first: AuditedLoad,
    approved: Approved,
) -> AuditedLoad:  # fmt: skip
    """Return the audit of the same load under what was approved, beside the record of that."""
    archive = carry(cluster, SECOND, folder / "second-capture")
    warehouse = folder / "second-warehouse"
    shutil.copytree(first.scope.warehouse / "applied_changes", warehouse / "applied_changes")
    return audit(spark, archive, warehouse, folder / "settings.toml")


def test_exactly_the_five_wrong_values_are_proposed(first: AuditedLoad) -> None:
    rows = by_key(first.rows("recommendations"))
    kinds = {key: row["kind"] for key, row in rows.items() if row["status"] == "proposed"}
    assert kinds == {**dict.fromkeys(RAISED, "raise"), **dict.fromkeys(REMOVED, "reclaim")}
    assert {rows[key]["proposed"] for key in REMOVED} == {None}
    assert all(rows[key]["proposed"] > rows[key]["current"] for key in RAISED)
    # It asks for six times its quota: one step goes to four times it.
    assert (rows[ETL]["clamped_by"], rows[ETL]["proposed"]) == ("max_raise", 300_000.0)
    assert {rows[key]["clamped_by"] for key in (ALICE, REPORTS)} == {None}


def test_a_value_that_is_right_is_kept(first: AuditedLoad) -> None:
    rows = by_key(first.rows("recommendations"))
    assert {key for key, row in rows.items() if row["status"] != "proposed"} == {DAVE}
    assert (rows[DAVE]["status"], rows[DAVE]["throttle_time_ms_before"]) == ("keep", 0)


def test_what_is_approved_by_rest_is_applied_and_read_back(
    first: AuditedLoad, approved: Approved
) -> None:
    proposed = by_key(first.rows("recommendations"))
    assert set(approved.question["options"]) == {"all", "none", *map(name_of, RAISED + REMOVED)}
    assert approved.answered["responded_by"]["name"] == "admin"
    applied = by_key(approved.applied)
    assert set(applied) == {*RAISED, *REMOVED}
    for key, change in applied.items():
        assert (change["outcome"], change["is_read_back"]) == ("applied", True), change
        assert (change["applied_by"], change["note"]) == ("admin", NOTE)
        assert change["value_before"] == proposed[key]["current"]
        assert change["value_after"] == change["value_read_back"] == proposed[key]["proposed"]


def test_the_brokers_own_tool_describes_what_was_approved(
    first: AuditedLoad, described_at_first: list[str], approved: Approved
) -> None:
    rows = by_key(first.rows("recommendations"))
    assert described_at_first == sorted(
        described_line(key, row["current"]) for key, row in rows.items()
    )
    now = {**{key: rows[key]["proposed"] for key in RAISED}, DAVE: rows[DAVE]["current"]}
    assert approved.described == sorted(described_line(key, value) for key, value in now.items())


def test_throttling_after_is_as_predicted(
    request: pytest.FixtureRequest, first: AuditedLoad, approved: Approved, second: AuditedLoad
) -> None:
    applied = by_key(approved.applied)
    forecasts = {
        key: (
            first.logged_throttle_ms(*key),
            applied[key]["throttle_time_ms_after"],
            second.logged_throttle_ms(*key),
        )
        for key in RAISED
    }
    told = {
        key: f"{name_of(key)}: {applied[key]['value_before']:,.0f} → "
        f"{applied[key]['value_after']:,.0f} B/s, throttled for {before / 1000:.1f} s before, "
        f"{after / 1000:.1f} s predicted, {measured / 1000:.1f} s measured"
        for key, (before, after, measured) in forecasts.items()
    }
    # So that a run's figures can be read without a failure.
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *told.values(), sep="\n")
    off = [
        told[key]
        for key, (_, predicted, measured) in forecasts.items()
        if abs(predicted - measured) > max(MEASURED_SHARE_MAX * measured, MEASURED_MS_MAX)
    ]
    assert off == []
    assert forecasts[ETL][2] > 10 * MEASURED_MS_MAX, "nothing was left to be predicted"


def test_the_next_audit_says_what_became_of_each_change(second: AuditedLoad) -> None:
    results = {key: row["result"] for key, row in by_key(second.rows("change_results")).items()}
    assert results == {
        **dict.fromkeys(RAISED, AS_PREDICTED),
        **dict.fromkeys(REMOVED, NO_TRAFFIC),
    }


@pytest.mark.usefixtures("second")
def test_a_rollback_restores_the_first_state(
    cluster: RunningCluster,
    first: AuditedLoad,
    described_at_first: list[str],
    client_env: dict[str, str],
) -> None:
    servers = cluster.plan.plaintext_servers
    said = quota_audit(
        "rollback", "--warehouse", str(first.scope.warehouse), "--cluster", CLUSTER,
        "--bootstrap-server", servers, "--execute", env=client_env,
    )  # fmt: skip
    assert said.splitlines()[-1] == f"{len(RAISED + REMOVED)} applied"
    assert described_quotas(KAFKA_VERSION, servers) == described_at_first
