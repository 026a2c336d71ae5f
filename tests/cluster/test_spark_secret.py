"""The secret that docker/make_secrets.py makes for Spark, on a cluster of this machine."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quota_dags.process import end_session
from tests.cluster.standalone import plain_environment, standalone_cluster

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DRIVER = """
import sys
import time
from collections.abc import Callable
from pathlib import Path
from spark_jobs.settings import SparkSettings
from spark_jobs.spark.spark_session import spark_session

with spark_session("secret", SparkSettings(master=sys.argv[1], driver_memory="512m")) as spark:
    parts = spark.sparkContext.parallelize(range(4), 4)
    print("sum", parts.map(lambda n: n * n).sum())
    commands = {p: p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()}
    secret = Path(sys.argv[2]).read_bytes()
    print("executors", sum(b"CoarseGrainedExecutorBackend" in c for c in commands.values()))
    print("shown", [c for c in commands.values() if secret in c])
"""


def drive(master: str, folder: Path, conf: Path, until: Callable[[], object] = str) -> str:
    """Return what a driver with ``conf`` printed until it ended, or ``until`` returned something.

    Fails where neither happens within two minutes.
    """
    said = folder / f"{conf.name}.out"
    environment = plain_environment(
        PYTHONPATH=ROOT, PYSPARK_PYTHON=sys.executable, SPARK_CONF_DIR=conf
    )
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, master, str(folder / "secret")], cwd=ROOT,
            env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while process.poll() is None and not until():
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.2)
    finally:
        end_session(process.pid)
        process.wait()
    return said.read_text()


def conf_of(folder: Path, name: str, text: str) -> Path:
    made = folder / name
    made.mkdir()
    on_loopback = "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
    (made / "spark-defaults.conf").write_text(text + on_loopback)
    return made


def test_who_has_the_secret_is_served_and_nobody_else_and_no_argument_or_log_shows_it(
    tmp_path: Path,
) -> None:
    runpy.run_path(str(ROOT / "docker" / "make_secrets.py"))["make_secrets"](tmp_path / "secrets")
    text = (tmp_path / "secrets" / "spark_defaults").read_text()
    found = re.search(r"^spark\.authenticate\.secret (\S{40,})$", text, re.MULTILINE)
    assert found is not None
    (tmp_path / "secret").write_text(found[1])
    conf = conf_of(tmp_path, "conf", text)
    other = conf_of(tmp_path, "other", text.replace(found[1], "x" * 43))
    none = conf_of(tmp_path, "none", "")
    folder = tmp_path / "cluster"
    folder.mkdir()
    environment = plain_environment(SPARK_CONF_DIR=conf, PYSPARK_PYTHON=sys.executable)
    with standalone_cluster(folder, environment) as cluster:
        said = drive(cluster.master, tmp_path, conf)
        assert "sum 14\n" in said, said
        assert re.search(r"executors [1-9]", said), said
        assert "shown []\n" in said, said
        master = folder / "master.log"
        told = re.compile("Exception while bootstrapping client|Expected SaslMessage, received")
        for stranger, log in ((other, tmp_path / "other.out"), (none, master)):
            refused = drive(
                cluster.master, tmp_path, stranger, lambda log=log: told.findall(log.read_text())
            )
            assert "sum" not in refused
            assert told.search(log.read_text()), refused
        assert master.read_text().count("Registered app ") == 1
        logs = [path for path in folder.rglob("*") if path.is_file()]
        assert len(logs) >= 3
        shown = [path for path in logs if found[1].encode() in path.read_bytes()]
        assert shown == []
        assert found[1] not in said
