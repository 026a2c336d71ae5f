"""`make serve`: Airflow's four components on 127.0.0.1, started and ended together.

`airflow standalone` opens its log servers on every interface and leaves processes behind; here
each component is a session of its own without a log server, and ending means that none of their
processes is left.
"""

from __future__ import annotations

import json
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from quota_dags.local.airflow_home import (
    airflow_command,
    airflow_environment,
    find_project,
    prepare_home,
    run_app,
)
from quota_dags.process import end_processes, session_members
from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings, ServeSettings

HOST = "127.0.0.1"
API_SERVER = "api-server"
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    API_SERVER: ("api-server",),
}
_HEALTH_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")
_POLL_S = 0.5
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CONSOLE = Console(soft_wrap=True, highlight=False)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def server_environment(
    port: int, user: str, passwords: Path, listen_on: str = HOST
) -> dict[str, str]:
    """Return the variables that, besides the home's, make the components one local server."""
    url = f"http://{HOST}:{port}"
    return {
        "AIRFLOW__API__HOST": listen_on,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": url,
        # Without it, tasks of a server on another port would report to port 8080.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{user}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        # A proxy of the shell's must not come between a task and its server.
        "NO_PROXY": HOST,
        "no_proxy": HOST,
    }


def write_passwords(path: Path, user: str, password: str | None) -> None:
    """Make ``path`` (mode 0600) hold a password of ``user``.

    A given password replaces the one in the file; without one the file's is kept; where there is
    none either, one is made up. Airflow would make one up too, and print it into its log.
    """
    known = json.loads(path.read_text()) if path.exists() else {}
    known[user] = password or known.get(user) or secrets.token_urlsafe(16)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(json.dumps(known) + "\n")


def check_port_free(port: int, listen_on: str = HOST) -> None:
    """Raise BadInputError where something already listens on ``port``."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen_on, port))
        except OSError as error:
            raise BadInputError(
                f"port {port} of {listen_on} cannot be used: {error.strerror}. Another server may "
                "be running; choose another port with --port or QUOTA_AUDIT_SERVE_PORT."
            ) from error


def unhealthy_parts(port: int) -> list[str]:
    """Return the parts of the server on ``port`` that are not healthy yet; none = ready."""
    try:
        with _NO_PROXY.open(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
            health = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return [API_SERVER]
    return [part for part in _HEALTH_PARTS if health.get(part, {}).get("status") != "healthy"]


class Components:
    """The running components: sessions of their own, whose output goes to a file each."""

    def __init__(self, env: Mapping[str, str], cwd: Path, logs: Path, grace_s: float) -> None:
        self._env, self._cwd, self._logs, self._grace_s = env, cwd, logs, grace_s
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Start every component by its command."""
        self._logs.mkdir(parents=True, exist_ok=True)
        for name, command in commands.items():
            with self.log(name).open("wb") as log:
                self._running[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._env,
                    cwd=self._cwd,
                    start_new_session=True,
                )

    def processes(self) -> list[subprocess.Popen[bytes]]:
        """Return the first process of each component."""
        return list(self._running.values())

    def log(self, name: str) -> Path:
        """Return the file with a component's output."""
        return self._logs / f"{name}.log"

    def check_alive(self) -> None:
        """Raise AuditFailedError with the log's path where a component has ended."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                lines = self.log(name).read_text(errors="replace").split("\n")
                said = next((line for line in reversed(lines) if line.strip()), "nothing")
                raise AuditFailedError(
                    f"{name} ended with exit code {code} and said last: {said}. "
                    f"The whole log is {self.log(name)}."
                )

    def stop(self) -> int:
        """End all components and everything they started; return how many had to be killed."""
        server = self._running.pop(API_SERVER, None)
        # Last, so that a task that is interrupted can still tell the server so.
        rounds = [list(self._running.values()), [server] if server else []]
        self._running.clear()
        return sum(_end_sessions(processes, self._grace_s) for processes in rounds)


def _end_sessions(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> int:
    # Listed while the parents live: a task's step is found as a child, in a session of its own.
    members = [member for process in processes for member in session_members(process.pid)]
    killed = len(end_processes(members, grace_s))
    for process in processes:
        killed += len(end_processes(session_members(process.pid), grace_s=0.0))
        process.wait()
    return killed


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, SIGTERM or a closed terminal sets."""
    event = threading.Event()

    def request(signum: int, frame: FrameType | None) -> None:
        event.set()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, request) for number in signals}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def wait_until_healthy(
    components: Components, port: int, stop: threading.Event, within_s: float
) -> bool:
    """Return True when the server is ready, False when asked to stop before.

    Raises AuditFailedError where a component ends or the time is up.
    """
    deadline = time.monotonic() + within_s
    while missing := unhealthy_parts(port):
        components.check_alive()
        if time.monotonic() > deadline:
            raise AuditFailedError(
                f"not healthy after {within_s:.0f} s: {', '.join(missing)}. "
                f"Logs: {components.log(API_SERVER).parent}"
            )
        if stop.wait(_POLL_S):
            return False
    return True


