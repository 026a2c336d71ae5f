"""An audit on a Spark cluster, by configuration only, writes what one on this machine writes.

The workers' Python does not have the package: they get it as a zip. Hadoop's default file system is
one that is not there, as on a cluster whose default is not the folder that is shared.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from quota_dags.process import default_launcher
from quota_dags.steps import DailyAudit, step_arguments
from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from tests.cluster.package_zip import NOT_LENT, ROOT, lend_kernels, make_zip
from tests.cluster.standalone import (
    SMALL_JVM,
    SPARK_HOME,
    WORKERS,
    Cluster,
    plain_environment,
    python_without_package,
    standalone_cluster,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ARCHIVE = ROOT / "examples" / "capture"
DAY = dt.date(2026, 11, 21)
LOGGING = ROOT / "spark_jobs" / "spark" / "log4j2.properties"
DEFAULTS = """\
spark.driver.host                               127.0.0.1
spark.driver.bindAddress                        127.0.0.1
spark.driver.memory                             1g
spark.driver.extraJavaOptions                   {jvm} -Dlog4j2.configurationFile={logging}
spark.executor.memory                           600m
spark.executor.extraJavaOptions                 {jvm}
spark.cores.max                                 2
spark.scheduler.minRegisteredResourcesRatio     1.0
spark.scheduler.maxRegisteredResourcesWaitingTime  120s
spark.hadoop.fs.defaultFS                       hdfs://127.0.0.1:1
spark.eventLog.enabled                          true
spark.eventLog.dir                              {events}
spark.eventLog.compress                         false
spark.eventLog.rolling.enabled                  false
"""


@dataclass(frozen=True, slots=True)
class Driver:
    """What drives a cluster: the zip, the workers' Python, the folders of configurations."""

    cluster: Cluster
    folder: Path
    package: Path
    python: Path

    @property
    def events(self) -> Path:
        """Return the folder of the event logs."""
        return self.folder / "events"

    def conf_dir(self, *lines: str) -> Path:
        """Return a SPARK_CONF_DIR with DEFAULTS and ``lines``."""
        folder = self.folder / f"conf-{len(lines)}"
        folder.mkdir(exist_ok=True)
        filled = DEFAULTS.format(
            jvm=SMALL_JVM, logging=LOGGING.as_uri(), events=self.events.as_uri()
        )
        (folder / "spark-defaults.conf").write_text("\n".join([filled, *lines, ""]))
        return folder

    def submit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command by ``spark-submit``, with the zip and without the sources."""
        entry = self.folder / "quota_audit.py"
        entry.write_bytes((ROOT / "spark_jobs" / "cli" / "__main__.py").read_bytes())
        command = [
            SPARK_HOME / "bin" / "spark-submit", "--master", self.cluster.master,
            "--py-files", self.package, entry, *arguments,
        ]  # fmt: skip
        environment = plain_environment(
            PYSPARK_PYTHON=self.python,
            NUMBA_CACHE_DIR=self.folder / "kernels",
            QUOTA_AUDIT_SPARK_SHUFFLE_PARTITIONS=3,
            SPARK_CONF_DIR=self.conf_dir(),
        )
        return run(list(map(str, command)), environment, self.folder)

    def step(self, task_id: str, warehouse: Path) -> subprocess.CompletedProcess[str]:
        """Run a step as the DAG does: the zip goes to the workers by a line of configuration."""
        audit = DailyAudit(str(ARCHIVE), str(warehouse), "default", DAY, "UTC", None)
        environment = plain_environment(
            PYTHONPATH=ROOT,
            PYSPARK_PYTHON=self.python,
            QUOTA_AUDIT_SPARK_MASTER=self.cluster.master,
            QUOTA_AUDIT_SPARK_DRIVER_MEMORY="1g",
            QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS=SMALL_JVM,
            QUOTA_AUDIT_SPARK_SHUFFLE_PARTITIONS=3,
            SPARK_CONF_DIR=self.conf_dir(f"spark.submit.pyFiles {self.package}"),
        )
        command = [*default_launcher(), *step_arguments(task_id, audit)]
        return run(command, environment, self.folder)

    def tasks_by_executor(self, name: str) -> dict[str, int]:
        """Return how many tasks each executor ended well, in the application of that name."""
        (ran,) = [found for log in self.events.iterdir() if (found := tasks(log, name))]
        return ran


def run(
    command: Sequence[str], environment: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=1200
    )


def tasks(log: Path, name: str) -> dict[str, int]:
    """Return the tasks by executor of an application's event log; none of one of another name."""
    ended: defaultdict[str, int] = defaultdict(int)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerApplicationStart" and event["App Name"] != name:
            return {}
        if event["Event"] == "SparkListenerTaskEnd":
            assert event["Task End Reason"] == {"Reason": "Success"}, event
            ended[event["Task Info"]["Executor ID"]] += 1
    return dict(ended)


