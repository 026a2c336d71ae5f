"""The five sentences of docs/architecture.md on who imports whom, read from the sources.

A room is a folder or module of ``spark_jobs``, or one of the folders beside it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Names that packages have in imports, where it is not the folder's.
BESIDE = {"expectations": "expectations", "quota_dags": "dags", "quota_pages": "plugins"}

# 1. What all others stand on, from below: a floor imports the floors below it.
GROUND = (
    {"errors", "version", "quota"},
    {"warehouse"},
    {"settings", "wording"},
    {"spark", "expectations"},
)
# 2. The steps in the order of the pipeline, and what is asked in between.
STEPS = (
    {"ingest"},
    {"resolve"},
    {"replay"},
    {"judge"},
    {"whatif", "apply"},
    {"recommend"},
    {"publish"},
)
# 3. What looks at steps from beside.
BESIDE_STEPS = {"check", "score", "explain", "anonymize", "upkeep"}
# 4. What starts and shows: imported by nobody.
ENDS = {"audit", "cli", "dags", "plugins"}
SHOWN = {"publish", "explain", "whatif"}

# 5. What a pure sub-folder of a step, and the ground floor, must not know.
IMPURE = {
    *("pyspark", "airflow", "great_expectations", "pandas", "py4j"),
    *("time", "random", "secrets", "logging", "os", "shutil", "tempfile", "subprocess", "socket"),
}
FILE_CALLS = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "unlink"}
# What starts every process of Airflow must not cost seconds.
SLOW = {"pyspark", "great_expectations", "pandas", "numba"}


def allowed() -> dict[str, set[str]]:
    """Return the rooms that each room may import."""
    may: dict[str, set[str]] = {}
    below: set[str] = set()
    for floor in (*GROUND, *STEPS):
        may |= {room: set(below) for room in floor}
        below |= floor
    # The ground floor and the one of settings have an order of their own.
    may["quota"] = may["settings"] & may["warehouse"] | {"errors"}
    may["warehouse"] |= {"version"}
    ground = set().union(*GROUND)
    may |= {room: set(below) for room in BESIDE_STEPS}
    may |= {"audit": set(below), "cli": below | BESIDE_STEPS | {"audit"}}
    may |= {room: ground - {"spark"} | SHOWN for room in ("dags", "plugins")}
    return may


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def all_sources() -> Iterator[tuple[str, Path]]:
    """Yield each source file of the product with the room that it is of."""
    for path in sources("spark_jobs"):
        room = path.relative_to(ROOT / "spark_jobs").parts[0].removesuffix(".py")
        if room != "__init__":
            yield room, path
    for folder in ("expectations", "dags", "plugins"):
        yield from ((folder, path) for path in sources(folder))


def imports(path: Path) -> set[str]:
    """Return what a file imports, ``from a.b import c`` as a.b.c."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(module: str) -> str | None:
    """Return the room of a dotted name; None where it is not of this product."""
    package, *rest = module.split(".")
    return rest[0] if package == "spark_jobs" and rest else BESIDE.get(package)


def test_a_room_imports_only_the_rooms_below_it() -> None:
    may = allowed()
    wrong = [
        f"{path.relative_to(ROOT)} ({room}) imports {module}"
        for room, path in all_sources()
        for module in sorted(imports(path))
        if (imported := room_of(module)) is not None
        and imported != room
        and imported not in may[room]
    ]
    assert wrong == []


def test_every_folder_is_a_room_of_the_rule() -> None:
    rooms = {room for room, _ in all_sources()}
    assert rooms == set(allowed())


def test_nobody_imports_what_starts_and_shows() -> None:
    for room, path in all_sources():
        imported = {room_of(module) for module in imports(path)} & ENDS - {room}
        assert imported <= ({"audit"} if room == "cli" else set()), path


def pure_sources() -> Iterator[Path]:
    """Yield the sources of ``quota`` and of sub-folders of steps."""
    yield from sources("spark_jobs/quota")
    for step in sorted(set().union(*STEPS)):
        for path in sources(f"spark_jobs/{step}"):
            folders = path.relative_to(ROOT / "spark_jobs" / step).parts[:-1]
            if folders:
                yield path


@pytest.mark.parametrize("path", pure_sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_sub_folders_of_a_step_are_pure(path: Path) -> None:
    known = {module.split(".")[0] for module in imports(path)}
    assert known & IMPURE == set()
    called = {
        node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }
    # A package's own data is no file of anybody: it is read once, and is the same everywhere.
    if "importlib.resources.files" not in imports(path):
        assert called & FILE_CALLS == set()


@pytest.mark.parametrize("folder", ["dags", "plugins"])
def test_what_airflow_starts_with_is_not_slow(folder: str) -> None:
    banned = SLOW | ({"pyarrow"} if folder == "dags" else set())
    for path in sources(folder):
        known = {module.split(".")[0] for module in imports(path)}
        assert known & banned == set(), path


def test_the_search_for_record_times_needs_numpy_and_numba_only() -> None:
    fits = sys.stdlib_module_names | {"numpy", "numba"}
    for path in sources("spark_jobs/replay/alignment"):
        for module in imports(path):
            is_own = module.startswith(("spark_jobs.replay.alignment.", "spark_jobs.quota."))
            assert is_own or module.split(".")[0] in fits, f"{path} imports {module}"


@pytest.mark.parametrize("package", ["spark_jobs", "spark_jobs.quota", "spark_jobs.settings"])
def test_importing_the_package_costs_no_spark(package: str) -> None:
    code = f"import sys, {package}; print('pyspark' in sys.modules or 'airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
