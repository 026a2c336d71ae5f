"""Archive and warehouse in a bucket: an audit on workers that share nothing else with the driver.

By configuration only: hadoop-aws and its SDK on Spark's class path, keys in bucket addresses.
"""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import OUTPUTS, RunScope
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.tables import TABLES
from tests.cluster.package_zip import ROOT, lend_kernels, make_zip
from tests.cluster.standalone import (
    SMALL_JVM,
    SPARK_HOME,
    WORKERS,
    Cluster,
    plain_environment,
    python_without_package,
    standalone_cluster,
)
from tests.object_storage.moto_server import KEY, SECRET, ObjectStorage
from tests.oracle.jars import maven_jar

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ARCHIVE = ROOT / "examples" / "capture"
DAY = dt.date(2026, 11, 21)
LOGGING = ROOT / "spark_jobs" / "spark" / "log4j2.properties"
# As hadoop-client-api of PySpark, and what hadoop-aws of that version names as its own.
S3A_JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
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
spark.hadoop.fs.s3a.path.style.access           true
"""


@dataclass(frozen=True, slots=True)
class Audited:
    """A day audited on the cluster from and into a bucket, and the same on this machine's disk."""

    cluster: Cluster
    bucket: str
    done: subprocess.CompletedProcess[str]
    disk: Path

    @property
    def scope(self) -> RunScope:
        """Return the day in the bucket."""
        return RunScope(storage_path(f"s3://{self.bucket}/a warehouse"), "default", DAY)


def run(command: list[str], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess:
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def audited(
    storage: ObjectStorage,
    bucket: str,
    example_warehouse: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("bucket-cluster")
    classes = ":".join(str(maven_jar(jar)) for jar in S3A_JARS)
    own = storage.environment() | {
        "SPARK_DIST_CLASSPATH": classes,
        "NUMBA_CACHE_DIR": str(folder / "kernels"),
    }
    pafs.copy_files(
        str(ARCHIVE), f"{bucket}/archive",
        source_filesystem=pafs.LocalFileSystem(), destination_filesystem=storage.client(),
    )  # fmt: skip
    (folder / "spark-defaults.conf").write_text(
        DEFAULTS.format(jvm=SMALL_JVM, logging=LOGGING.as_uri())
    )
    with standalone_cluster(folder, plain_environment(**own)) as cluster:
        package = make_zip(folder / "spark_jobs.zip")
        lend_kernels(package, folder / "kernels")
        entry = folder / "quota_audit.py"
        entry.write_bytes((ROOT / "spark_jobs" / "cli" / "__main__.py").read_bytes())
        environment = plain_environment(
            **own,
            PYSPARK_PYTHON=python_without_package(folder / "python"),
            QUOTA_AUDIT_SPARK_SHUFFLE_PARTITIONS=3,
            SPARK_CONF_DIR=folder,
        )
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master,
            "--py-files", str(package), str(entry),
            "run", f"s3://{bucket}/archive", "--warehouse", f"s3://{bucket}/a warehouse",
        ]  # fmt: skip
        done = run(command, environment, folder)
        yield Audited(cluster, bucket, done, example_warehouse)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_rows_that_it_has_on_a_disk(audited: Audited, table: str) -> None:
    here = read_table(RunScope(audited.disk, "default", DAY), table)
    there = read_table(audited.scope, table)
    if table == "files":  # when the logs were put there
        here, there = here.drop_columns("modified_ns"), there.drop_columns("modified_ns")
    assert there.num_rows == here.num_rows
    assert table_digest(there) == table_digest(here)


def test_the_day_has_rows_to_compare(audited: Audited) -> None:
    empty = {table for table in TABLES if not read_table(audited.scope, table).num_rows}
    assert not empty & {"requests", "log_gaps", "decisions", "rates", "agreement", "demand"}


def test_the_files_for_people_are_those_of_a_disk(audited: Audited) -> None:
    def names(scope: RunScope) -> set[str]:
        folders = {kind: scope.output_dir(kind) for kind in OUTPUTS}
        return {
            f"{kind}/{file.relative_to(folder).as_posix()}"
            for kind, folder in folders.items()
            for file in folder.rglob("*")
            if file.is_file()
        }

    there, here = names(audited.scope), names(RunScope(audited.disk, "default", DAY))
    assert there == here
    assert {name.partition("/")[0] for name in there} == set(OUTPUTS)
    report = audited.scope.output_dir("reports") / "report.html"
    assert "alice" in report.read_text("utf-8")


def test_both_workers_took_part(audited: Audited) -> None:
    for worker in WORKERS:
        assert len(audited.cluster.applications(worker)) == 1, worker


def test_nothing_is_left_beside_the_tables(audited: Audited) -> None:
    below = {key.name for key in audited.scope.warehouse.iterdir()}
    assert below == {"runs", "data_docs", "metrics"}


def test_no_log_and_no_argument_holds_a_secret(audited: Audited) -> None:
    said = audited.done.stdout + audited.done.stderr
    logs = [log.read_text(errors="replace") for log in audited.cluster.folder.glob("*.log")]
    for worker in WORKERS:
        for folder in audited.cluster.applications(worker):
            logs += [(folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    # An executor's log begins with the command that started it.
    assert any("Spark Executor Command" in log for log in logs)
    for text in (said, *logs):
        assert SECRET not in text
        assert KEY not in text
