"""A short live capture by the command that `make capture` runs, and that nothing outlives it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from spark_jobs.errors import BadInputError
from tests.oracle.capture import capture
from tests.oracle.captured_logs import LAYOUT, Logged, files, request_log, text, violations

KAFKA_VERSION = "4.1.0"
SCRIPT = Path(__file__).parent / "capture.py"
QUICK = Path(__file__).parent / "scenarios" / "quick.txt"
REPOSITORY = Path(__file__).resolve().parents[2]

# Far above what each takes, the first fetch of the jars included: they end a test that hangs.
CAPTURE_SECONDS = 600
STOP_SECONDS = 60
POLL_SECONDS = 0.1

needs_brokers = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("mvn", "java")),
    reason="mvn or java is not on PATH: no Kafka broker can be started",
)


@dataclass(slots=True)
class Run:
    """The command while it runs, with the processes it was seen to start and their commands."""

    process: subprocess.Popen[str]
    folder: Path
    seen: dict[psutil.Process, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        return self.folder / "capture"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def programs(self, name: str) -> int:
        """Return how many processes ran a Java program."""
        return sum(f" {name} " in command for command in self.seen.values())

    def running(self) -> list[psutil.Process]:
        return [process for process in self.seen if _is_running(process)]

    def look(self) -> bool:
        """Note its processes of this moment; return whether it still runs."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return False
        # Asked each time: between fork and exec a process still has its parent's command.
        self.seen.update({child: _command(child) or self.seen.get(child, "") for child in children})
        return self.process.poll() is None


@contextmanager
def captures(folder: Path, *arguments: str) -> Iterator[Run]:
    """Run the command with its temporary files in ``folder``; at the end nothing of it is left."""
    (folder / "tmp").mkdir()
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--out", str(folder / "capture"), *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )
    run = Run(process, folder)
    try:
        yield run
    finally:
        for left in (*run.running(), process):
            left.kill()
        process.wait()


def wait_until_over(run: Run, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while run.look():
        assert time.monotonic() < deadline, _said(run)
        time.sleep(POLL_SECONDS)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The finished capture of the quick scenario."""
    folder = tmp_path_factory.mktemp("lab")
    with captures(folder, "--kafka-version", KAFKA_VERSION, "--scenario", str(QUICK)) as run:
        wait_until_over(run, CAPTURE_SECONDS)
        left = run.running()
        assert run.process.returncode == 0, _said(run)
        assert left == []
        yield run


@pytest.fixture(scope="module")
def requests(quick: Run) -> list[Logged]:
    return request_log(quick.out)


@pytest.mark.broker
@needs_brokers
class TestACapture:
    def test_holds_the_logs_and_the_configuration_of_each_broker(self, quick: Run) -> None:
        assert files(quick.out) == LAYOUT
        assert text(quick.out / "kafka-version.txt") == f"{KAFKA_VERSION}\n"
        assert text(quick.out / "scenario.txt") == QUICK.read_text()

    def test_ran_both_brokers_and_both_kinds_of_clients(self, quick: Run) -> None:
        assert quick.programs("Server") == 2
        # The broker's own version, and the older one of the permissive requests.
        assert quick.programs("Driver") == 2

    def test_leaves_no_temporary_file(self, quick: Run) -> None:
        assert files(quick.temporary) == ()

    def test_names_no_folder_and_no_password(self, quick: Run) -> None:
        for name in LAYOUT:
            content = text(quick.out / name)
            assert str(quick.folder) not in content
            assert "password" not in content

    def test_logs_every_request_that_a_quota_touches(self, requests: list[Logged]) -> None:
        logged = {request.api[0] for request in requests}
        touched = {"PRODUCE", "FETCH", "CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"}
        assert touched | {"ALTER_CLIENT_QUOTAS"} <= logged

    @pytest.mark.parametrize(
        ("name", "first_strict"),
        [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)],
    )
    def test_logs_strict_and_permissive_versions_of_every_mutation(
        self, requests: list[Logged], name: str, first_strict: int
    ) -> None:
        versions = {request.api[1] for request in requests if request.api[0] == name}
        assert min(versions) < first_strict <= max(versions)

    def test_logs_produces_of_all_acks(self, requests: list[Logged]) -> None:
        produces = [request.line for request in requests if request.api[0] == "PRODUCE"]
        assert {line["request"]["acks"] for line in produces} == {0, 1, -1}

    def test_throttles_by_bandwidth_and_request_quotas(self, quick: Run) -> None:
        throttled = {(quota_type, sensor) for _, quota_type, sensor in violations(quick.out)}
        assert ("Produce", "alice:orders-app") in throttled
        assert ("Fetch", "bob:") in throttled
        assert ("Request", "erin:") in throttled

    def test_refuses_strict_mutations_and_delays_permissive_ones(
        self, requests: list[Logged]
    ) -> None:
        created = [request for request in requests if request.api[0] == "CREATE_TOPICS"]
        assert {request.client[0] for request in created if request.was_refused} == {"carol"}
        delays = [
            request.line["response"]["throttleTimeMs"]
            for request in created
            if request.client[0] == "frank"
        ]
        assert max(delays) > 0

    def test_tells_on_both_brokers_when_a_quota_changed(self, quick: Run) -> None:
        changed = "Changing PRODUCE quota for user alice client-id orders-app to 8000.0"
        for node in (1, 2):
            assert changed in text(quick.out / f"broker={node}" / "server.log.gz")


@pytest.mark.broker
@needs_brokers
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_no_broker_and_no_client_outlives_a_capture_that_is_ended(
    tmp_path: Path, ending: signal.Signals
) -> None:
    with captures(tmp_path, "--kafka-version", KAFKA_VERSION, "--scenario", str(QUICK)) as run:
        deadline = time.monotonic() + CAPTURE_SECONDS
        while run.programs("Driver") == 0:
            assert run.look(), _said(run)
            assert time.monotonic() < deadline, _said(run)
            time.sleep(POLL_SECONDS)
        assert run.programs("Server") == 2
        run.process.send_signal(ending)
        wait_until_over(run, STOP_SECONDS)
        deadline = time.monotonic() + STOP_SECONDS
        while run.running() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        assert run.running() == []
        assert run.process.returncode == (143 if ending is signal.SIGTERM else -ending)
        assert not run.out.exists()


@pytest.mark.parametrize(
    ("kafka_version", "scenario", "reason"),
    [
        ("4.1", QUICK, "expected three numbers"),
        ("2.4.1", QUICK, "logs no JSON"),
        ("2.8.2", QUICK, "needs ZooKeeper"),
        (KAFKA_VERSION, Path("absent.txt"), "absent.txt cannot be read"),
        (KAFKA_VERSION, Path(os.devnull), "has no step"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_starts(
    tmp_path: Path, kafka_version: str, scenario: Path, reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        capture(scenario, kafka_version, tmp_path / "capture")
    assert files(tmp_path) == ()


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(BadInputError, match="is not an empty folder"):
        capture(QUICK, KAFKA_VERSION, tmp_path)
    assert files(tmp_path) == ("mine.txt",)


def _is_running(process: psutil.Process) -> bool:
    # Not every container's first process buries the dead whose parent was killed.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def _said(run: Run) -> str:
    return (run.folder / "said.txt").read_text()
