"""What compose.yaml runs of Airflow, with its environment and commands, on a real PostgreSQL."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quota_dags.local.airflow_home import airflow_command
from quota_dags.local.serve import Components, wait_until_healthy
from spark_jobs.warehouse.pipeline import STEPS
from tests.builders.airflow_server import AUDIT_URL, AirflowServer
from tests.docker.compose_file import ROOT, compose_file
from tests.docker.postgres_server import HOW_TO_GET_ONE, binaries, postgres_server

if TYPE_CHECKING:
    from tests.conftest import FakeSteps

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(binaries() is None, reason=HOW_TO_GET_ONE),
]
COMPONENTS = ("scheduler", "triggerer", "dag-processor", "api-server")
# Every character that an address would take for something else.
PASSWORD = "p@ss/w:o%r#d?&=+"


@dataclass(frozen=True, slots=True)
class Installation:
    """compose.yaml on this machine: folders, hosts and ports of the containers replaced."""

    services: Any
    places: Mapping[str, str]
    extra: Mapping[str, str]

    def environment(self, service: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if "AIRFLOW" not in name}
        given = {n: self.here(str(v)) for n, v in self.services[service]["environment"].items()}
        return {**own, **given, **self.extra}

    def command(self, words: Sequence[str]) -> list[str]:
        program, *arguments = [self.here(word) for word in words]
        return airflow_command(*arguments) if program == "airflow" else [sys.executable, *arguments]

    def here(self, text: str) -> str:
        for there, place in self.places.items():
            text = text.replace(there, place)
        return text


@dataclass(frozen=True, slots=True)
class Running:
    """All four components, and the database below them."""

    installation: Installation
    server: AirflowServer
    steps: FakeSteps
    database: Mapping[str, Any]

    def query(self, sql: str) -> list[Any]:
        import psycopg2

        connection = psycopg2.connect(**self.database)
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, fake_steps_in: Callable[[Path], FakeSteps]
) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("installation")
    postgres, api, health = free_ports(3)
    subprocess.run(
        [sys.executable, str(ROOT / "docker" / "make_secrets.py"), str(home / "secrets")],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (home / "secrets" / "postgres_password").chmod(0o600)
    (home / "secrets" / "postgres_password").write_text(PASSWORD)
    (home / "auth").mkdir()
    steps = fake_steps_in(home)
    asked = {"ARCHIVE": "/logs", "SECRETS": str(home / "secrets"), "PORT": str(api)}
    installation = Installation(
        compose_file({**asked, "PARALLELISM": "2"})["services"],
        {
            "postgres:5432": f"127.0.0.1:{postgres}",
            "api-server:8080": f"127.0.0.1:{api}",
            "127.0.0.1:8080": f"127.0.0.1:{api}",
            "127.0.0.1:8974": f"127.0.0.1:{health}",
            "0.0.0.0": "127.0.0.1",
            "/run/secrets": str(home / "secrets"),
            "/airflow/": f"{home}/",
            "/opt/quota-audit": str(ROOT),
            "python ": f"{shlex.quote(sys.executable)} ",
        },
        {
            **steps.env,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__API__PORT": str(api),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(health),
            "QUOTA_AUDIT_WAREHOUSE": str(home / "warehouse"),
            "PYTHONPATH": str(ROOT),
            "NO_PROXY": "127.0.0.1",
        },
    )
    database = {"host": "127.0.0.1", "port": postgres, "user": "airflow", "dbname": "airflow"}
    with postgres_server(home, postgres, PASSWORD), started(installation, home, api) as server:
        yield Running(installation, server, steps, {**database, "password": PASSWORD})


@contextmanager
def started(installation: Installation, home: Path, port: int) -> Iterator[AirflowServer]:
    import httpx

    services = installation.services
    prepared = subprocess.run(
        installation.command(services["init"]["command"]),
        env=installation.environment("init"), capture_output=True, text=True,
    )  # fmt: skip
    assert prepared.returncode == 0, prepared.stdout[-2000:] + prepared.stderr[-2000:]
    assert PASSWORD not in prepared.stdout
    env = installation.environment("scheduler")
    components = Components(env, ROOT, home / "serve-logs", grace_s=2.0)
    components.start({n: installation.command(services[n]["command"]) for n in COMPONENTS})
    try:
        wait_until_healthy(components, port, threading.Event(), within_s=120.0)
        password = (home / "secrets" / "admin_password").read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as api:
            login = api.post("/auth/token", json={"username": "admin", "password": password})
            api.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
            yield AirflowServer(components.processes()[0], port, home, [], api)  # type: ignore[arg-type]
    finally:
        components.stop()


def test_a_triggered_audit_runs_all_its_steps_and_is_in_postgresql(running: Running) -> None:
    server = running.server
    server.until_dags_are_known()
    server.call("PATCH", AUDIT_URL, {"is_paused": False})
    run = server.trigger(day="2026-11-10", cluster="east")
    server.until(
        lambda: server.call("GET", f"{AUDIT_URL}/dagRuns/{run}")["state"] == "success", run
    )
    asked = [call[0] for call in running.steps.calls() if "east" in call]
    assert len(asked) == len(STEPS)
    states = running.query(f"SELECT state FROM task_instance WHERE run_id = '{run}'")
    assert states == [("success",)] * len(STEPS)
    assert not list(server.home.glob("*.db")), "nothing may have gone to SQLite"


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_health_checks_say_yes(running: Running, name: str) -> None:
    installation = running.installation
    kind, *words = installation.services[name]["healthcheck"]["test"]
    assert kind == "CMD"
    done = subprocess.run(
        installation.command(words), env=installation.environment(name),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_secret_is_in_a_log_or_a_process_s_arguments(running: Running) -> None:
    import psutil

    secrets = [path.read_text() for path in (running.server.home / "secrets").iterdir()]
    said = [log.read_text() for log in (running.server.home / "serve-logs").iterdir()]
    arguments = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert len(said) == len(COMPONENTS)
    assert not [secret for secret in secrets for text in said + arguments if secret in text]
