"""Twenty seconds of real brokers under their own rule again, and under others."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_jobs.audit.validate_tables import validate_stage
from spark_jobs.cli import print_whatif
from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.whatif.clients.normalized_requests import normalized_requests
from spark_jobs.whatif.clients.replay import outcome_rows
from spark_jobs.whatif.clients.scenario import Mode, ScenarioPolicy, read_scenario
from spark_jobs.whatif.policies.catalogue import POLICIES
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.whatif import whatif

pytestmark = pytest.mark.spark
CAPTURE = Path(__file__).parents[2] / "golden" / "captures" / "kafka-3.7.2"

SCENARIO = """
[[policy]]
name = "broker_bandwidth"
label = "in force"
[policy.config]
"broker.version" = "3.7.2"

[[policy]]
name = "broker_controller_mutation"
[policy.config]
"broker.version" = "3.7.2"

[[policy]]
name = "broker_bandwidth"
label = "nothing for alice"
[[policy.config.quotas]]
user = "alice"
producer_byte_rate = 0.5

[[policy]]
name = "kip13_cluster_wide"
[policy.config]
"quota.producer.default" = "4K"

[[policy]]
name = "kip13_immediate_error"
[policy.config]
"quota.producer.default" = "4K"
"""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def scope(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    warehouse = tmp_path_factory.mktemp("whatif")
    archive = find_archive(CAPTURE, "default")
    report = ingest_requests(spark, archive, warehouse, None, IngestOptions.of())
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    return scope


@pytest.fixture(scope="module")
def rows(spark: SparkSession, scope: RunScope) -> list[Row]:
    return whatif(spark, scope, read_scenario(SCENARIO, "scenario")).to_pylist()


def of(rows: list[Row], label: str, kind: str) -> dict[tuple[int, str, str], Row]:
    return {
        (row["broker_id"], row["user"], row["client_id"]): row
        for row in rows
        if (row["label"], row["kind"]) == (label, kind)
    }


def logged_throttles(scope: RunScope, api_names: set[str], **where: Any) -> dict[Any, int]:
    found: dict[Any, int] = defaultdict(int)
    for row in read_table(scope, "requests").to_pylist():
        if row["api_name"] in api_names and all(row[k] == v for k, v in where.items()):
            found[row["broker_id"], row["user"], row["client_id"]] += row["throttle_time_ms"]
    return {client: total for client, total in found.items() if total}


def test_the_rule_that_was_in_force_gives_the_throttles_that_were_logged(
    scope: RunScope, rows: list[Row]
) -> None:
    logged = logged_throttles(scope, {"PRODUCE"})
    found = of(rows, "in force", "produce")
    # Erin is throttled by her request quota, which this is not.
    bandwidth = {client: ms for client, ms in logged.items() if client[1] != "erin"}
    assert {client[1] for client in bandwidth} == {"alice"}
    for client, throttled_ms in bandwidth.items():
        assert found[client]["throttle_time_ms"] == pytest.approx(throttled_ms, rel=0.02, abs=20)


def test_mutations_are_decided_once_and_as_the_controller_did(
    scope: RunScope, rows: list[Row]
) -> None:
    found = of(rows, "broker_controller_mutation", "mutation")
    decided = [
        row
        for row in read_table(scope, "requests").to_pylist()
        if row["mutations"] and row["is_forwarded"] and row["user"] == "carol"
    ]
    refused = sum(any(m["error_code"] == 89 for m in row["mutations"]) for row in decided)
    (carol,) = (row for (_, user, _), row in found.items() if user == "carol")
    assert carol["requests"] == len(decided) > 0
    assert refused > 0
    assert carol["refused_requests"] == refused
    throttled_ms = sum(row["throttle_time_ms"] for row in decided)
    assert carol["throttle_time_ms"] == pytest.approx(throttled_ms, rel=0.02)


def test_quotas_of_the_scenario_stand_in_place_of_the_logs(rows: list[Row]) -> None:
    found = of(rows, "nothing for alice", "produce")
    throttled = {user for (_, user, _), row in found.items() if row["throttle_time_ms"]}
    assert throttled == {"alice"}


def test_states_of_the_whole_cluster_count_what_other_brokers_serve(
    scope: RunScope, rows: list[Row]
) -> None:
    """Spark's one task gives what the requests of all brokers in one order give."""
    lines = [r for r in read_table(scope, "requests").to_pylist() if r["api_name"] == "PRODUCE"]
    lines.sort(key=lambda r: (r["recorded_estimate_us"], r["source_file"], r["source_line"]))
    policy = ScenarioPolicy("kip13_cluster_wide", "c", {"quota.producer.default": "4K"})
    expected = outcome_rows(policy, normalized_requests(lines))
    found = of(rows, "kip13_cluster_wide", "produce").values()
    assert [r | {"label": "c"} for r in found] == expected
    assert sum(r["throttle_time_ms"] for r in expected) > 0


