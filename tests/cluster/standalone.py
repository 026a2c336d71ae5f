"""A Spark standalone cluster of this machine's loopback: a master and two workers of one core."""

from __future__ import annotations

import os
import re
import subprocess
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path

import pyspark

from quota_dags.process import end_session
from tests.builders.spark_classes import WITH_CLASSES

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = ("worker-1", "worker-2")
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK_JVM = f"{SMALL_JVM} {WITH_CLASSES}"
SMALL_SPARK = {
    "QUOTA_AUDIT_SPARK_MASTER": "local[2]",
    "QUOTA_AUDIT_SPARK_DRIVER_MEMORY": "1g",
    "QUOTA_AUDIT_SPARK_SHUFFLE_PARTITIONS": "2",
    "QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS": QUICK_JVM,
}
"""Settings of a Spark that starts soon, for commands that tests run."""
_START_S = 120.0
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: its address, and the folder of its logs and its workers' folders."""

    master: str
    folder: Path

    def applications(self, worker: str) -> list[Path]:
        """Return the folders in which a worker ran an executor, one for each application.

        The master starts another one where an executor ends a moment before its application does.
        """
        first = "|".join(map(str, range(len(WORKERS))))
        folders = (self.folder / worker).glob("app-*/*")
        return sorted(folder for folder in folders if re.fullmatch(first, folder.name))


@contextmanager
def standalone_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """Run a master and WORKERS while the block lasts; executors inherit ``environment``.

    TimeoutError with a process's log where it does not come up.
    """
    own = {
        **environment,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        # It would listen on a port that nobody chose.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    on_loopback = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = folder / f"{name}.log"
            command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
            stack.enter_context(_process(command, own, log))
            return log

        log = start("master", f"{_DEPLOY}.master.Master", *on_loopback)
        master = _told(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        offers = ["--cores", "1", "--memory", "1g"]
        logs = [
            start(name, f"{_DEPLOY}.worker.Worker", *on_loopback, *offers,
                  "--work-dir", str(folder / name), master)
            for name in WORKERS
        ]  # fmt: skip
        for log in logs:
            _told(log, r"Successfully registered with master (\S+)")
        yield Cluster(master, folder)


@contextmanager
def _process(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        end_session(process.pid)
        process.wait()


def _told(log: Path, pattern: str) -> str:
    """Return the group of ``pattern`` when a log has it."""
    deadline = time.monotonic() + _START_S
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {pattern!r} in {log}:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)
    return found[1]


def python_without_package(folder: Path) -> Path:
    """Return the Python of a new environment: it has what this one has, but not the sources.

    A path that a .pth file names is searched, but .pth files in it, as of the sources, are not.
    """
    venv.create(folder, symlinks=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "installed.pth").write_text(get_path("purelib"))
    return folder / "bin" / "python"


def plain_environment(**added: object) -> dict[str, str]:
    """Return an environment without what this process was told, and with ``added``."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    return kept | {name: str(value) for name, value in added.items()}