@dataclass(frozen=True, slots=True)
class Audited:
    """A day audited on the cluster, and a step of it once more, as the DAG runs it."""

    driver: Driver
    scope: RunScope
    submitted: subprocess.CompletedProcess[str]
    replayed: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "events").mkdir()
    warehouse = folder / "shared warehouse"
    with standalone_cluster(folder, plain_environment(NUMBA_CACHE_DIR=folder / "kernels")) as found:
        package = make_zip(folder / "spark_jobs.zip")
        lend_kernels(package, folder / "kernels")
        driver = Driver(found, folder, package, python_without_package(folder / "python"))
        submitted = driver.submit("run", str(ARCHIVE), "--warehouse", str(warehouse))
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        replayed = driver.step("replay_quotas", warehouse)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        yield Audited(driver, RunScope(warehouse, "default", DAY), submitted, replayed)


@pytest.fixture(scope="module")
def local(example_warehouse: Path) -> RunScope:
    return RunScope(example_warehouse, "default", DAY)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_rows_that_it_has_on_one_machine(
    audited: Audited, local: RunScope, table: str
) -> None:
    here = read_table(local, table)
    for scope in (audited.scope, audited.scope.newest()):
        there = read_table(scope, table)
        assert there.num_rows == here.num_rows
        assert table_digest(there) == table_digest(here)


def test_the_step_that_was_run_alone_wrote_tables_of_its_own(audited: Audited) -> None:
    published, draft = (
        {table: scope.partition_dir(table) for table in TABLES}
        for scope in (audited.scope, audited.scope.newest())
    )
    written = {table for table in TABLES if published[table] != draft[table]}
    assert written >= {"decisions", "rates", "agreement", "quota_state"}
    assert "requests" not in written


def test_the_day_has_rows_to_compare(local: RunScope) -> None:
    empty = {table for table in TABLES if not read_table(local, table).num_rows}
    assert not empty & {"requests", "log_gaps", "decisions", "rates", "agreement", "demand"}
    kinds = read_table(local, "decisions")["quota_type"].unique().to_pylist()
    assert set(kinds) >= {"producer_byte_rate", "consumer_byte_rate", "request_percentage"}


@pytest.mark.parametrize("application", ["quota-audit run", "quota-audit replay"])
def test_both_workers_took_part(audited: Audited, application: str) -> None:
    ran = audited.driver.tasks_by_executor(application)
    assert set(ran) == {"0", "1"}
    assert min(ran.values()) >= 2
    for worker in WORKERS:
        assert len(audited.driver.cluster.applications(worker)) == 2, worker


def test_the_workers_had_the_package_from_the_zip_alone(audited: Audited) -> None:
    driver = audited.driver
    program = [str(driver.python), "-c", "import pyarrow, spark_jobs"]
    alone = run(program, plain_environment(), driver.folder)
    assert "No module named 'spark_jobs'" in alone.stderr
    for worker in WORKERS:
        for folder in driver.cluster.applications(worker):
            assert (folder / driver.package.name).read_bytes() == driver.package.read_bytes()


def test_drivers_and_workers_keep_compiled_code_in_one_folder(audited: Audited) -> None:
    (kept,) = (audited.driver.folder / "kernels").iterdir()
    assert list(kept.rglob(f"{NOT_LENT}*.nbi"))


def test_the_last_word_is_the_step_s_and_spark_says_nothing(audited: Audited) -> None:
    where = audited.scope.warehouse
    assert audited.submitted.stdout.splitlines()[-1] == f"audited 1 day of default into {where}"
    assert audited.replayed.stdout.startswith("replayed 11,069 decisions (")
    for done in (audited.submitted, audited.replayed):
        assert not re.search(r" (INFO|WARN|ERROR) ", done.stderr), done.stderr


def test_nothing_is_left_beside_the_tables(audited: Audited) -> None:
    assert not list(audited.scope.warehouse.glob(".*"))


def test_spark_submit_ends_as_the_command_does(audited: Audited) -> None:
    done = audited.driver.submit("run", "/nowhere", "--warehouse", str(audited.scope.warehouse))
    assert done.returncode == 2
    assert done.stdout.startswith("error: /nowhere is not a folder")