def test_each_brokers_states_are_its_own(scope: RunScope, rows: list[Row]) -> None:
    policy = ScenarioPolicy("kip13_immediate_error", "e", {"quota.producer.default": "4K"})
    lines = [r for r in read_table(scope, "requests").to_pylist() if r["api_name"] == "PRODUCE"]
    lines.sort(key=lambda r: (r["recorded_estimate_us"], r["source_file"], r["source_line"]))
    expected = [
        row
        for broker_id in (1, 2)
        for row in outcome_rows(
            policy, normalized_requests(r for r in lines if r["broker_id"] == broker_id)
        )
    ]
    found = of(rows, "kip13_immediate_error", "produce").values()
    assert [r | {"label": "e"} for r in found] == expected
    assert sum(r["refused"] for r in expected) > 0


def test_clients_that_answer_the_rule_that_was_in_force_do_as_they_did(
    spark: SparkSession, scope: RunScope
) -> None:
    policies = [ScenarioPolicy("broker_client_quotas", "q"), ScenarioPolicy("kip13", "k")]
    both = [Mode.AS_LOGGED, Mode.CLOSED_LOOP]
    found = whatif(spark, scope, policies, both).to_pylist()
    modes = {mode: of([r for r in found if r["mode"] == mode], "q", "produce") for mode in both}
    as_logged, closed_loop = modes[Mode.AS_LOGGED], modes[Mode.CLOSED_LOOP]
    assert as_logged.keys() == closed_loop.keys()
    alice = [client for client in as_logged if client[1] == "alice"]
    assert alice
    for client in alice:
        logged, played = as_logged[client], closed_loop[client]
        assert played["admitted"] == pytest.approx(logged["admitted"], rel=0.02)
        assert played["throttle_time_ms"] == pytest.approx(logged["throttle_time_ms"], rel=0.15)
    # Nothing throttled, so nobody does anything else: but what was throttled comes sooner.
    free = of([r for r in found if r["mode"] == Mode.CLOSED_LOOP], "k", "produce")
    assert sum(r["throttle_time_ms"] for r in free.values()) == 0
    assert {c: r["admitted"] for c, r in free.items()} == pytest.approx(
        {c: r["asked"] for c, r in as_logged.items()}
    )


def test_mutations_in_the_closed_loop_are_decided_by_the_controller(
    spark: SparkSession, scope: RunScope, rows: list[Row]
) -> None:
    policy = ScenarioPolicy("broker_controller_mutation", "m")
    found = of(whatif(spark, scope, [policy], [Mode.CLOSED_LOOP]).to_pylist(), "m", "mutation")
    (played,) = (row for (_, user, _), row in found.items() if user == "carol")
    (logged,) = (
        row
        for (_, user, _), row in of(rows, "broker_controller_mutation", "mutation").items()
        if user == "carol"
    )
    assert played["broker_id"] == logged["broker_id"]
    assert played["throttle_time_ms"] > 0
    assert played["admitted"] == pytest.approx(logged["admitted"], rel=0.1)


