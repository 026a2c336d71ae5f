"""Each file of docker/make_secrets.py, given to every command in place of each file and folder."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.apply.kafka_jvm import VERSION
from spark_jobs.cli.app import GROUPS
from spark_jobs.settings import Settings
from tests.builders.published_day import published
from tests.builders.tables_builder import DAY, scope_in
from tests.cluster.standalone import SMALL_SPARK, plain_environment
from tests.oracle.jars import maven_jar
from tests.spark_jobs.recommend.day import produces, steady

pytestmark = [pytest.mark.spark, pytest.mark.jvm]

ROOT = Path(__file__).parents[3]
# Each command as its own process would run it, but all in one: they start in no time. None comes
# as far as to start Spark, whose JVM would outlive it.
RUN_ALL = """
import json, os, sys, traceback
from spark_jobs.cli.app import main
for settings, arguments in json.loads(sys.stdin.read()):
    print("$", settings, *arguments, flush=True)
    os.environ.update(settings)
    sys.argv = ["quota-audit", *arguments]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = "none"
    for name in settings:
        del os.environ[name]
    print("exit code", code, flush=True)
    sys.stderr.flush()
    assert "pyspark" not in sys.modules or sys.modules["pyspark"].SparkContext._gateway is None
"""
# Other files with a secret, as each reader may take one for its own.
OTHER_KINDS = {
    "properties": "sasl.jaas.config=org.apache.kafka.X required username=a password=hunter2;\n",
    "json": '{"entries": {"password": "hunter2"}}',
    "toml": 'ssl.keystore.password = "hunter2"\n',
    "yaml": "- &hunter2 acknowledged: {hunter2: *hunter2\n",
}
COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    name: (function, example)
    for commands in GROUPS.values()
    for name, function, example in commands
}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """Return the files, each with its secret."""
    folder = tmp_path_factory.mktemp("made") / "secrets"
    runpy.run_path(str(ROOT / "docker" / "make_secrets.py"))["make_secrets"](folder)
    found = {path: re.findall(r"\S{20,}", path.read_text())[-1] for path in folder.iterdir()}
    assert len(found) == 6
    for kind, text in OTHER_KINDS.items():
        (folder / f"client.{kind}").write_text(text)
    return found | {folder / f"client.{kind}": "hunter2" for kind in OTHER_KINDS}


def paths_of(function: Callable[..., None]) -> Iterator[tuple[str, Any]]:
    """Yield what a command takes a path for: its name and what Typer knows of it."""
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        if "Path" in str(one.annotation):
            yield name, one.annotation.__metadata__[0]


def command_lines(folder: Path, file: Path) -> Iterator[list[str]]:
    """Yield each command as its help's example, with ``file`` for one of its paths."""
    for command, (function, example) in COMMANDS.items():
        words = example.replace("2026-11-21", str(DAY)).replace("kafka:9092", "127.0.0.1:1").split()
        for name, known in paths_of(function):
            out = f"out-{file.name}-{name}"
            places = {"logs": "archive", "warehouse": "warehouse", "to-give-away": out}
            given = [str(folder / places[word]) if word in places else word for word in words]
            if type(known).__name__ == "OptionInfo":
                flag = next(iter(known.param_decls), None) or known.default
                yield [command, *given, str(flag), str(file)]
                continue
            first = 0 if name != "out" else 1
            yield [command, *given[:first], str(file), *given[first + 1 :]]


def settings_with(folder: Path, file: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield each setting that names a file, with a command that reads it."""
    of_warehouse = ["-w", str(folder / "warehouse")]
    to_cluster = ["apply", *of_warehouse, "--bootstrap-server", "127.0.0.1:1"]
    reads = {
        "acknowledged": ["news", *of_warehouse],
        "owners": ["news", *of_warehouse],
        "clients_jar": to_cluster,
        # Read by Airflow's DAGs, which give them to commands as arguments.
        **{name: ["proposals", *of_warehouse] for name in ("archive", "warehouse")},
        "command_config": ["proposals", *of_warehouse],
        "cache": to_cluster,
    }
    for cls in Settings.__subclasses__():
        for name, field in cls.model_fields.items():
            if "Path" in str(field.annotation):
                yield {f"{cls.model_config['env_prefix']}{name.upper()}": str(file)}, reads[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an archive and an audited day with a proposal."""
    made = tmp_path_factory.mktemp("tried")
    broker = made / "archive" / "broker=1"
    broker.mkdir(parents=True)
    with gzip.open(ROOT / "examples/capture/broker=1/kafka-request.log.gz") as log:
        (broker / "kafka-request.log").write_bytes(b"".join(log.readline() for _ in range(20)))
    published(scope_in(made / "warehouse"), produces(steady(80_000.0, 5), 50_000.0))
    return made


def test_no_command_shows_or_keeps_what_is_in_a_file_of_secrets(
    folder: Path, secrets: dict[Path, str]
) -> None:
    jar = str(maven_jar(f"org.apache.kafka:kafka-clients:{VERSION}"))
    fixed = {
        "QUOTA_AUDIT_KAFKA_DEFAULT_API_TIMEOUT_MS": "300",
        "QUOTA_AUDIT_SPARK_DRIVER_MEMORY": "512m",
    }
    asked: list[tuple[dict[str, str], list[str]]] = []
    for file in secrets:
        asked += [({"QUOTA_AUDIT_KAFKA_CLIENTS_JAR": jar}, line) for line in
                  command_lines(folder, file)]  # fmt: skip
        asked += settings_with(folder, file)
    environment = plain_environment(
        PYTHONPATH=ROOT, PYSPARK_PYTHON=sys.executable, **(SMALL_SPARK | fixed)
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=json.dumps(asked), env=environment,
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    tried = done.stdout.split("\n$ ")
    assert len(tried) == len(asked) > 300
    shown = [one for one in tried if any(secret in one for secret in secrets.values())]
    assert shown == []
    assert [one for one in tried if "Traceback (most recent call last)" in one] == []
    codes = [re.findall(r"^exit code (\S+)$", one, re.MULTILINE) for one in tried]
    assert {len(found) for found in codes} == {1}
    assert {found[0] for found in codes} <= {"0", "1", "2", "3"}
    kept = [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(s.encode() in path.read_bytes() for s in secrets.values())
    ]
    assert kept == []
