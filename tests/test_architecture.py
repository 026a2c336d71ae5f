"""Which room may import which: read from the sources, so that a wrong import fails by name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLOCKS_AND_CHANCE = {"time", "random", "logging", "secrets"}
HEAVY = {"pyspark", "airflow", "great_expectations", "pandas"}

FORBIDDEN_EVERYWHERE = ("dags", "plugins", "tests", "benchmarks", "tools")


def imports(path: Path) -> set[str]:
    """Return the modules a file imports, `from a.b import c` as a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it absolute"
            found.add(node.module or "")
    return found


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_the_search_for_record_times_needs_numpy_and_numba_only() -> None:
    fits = sys.stdlib_module_names | {"numpy", "numba"}
    for path in sources("spark_jobs/replay/alignment"):
        for module in sorted(imports(path)):
            known = is_within(module, "spark_jobs.replay.alignment") or module.split(".")[0] in fits
            assert known, f"{path.relative_to(ROOT)} imports {module}"


def test_nobody_imports_dags_plugins_tests_or_benchmarks() -> None:
    for path in sources("spark_jobs") + sources("expectations"):
        for module in imports(path):
            assert module.split(".")[0] not in FORBIDDEN_EVERYWHERE, f"{path} imports {module}"


@pytest.mark.parametrize("package", ["spark_jobs", "spark_jobs.quota", "spark_jobs.settings"])
def test_importing_the_package_costs_no_spark(package: str) -> None:
    code = f"import sys, {package}; print('pyspark' in sys.modules or 'airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
