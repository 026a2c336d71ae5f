"""The Airflow of `make serve`, started as a user starts it and driven by REST."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).parents[2]
AUDIT_URL = "/api/v2/dags/quota_audit_daily"
RECOMMEND_URL = "/api/v2/dags/quota_recommend"
_ENDED_BADLY = ("failed", "upstream_failed", "skipped")


@dataclass(frozen=True, slots=True)
class AirflowServer:
    """A running server, logged in to."""

    process: subprocess.Popen[str]
    port: int
    home: Path
    said: list[str]
    api: httpx.Client

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def until(self, condition: Callable[[], Any], what: str, within_s: float = 240.0) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert self.process.poll() is None, f"the server ended while waiting for {what}"
            assert time.monotonic() < deadline, f"no {what} after {within_s:.0f} s"
            time.sleep(0.3)
        return found

    def until_dags_are_known(self) -> None:
        self.until(lambda: self.call("GET", "/api/v2/dags")["total_entries"] == 3, "DAGs")

    def trigger(self, dag_url: str = AUDIT_URL, **conf: Any) -> str:
        body = {"logical_date": None, "conf": conf}
        return str(self.call("POST", f"{dag_url}/dagRuns", body)["dag_run_id"])

    def until_task(self, run_url: str, task: str, wanted: str) -> None:
        """Return when a task has a state; AssertionError where it ends in a bad one."""

        def is_reached() -> bool:
            found = self.call("GET", f"{run_url}/taskInstances/{task}")["state"]
            assert found == wanted or found not in _ENDED_BADLY, found
            return bool(found == wanted)

        self.until(is_reached, f"{task} that is {wanted}")

    def clear(self, run_url: str, task: str) -> None:
        """Let a task of a run, and none behind it, run again, once the run has ended.

        A scheduler that is just about to end the run would never start the task.
        """
        ended = ("success", "failed")
        self.until(lambda: self.call("GET", run_url)["state"] in ended, "end of the run")
        dag_url, _, run = run_url.partition("/dagRuns/")
        chosen = {"dag_run_id": run, "task_ids": [task], "only_failed": False}
        self.call("POST", f"{dag_url}/clearTaskInstances", {**chosen, "dry_run": False})

    def question(self, run_url: str) -> Any:
        """Return what the run of ``quota_recommend`` asks, once an answer is not dropped."""
        run = run_url.rpartition("/")[2]

        def is_parked() -> bool:
            """Return whether the scheduler has seen the asking task end (docs/airflow.md)."""
            lines = (self.home / "serve-logs" / "scheduler.log").read_text().splitlines()
            ended = (line for line in lines if "TaskInstance Finished" in line)
            return any("task_id=approve" in line and run in line for line in ended)

        self.until_task(run_url, "approve", "awaiting_input")
        self.until(is_parked, "scheduler that knows of the question")
        return self.call("GET", f"{run_url}/taskInstances/approve/-1/hitlDetails")

    def answer(self, run_url: str, chosen: list[str], note: str) -> Any:
        """Answer as the page does: the question's plan comes back."""
        address = f"{run_url}/taskInstances/approve/-1/hitlDetails"
        plan = self.call("GET", address)["params"]["plan"]["value"]
        body = {"chosen_options": chosen, "params_input": {"note": note, "plan": plan}}
        return self.call("PATCH", address, body)


@contextmanager
def airflow_server(home: Path, port: int, env: Mapping[str, str]) -> Iterator[AirflowServer]:
    """Run `make serve` in a migrated ``home`` while the block lasts."""
    import httpx

    command = [sys.executable, "-m", "quota_dags.local.serve", "--home", str(home)]
    process = subprocess.Popen(
        [*command, "--port", str(port)], cwd=ROOT, env=dict(env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said: list[str] = []
        while not any("Ctrl-C ends it" in line for line in said):
            said.append(process.stdout.readline())
            assert said[-1], f"the server ended: {said}"
        password = json.loads((home / "passwords.json").read_text())["admin"]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as api:
            login = api.post("/auth/token", json={"username": "admin", "password": password})
            api.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
            yield AirflowServer(process, port, home, said, api)
    finally:
        process.terminate()
        process.wait()
