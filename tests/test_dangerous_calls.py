"""What a stranger's text could be run by: calls that the sources do not make, or say why."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for room in ("spark_jobs", "expectations", "dags", "plugins", "docker")
    for path in (ROOT / room).rglob("*.py")
)
# Names of calls, and the files that may make them.
ALLOWED: dict[str, set[str]] = {
    "eval": set(),
    # Of Kafka's message definitions, which are files of this project; no text of a log.
    "exec": {"spark_jobs/ingest/messages/wire_size.py"},
    "compile": set(),
    "__import__": set(),
    "os.system": set(),
    "os.popen": set(),
    "pickle.load": set(),
    "pickle.loads": set(),
    "marshal.loads": set(),
    "yaml.load": set(),
    "yaml.load_all": set(),
    "yaml.unsafe_load": set(),
    "yaml.full_load": set(),
    "yaml.dump": set(),
    "tempfile.mktemp": set(),
    # Pictures that this project has drawn; names in them are escaped there.
    "Markup": {"spark_jobs/wording/svg.py"},
}
# Takes SQL: only of the sources' own words.
SQL = {"sql", "expr", "selectExpr", "read_sql"}
# Nothing here speaks to a database but Airflow itself.
DATABASES = re.compile(r"^\s*(?:import|from) (?:sqlite3|sqlalchemy|psycopg2?|duckdb)\b", re.M)


def name_of(call: ast.Call) -> str:
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "?", *reversed(parts)])


def calls(text: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield name_of(node), node


def wrong_calls(text: str, file: str) -> list[str]:
    """Return what a source calls and should not, with its line."""
    wrong = []
    for name, call in calls(text):
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        shell = words.get("shell")
        is_shell = shell is not None and getattr(shell, "value", True) is not False
        is_made_sql = name.rpartition(".")[2] in SQL and not all(
            isinstance(argument, ast.Constant) for argument in call.args
        )
        is_forbidden = name in ALLOWED and file not in ALLOWED[name]
        if is_shell or is_made_sql or is_forbidden:
            wrong.append(f"{file}:{call.lineno}: {name}")
    return wrong


def test_no_source_runs_a_text() -> None:
    assert len(SOURCES) > 200
    wrong = []
    for path in SOURCES:
        text, file = path.read_text("utf-8"), path.relative_to(ROOT).as_posix()
        wrong += wrong_calls(text, file)
        wrong += [f"{file}: {found}" for found in DATABASES.findall(text)]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "eval(x)",
        "exec(x)",
        "subprocess.run(x, shell=True)",
        "subprocess.run(x, shell=is_shell)",
        "os.system(x)",
        "yaml.load(x)",
        "spark.sql(f'select {x}')",
        "rows.selectExpr(x)",
        "F.expr('a' + x)",
        "pickle.loads(x)",
    ],
)
def test_a_call_that_runs_a_text_would_be_seen(text: str) -> None:
    assert wrong_calls(text, "spark_jobs/new.py") != []
    assert wrong_calls("spark.sql('select 1')\nsubprocess.run(x, shell=False)", "f.py") == []


def test_templates_escape_what_they_show() -> None:
    """Autoescape is on wherever HTML is made, and nothing is marked as safe that is not ours."""
    makers = [
        p
        for p in SOURCES
        if "jinja2" in p.read_text("utf-8") and "Environment(" in p.read_text("utf-8")
    ]
    assert makers
    for path in makers:
        text = path.read_text("utf-8")
        is_html = "gallery" not in path.parts  # Markdown of this project's own numbers
        assert not is_html or re.search(r"autoescape=(True|select_autoescape)", text), path


@pytest.mark.parametrize("command", ["days ARCHIVE", "render --target rpk -w w", "digest -w w"])
def test_a_name_that_is_no_clusters_ends_a_command_with_a_sentence(
    tmp_path: Path, command: str
) -> None:
    arguments = command.replace("ARCHIVE", str(ROOT / "examples" / "capture")).split()
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.cli", *arguments, "--cluster", "../../x"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "'../../x' is no name of a cluster" in done.stderr
    assert list(tmp_path.iterdir()) == []
