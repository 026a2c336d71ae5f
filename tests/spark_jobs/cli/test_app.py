"""The help of every command: in one group, in plain words, with an example that is true."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from spark_jobs.cli.app import GROUPS, ExampleCommand, app
from spark_jobs.errors import BadInputError
from spark_jobs.whatif.clients.scenario import ScenarioPolicy

ROOT = Path(__file__).parents[3]
NAMES = [name for commands in GROUPS.values() for name, _, _ in commands]
CAPTURE = ROOT / "examples" / "capture"
WIDTH = 80


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="quota-audit", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def command_of(name: str) -> ExampleCommand:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    command = group.commands[name]
    assert isinstance(command, ExampleCommand)
    return command


def test_every_command_stands_in_one_group() -> None:
    assert len(NAMES) == len(set(NAMES)) == 31
    sections = re.split(r"\n\n(?=\S)", said("--help").rstrip())
    listed = {s.partition(":\n")[0]: re.findall(r"^  (\S+)", s, re.M) for s in sections[2:]}
    assert listed == {title: [name for name, _, _ in of] for title, of in GROUPS.items()}


def test_each_command_is_one_whole_line_of_the_list() -> None:
    lines = said("--help").splitlines()
    for name in NAMES:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(command_of(name).first_line)
        assert len(line) <= WIDTH


@pytest.mark.parametrize("name", NAMES)
def test_a_commands_help_has_no_python_type_and_fits_a_terminal(name: str) -> None:
    text = said(name, "--help")
    assert not re.search(r"<[^>]*>|\b(str|int|float|Path|list\[)\b", text)
    assert text.startswith(f"Usage: quota-audit {name} [OPTIONS]")
    assert "{" not in text
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_commands_help_ends_with_an_example_that_it_understands(name: str) -> None:
    heading, example = said(name, "--help").splitlines()[-2:]
    assert heading == "Example:"
    program, called, *arguments = shlex.split(example)
    assert (program, called) == ("quota-audit", name)
    command_of(name).make_context(name, arguments)


def test_a_bare_call_prints_the_help() -> None:
    result = CliRunner().invoke(app, [], prog_name="quota-audit")
    assert (result.exit_code, result.output) == (2, said("--help"))


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert said("--version") == f"quota-audit {project['version']}\n"


def test_the_installed_program_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, function = project["scripts"]["quota-audit"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_file_that_spark_submit_starts_is_a_program() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8")
    (copied,) = re.findall(r"cp (\S+) dist/quota_audit\.py", recipe)
    ran = subprocess.run(
        [sys.executable, ROOT / copied, "--version"],
        env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.startswith("quota-audit ")


def test_the_help_waits_for_neither_spark_nor_tables() -> None:
    code = (
        "import sys, spark_jobs.cli.app\n"
        "slow = {'pyarrow', 'pandas', 'numba', 'pyspark', 'great_expectations'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_the_example_of_whatif_names_policies_that_there_are() -> None:
    (example,) = (e for of in GROUPS.values() for name, _, e in of if name == "whatif")
    named = re.findall(r"--policy (\S+)", example)
    assert len(named) == 2
    for policy in named:
        ScenarioPolicy(policy, policy).begin()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(_step: str) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("spark_jobs.spark.spark_session.spark_session", started)
    monkeypatch.setattr("spark_jobs.cli.print_whatif.spark_session", started)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["ingest", "due", "run"])
def test_a_file_is_no_warehouse(command: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.touch()
    with pytest.raises(BadInputError, match=r"orders\.csv is a file\. Expected the folder"):
        said(command, str(CAPTURE), "-w", str(file))


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["ingest", "due", "run", "whatif"])
def test_a_file_is_no_archive(command: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.touch()
    asks = ["--policy", "kip13"] if command == "whatif" else ["-w", str(tmp_path / "written")]
    with pytest.raises(BadInputError, match=r"orders\.csv is not a folder\. Expected an archive"):
        said(command, str(file), *asks)


@pytest.mark.usefixtures("no_spark")
def test_a_whatif_without_audited_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no day of the cluster 'default'"):
        said("whatif", "-w", str(tmp_path), "--policy", "kip13")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["ingest", "run", "anonymize", "whatif"])
def test_a_snapshot_that_is_none_is_refused(command: str, tmp_path: Path) -> None:
    snapshot, written = tmp_path / "quotas.json", tmp_path / "written"
    snapshot.write_text("[3]")
    places = {"anonymize": [str(written)], "whatif": []}.get(command, ["-w", str(written)])
    with pytest.raises(BadInputError, match=r"quotas\.json: Expected `object`, got `int`"):
        said(command, str(CAPTURE), *places, "--snapshot", str(snapshot))
    assert not written.exists()