@pytest.mark.parametrize("mode", Mode)
def test_every_policy_replays_the_day_into_the_table_and_breaks_no_rule(
    spark: SparkSession, scope: RunScope, mode: Mode
) -> None:
    configs = {"broker_side_v1": {"total.bytes.in.per.sec.threshold": 5_000}}
    policies = [ScenarioPolicy(name, name, configs.get(name, {})) for name in POLICIES]
    found = whatif(spark, scope, policies, [mode])
    assert set(found["mode"].to_pylist()) == {mode}
    assert list(dict.fromkeys(found["label"].to_pylist())) == list(POLICIES)
    assert found.schema == WHATIF
    assert read_table(scope, "whatif") == found
    assert "whatif" in validate_stage(scope, "whatif", spark)


def test_a_day_that_was_not_ingested_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scope = RunScope(tmp_path, "default", dt.date(2026, 1, 2))
    with pytest.raises(BadInputError, match=r"no requests of the cluster 'default' on 2026-01-02"):
        whatif(spark, scope, [ScenarioPolicy("kip13", "kip13")])


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["whatif", *map(str, arguments)])


@pytest.fixture
def with_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command work in the tests' session, which it would otherwise end."""
    monkeypatch.setattr(print_whatif, "spark_session", lambda step: nullcontext(spark))


@pytest.mark.usefixtures("with_spark")
def test_an_archive_is_ingested_first_and_the_mode_is_said_on_top(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(SCENARIO, "utf-8")
    found = invoke(CAPTURE, "--scenario", scenario, "--policy", "in force", "--policy", "kip13")
    assert isinstance(found.exception, BadInputError)
    assert "there is no policy 'kip13' in it; there are: in force," in str(found.exception)
    found = invoke(CAPTURE, "--scenario", scenario, "--policy", "in force")
    assert found.exit_code == 0, found.exception
    assert found.output.startswith("mode: as logged: every request arrives when the log says")
    (alice,) = (line for line in found.output.splitlines() if "1       alice:orders-app" in line)
    assert "in force" in alice
    assert "nothing for alice" not in found.output


@pytest.mark.usefixtures("with_spark")
def test_a_warehouse_is_read_and_printed_as_json(scope: RunScope) -> None:
    arguments = ("-w", scope.warehouse, "--policy", "kip13", "--json")
    found = invoke(*arguments, "--day", scope.day)
    assert found.exit_code == 0, found.exception
    printed = json.loads(found.output)
    assert printed["mode"] == "as_logged"
    assert printed["days"] == {str(scope.day): read_table(scope, "whatif").to_pylist()}
    assert {row["label"] for row in printed["days"][str(scope.day)]} == {"kip13"}
    page = scope.shown_dir("reports") / "whatif.html"
    assert "kip13" in page.read_text("utf-8")
    assert invoke(*arguments[:-1], "--day", scope.day).output.endswith(f"page: {page}\n")
    other_day = invoke(*arguments, "--day", "2020-01-01")
    assert f"on 2020-01-01; the days there are: {scope.day}." in str(other_day.exception)


def test_the_names_of_all_policies_are_listed_one_a_line() -> None:
    found = invoke("--list-policies")
    assert found.exit_code == 0
    assert found.output.splitlines() == list(POLICIES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "found neither --scenario nor --policy"),
        (("--policy", "kip14"), "no policy is called 'kip14'"),
        (("--scenario", "no-such.toml"), "no-such.toml: No such file"),
        (("--policy", "broker_side_v1"), "there is no default"),
        (("--policy", "kip13", "--mode", "open_loop"), "it is one of as_logged, closed_loop, both"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_spark_starts(
    arguments: tuple[str, ...], message: str
) -> None:
    found = invoke(CAPTURE, *arguments)
    assert isinstance(found.exception, BadInputError | PolicyConfigError)
    assert message in str(found.exception)
