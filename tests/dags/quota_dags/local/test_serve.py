from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from quota_dags.local.serve import (
    COMPONENTS,
    Components,
    check_port_free,
    serve_environment,
    server_environment,
    stop_requests,
    unhealthy_parts,
    wait_until_healthy,
    write_passwords,
)
from quota_dags.process import session_members
from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.settings import ServeSettings
from tests.builders.airflow_server import AUDIT_URL, RECOMMEND_URL, AirflowServer, airflow_server
from tests.builders.tables_builder import DAY, row, scope_in, write_rows
from tests.endurance.living_processes import living

if TYPE_CHECKING:
    from tests.conftest import FakeSteps

ROOT = Path(__file__).parents[4]
SLOW = "slow-cluster"


@pytest.fixture(scope="module")
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_every_component_is_told_the_port_that_tasks_report_to() -> None:
    env = server_environment(18080, "auditor", Path("/home/passwords.json"))
    assert env["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert env["AIRFLOW__API__PORT"] == "18080"
    assert env["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"
    assert env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18080/execution/"
    assert env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "auditor:admin"
    assert env["NO_PROXY"] == env["no_proxy"] == "127.0.0.1"


def test_no_component_serves_logs_on_a_port_of_its_own() -> None:
    assert {name for name, call in COMPONENTS.items() if "--skip-serve-logs" in call} == {
        *["scheduler", "triggerer"],
    }
    assert COMPONENTS["dag-processor"] == ("dag-processor",)
    assert COMPONENTS["api-server"] == ("api-server",)


def test_a_given_password_reaches_the_components_through_the_file_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_SERVE_PASSWORD", "open sesame")
    monkeypatch.setenv("QUOTA_AUDIT_WAREHOUSE", "relative/warehouse")
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_COMMAND_CONFIG", "admin.properties")
    west = {"west": {"bootstrap_servers": "w:9093", "command_config": "w.properties"}}
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_TARGETS", json.dumps(west))
    env = serve_environment(tmp_path, ROOT)
    assert "open sesame" not in env.values()
    assert "open sesame" not in repr(ServeSettings())
    assert env["QUOTA_AUDIT_WAREHOUSE"] == str(Path.cwd() / "relative/warehouse")
    assert env["QUOTA_AUDIT_KAFKA_COMMAND_CONFIG"] == str(Path.cwd() / "admin.properties")
    assert json.loads(env["QUOTA_AUDIT_KAFKA_TARGETS"]) == {
        "west": {"bootstrap_servers": "w:9093", "command_config": str(Path.cwd() / "w.properties")}
    }


def test_a_password_is_made_up_kept_and_replaced_by_a_given_one(tmp_path: Path) -> None:
    path = tmp_path / "passwords.json"
    write_passwords(path, "admin", None)
    made_up = json.loads(path.read_text())["admin"]
    assert len(made_up) >= 20
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_passwords(path, "admin", None)
    assert json.loads(path.read_text()) == {"admin": made_up}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_passwords(path, "admin", "open sesame")
    assert json.loads(path.read_text()) == {"admin": "open sesame"}


def test_a_taken_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match=f"port {port} of 127.0.0.1 .*--port"):
            check_port_free(port)


def test_a_server_that_does_not_answer_is_not_healthy(free_port: int) -> None:
    assert unhealthy_parts(free_port) == ["api-server"]


def test_the_wait_ends_when_asked_to_stop_and_when_the_time_is_up(
    free_port: int, tmp_path: Path
) -> None:
    components = Components({}, tmp_path, tmp_path / "logs", grace_s=1.0)
    stop = threading.Event()
    with pytest.raises(AuditFailedError, match=r"not healthy after 0 s: api-server. Logs: "):
        wait_until_healthy(components, free_port, stop, within_s=0.0)
    stop.set()
    assert wait_until_healthy(components, free_port, stop, within_s=60.0) is False


def test_a_component_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    components = Components({"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "logs", grace_s=3.0)
    components.start({name: ["sh", "-c", "echo so far; exit 3"] for name in COMPONENTS})
    try:
        for process in components.processes():
            process.wait()
        with pytest.raises(
            AuditFailedError, match="scheduler ended with exit code 3 and said last"
        ):
            components.check_alive()
    finally:
        assert components.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_to_stop_and_the_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_requests() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(5)
    assert signal.getsignal(number) == before


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve") / "warehouse"


@pytest.fixture(scope="module")
def steps(fake_steps_in: Callable[[Path], FakeSteps], warehouse: Path) -> FakeSteps:
    return fake_steps_in(warehouse.parent)


@pytest.fixture(scope="module")
def server(
    migrated_home: Path, steps: FakeSteps, free_port: int, warehouse: Path
) -> Iterator[AirflowServer]:
    env = {
        **{name: value for name, value in os.environ.items() if "SERVE" not in name},
        **steps.env,
        "FAKE_STEPS_EXIT": json.dumps({"validate": 1}),
        "FAKE_STEPS_HANG": SLOW,
        "QUOTA_AUDIT_WAREHOUSE": str(warehouse),
        "QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS": "broker-1:9092",
        # Nothing listens there: what goes through a proxy fails.
        "http_proxy": "http://127.0.0.1:9",
    }
    with airflow_server(migrated_home, free_port, env) as server:
        yield server


@pytest.mark.airflow
def test_the_server_says_where_it_is_and_where_the_password_is(server: AirflowServer) -> None:
    said = "".join(server.said)
    assert f"http://127.0.0.1:{server.port}" in said
    assert f"user admin, password in {server.home / 'passwords.json'}" in said
    assert unhealthy_parts(server.port) == []


@pytest.mark.airflow
def test_the_password_is_in_its_file_and_nowhere_else(server: AirflowServer) -> None:
    password = json.loads((server.home / "passwords.json").read_text())["admin"]
    assert password not in "".join(server.said)
    holders = [p for p in server.home.rglob("*") if p.is_file() and holds(p, password)]
    assert holders == [server.home / "passwords.json"]
    for process in session_members(server.process.pid):
        # Its short-lived ones may have gone since they were listed.
        with suppress(psutil.NoSuchProcess):
            assert password not in " ".join(process.cmdline())


def holds(path: Path, text: str) -> bool:
    """Tell if a file that is still there holds a text: the database's journal comes and goes."""
    try:
        return text.encode() in path.read_bytes()
    except FileNotFoundError:
        return False


@pytest.mark.airflow
def test_one_port_is_open_and_on_the_loopback_only(server: AirflowServer) -> None:
    members = session_members(server.process.pid)
    assert len(members) > len(COMPONENTS)
    listening = set()
    for member in members:
        with suppress(psutil.NoSuchProcess):
            listening |= {
                (connection.laddr.ip, connection.laddr.port)
                for connection in member.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
    assert listening == {("127.0.0.1", server.port)}


@pytest.mark.airflow
def test_the_reports_are_for_users_only(server: AirflowServer) -> None:
    import httpx

    page = f"http://127.0.0.1:{server.port}/quota-audit/"
    assert httpx.get(page, trust_env=False, timeout=60).status_code == 401
    assert server.api.get(page).status_code == 200


@pytest.mark.airflow
def test_a_backfill_audits_its_own_day_and_a_failing_step_says_why_once(
    server: AirflowServer, steps: FakeSteps
) -> None:
    # Airflow refuses a backfill (503) while something else is being written to SQLite: a DAG.
    server.until_dags_are_known()
    server.call("PATCH", AUDIT_URL, {"is_paused": False})
    backfill = {
        "dag_id": "quota_audit_daily",
        "from_date": "2026-11-03T00:00:00Z",
        "to_date": "2026-11-03T00:00:00Z",
    }

    def accepted() -> bool:
        answer = server.api.post("/api/v2/backfills", json=backfill)
        assert answer.is_success or answer.status_code == 503, answer.text
        return answer.is_success

    server.until(accepted, "backfill that is accepted")

    def failed_run() -> Any:
        runs = server.call("GET", f"{AUDIT_URL}/dagRuns?run_type=backfill&state=failed")
        return runs["dag_runs"]

    (run,) = server.until(failed_run, "failed backfill")
    days = [call[call.index("--day") + 1] for call in steps.calls()]
    assert [call[0] for call, day in zip(steps.calls(), days, strict=True)
            if day == "2026-11-03"] == ["ingest", "validate"]  # fmt: skip
    tasks = f"{AUDIT_URL}/dagRuns/{run['dag_run_id']}/taskInstances"
    log = server.call("GET", f"{tasks}/validate_ingested/logs/1")["content"]
    said = "error: [fake] validate ends with 1"
    assert said in [line["event"] for line in log]
    reasons = [e["exc_value"] for line in log for e in line.get("error_detail", [])]
    assert reasons == [said]


@pytest.mark.airflow
def test_only_what_a_person_approves_by_rest_is_applied_in_that_person_s_name(
    server: AirflowServer, steps: FakeSteps, warehouse: Path
) -> None:
    proposed = [row("recommendations", quota_user=user) for user in ("alice", "bob", "{{ 7*7 }}")]
    write_rows(scope_in(warehouse), "recommendations", proposed)
    alice, bob, hostile = (
        f"users/{name}:producer_byte_rate" for name in ("alice", "bob", "%7B%7B%207%2A7%20%7D%7D")
    )
    server.until_dags_are_known()
    run = server.trigger(RECOMMEND_URL, day=str(DAY))
    run_url = f"{RECOMMEND_URL}/dagRuns/{run}"
    question = server.question(run_url)
    assert question["options"] == ["all", "none", hostile, alice, bob]
    assert f"| `{hostile}` | 50,000" in question["body"]
    answered = server.answer(run_url, [bob, hostile], "for Friday")
    assert answered["responded_by"]["name"] == "admin"
    server.until_task(run_url, "apply_changes", "success")
    (applied,) = [call for call in steps.calls() if call[0] == "apply"]
    plan = question["params"]["plan"]["value"]
    assert applied == [
        *["apply", "--warehouse", str(warehouse), "--cluster", "default", "--day", str(DAY)],
        *["--bootstrap-server", "broker-1:9092", "--only", f"{hostile}:50000:100000"],
        *["--only", f"{bob}:50000:100000"],
        *["--by=admin", "--asked-by=admin", "--plan", plan, "--note=for Friday"],
    ]


@pytest.mark.airflow
def test_what_is_read_again_after_the_answer_is_not_applied(
    server: AirflowServer, steps: FakeSteps, warehouse: Path
) -> None:
    def propose(value: float) -> None:
        proposed = [row("recommendations", quota_user=u, proposed=value) for u in ("carol", "dora")]
        write_rows(scope_in(warehouse), "recommendations", proposed)

    propose(100_000.0)
    run_url = f"{RECOMMEND_URL}/dagRuns/{server.trigger(RECOMMEND_URL, day=str(DAY))}"
    question = server.question(run_url)
    server.answer(run_url, ["all"], "")
    server.until_task(run_url, "apply_changes", "success")
    applied = [call for call in steps.calls() if call[0] == "apply"]
    assert applied[-1][-3:] == ["--asked-by=admin", "--plan", question["params"]["plan"]["value"]]
    propose(900_000.0)
    for task, ends in ("read_proposals", "success"), ("apply_changes", "failed"):
        server.clear(run_url, task)
        server.until_task(run_url, task, ends)
    assert [call for call in steps.calls() if call[0] == "apply"] == applied


@pytest.mark.airflow
def test_failing_a_running_task_by_hand_ends_its_step_and_all_it_started(
    server: AirflowServer, steps: FakeSteps
) -> None:
    run = server.trigger(cluster=SLOW, day="2026-11-04")
    (pids,) = server.until(steps.hanging, "hanging step")
    assert living(pids) == list(pids)
    task = f"{AUDIT_URL}/dagRuns/{run}/taskInstances/ingest_requests"
    server.call("PATCH", task, {"new_state": "failed"})
    server.until(lambda: not living(pids), "end of the step", within_s=60.0)


@pytest.mark.airflow
def test_ctrl_c_ends_the_server_and_the_running_step_and_leaves_nothing(
    server: AirflowServer, steps: FakeSteps
) -> None:
    server.trigger(cluster=SLOW, day="2026-11-05")
    server.until(lambda: len(steps.hanging()) == 2, "second hanging step")
    pids = [member.pid for member in session_members(server.process.pid)]
    assert set(steps.hanging()[1]) < set(pids)
    server.process.send_signal(signal.SIGINT)
    said, _ = server.process.communicate()
    assert server.process.returncode == 0, said
    assert said.startswith("Airflow has ended")
    assert living(pids) == []