def serve_environment(home: Path, project: Path) -> dict[str, str]:
    """Return the home's environment with the DAG's defaults, and without the password."""
    env = airflow_environment(home, project)
    env.pop("QUOTA_AUDIT_SERVE_PASSWORD", None)
    defaults = DailyAuditSettings()
    # Relative paths are relative to where the server was started, not to where a task runs.
    env["QUOTA_AUDIT_WAREHOUSE"] = str(defaults.warehouse)
    env["QUOTA_AUDIT_ARCHIVE"] = str(defaults.archive)
    approval = ApprovalSettings()
    if approval.command_config:
        env["QUOTA_AUDIT_KAFKA_COMMAND_CONFIG"] = str(approval.command_config)
    if approval.targets:
        targets = {n: t.model_dump(mode="json") for n, t in approval.targets.items()}
        env["QUOTA_AUDIT_KAFKA_TARGETS"] = json.dumps(targets)
    return env


@app.command()
def serve(
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port on 127.0.0.1 [default: QUOTA_AUDIT_SERVE_PORT, 8080]."
        ),
    ] = None,
    home: Annotated[Path, typer.Option(help="Airflow's folder.")] = Path(".airflow"),
    project: Annotated[Path, typer.Option(help="Folder with dags/ and plugins/.")] = Path("."),
) -> None:
    """Show the daily audit in a local Airflow until Ctrl-C.

    User and password: QUOTA_AUDIT_SERVE_USER (admin) and QUOTA_AUDIT_SERVE_PASSWORD; a password
    that is not given is made up and kept in <home>/passwords.json.
    """
    settings = ServeSettings()
    port = port or settings.port
    check_port_free(port, settings.host)
    folder = find_project(project)
    env = serve_environment(home, folder)
    with _CONSOLE.status("preparing Airflow's database"):
        prepare_home(home, env)
    passwords = home.absolute() / "passwords.json"
    given = settings.password.get_secret_value() if settings.password else None
    write_passwords(passwords, settings.user, given)
    env |= server_environment(port, settings.user, passwords, settings.host)
    components = Components(env, folder, home / "serve-logs", settings.grace_s)
    with stop_requests() as stop:
        try:
            components.start({n: airflow_command(*a) for n, a in COMPONENTS.items()})
            with _CONSOLE.status("starting Airflow"):
                ready = wait_until_healthy(components, port, stop, settings.healthy_within_s)
            if ready:
                _CONSOLE.print(f"Airflow is ready: http://{HOST}:{port}")
                _CONSOLE.print(f"user {settings.user}, password in {passwords}")
                _CONSOLE.print(f"logs in {home / 'serve-logs'}; Ctrl-C ends it")
            while not stop.wait(_POLL_S):
                components.check_alive()
        finally:
            with _CONSOLE.status("ending Airflow"):
                killed = components.stop()
            _CONSOLE.print(f"Airflow has ended{f'; {killed} processes were killed' * (killed > 0)}")


def main() -> None:
    """Run the server; exit code 0 when asked to end, 1 when a component broke, 2 bad usage."""
    run_app(app)


if __name__ == "__main__":
    main()
