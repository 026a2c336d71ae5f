"""The secret that docker/make_secrets.py makes for Spark, on a cluster of this machine."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.standalone import plain_environment, standalone_cluster

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DRIVER = """
import sys
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


def drive(master: str, secret: Path, timeout_s: int, **added: object) -> str:
    """Return what a driver printed; where it did not end in time what it did until then."""
    command = [sys.executable, "-c", DRIVER, master, str(secret)]
    where = plain_environment(PYTHONPATH=ROOT, PYSPARK_PYTHON=sys.executable, **added)
    try:
        done = subprocess.run(
            command, env=where, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT
        )
    except subprocess.TimeoutExpired as late:
        return bytes(late.stdout or b"").decode() + bytes(late.stderr or b"").decode()
    return done.stdout + done.stderr


def test_who_has_the_secret_is_served_and_nobody_else_and_no_argument_or_log_shows_it(
    tmp_path: Path,
) -> None:
    runpy.run_path(str(ROOT / "docker" / "make_secrets.py"))["make_secrets"](tmp_path / "secrets")
    text = (tmp_path / "secrets" / "spark_defaults").read_text()
    found = re.search(r"^spark\.authenticate\.secret (\S{40,})$", text, re.MULTILINE)
    assert found is not None
    (tmp_path / "secret").write_text(found[1])
    conf, folder = tmp_path / "conf", tmp_path / "cluster"
    conf.mkdir()
    folder.mkdir()
    settled = "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
    (conf / "spark-defaults.conf").write_text(text + settled)
    other = tmp_path / "other"
    other.mkdir()
    (other / "spark-defaults.conf").write_text((text + settled).replace(found[1], "x" * 43))
    none = tmp_path / "none"
    none.mkdir()
    (none / "spark-defaults.conf").write_text(settled)
    environment = plain_environment(SPARK_CONF_DIR=conf, PYSPARK_PYTHON=sys.executable)
    with standalone_cluster(folder, environment) as cluster:
        said = drive(cluster.master, tmp_path / "secret", 120, SPARK_CONF_DIR=conf)
        assert "sum 14\n" in said, said
        assert re.search(r"executors [1-9]", said), said
        assert "shown []\n" in said, said
        for stranger in (other, none):
            refused = drive(cluster.master, tmp_path / "secret", 30, SPARK_CONF_DIR=stranger)
            assert "sum" not in refused
        logs = [path for path in folder.rglob("*") if path.is_file()]
        assert len(logs) >= 3
        shown = [path for path in logs if found[1].encode() in path.read_bytes()]
        assert shown == []
        assert found[1] not in said
