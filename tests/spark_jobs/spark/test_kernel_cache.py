"""Compiled code on disk must not outlive its sources.

A cached function inlines others and freezes their constants; numba's own stamp is of the file that
defines it. Ours is of all rooms in which anything is compiled, so these must hold all of it.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from numba import njit
from numba.core.caching import InTreeCacheLocator
from numba.core.dispatcher import Dispatcher

from spark_jobs.spark.code_digest import code_digest, modules_digest
from spark_jobs.spark.kernel_cache import COMPILED_ROOMS

ROOT = Path(__file__).parents[3]
IN_ROOMS = tuple(f"spark_jobs.{room.replace('/', '.')}." for room in COMPILED_ROOMS)
LOCATORS = "spark_jobs.spark.kernel_cache"


def imported(module: str) -> set[str]:
    """Return the modules that ``module`` of the product names in its import statements."""
    found = set()
    for node in ast.walk(ast.parse(path_of(module).read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            deeper = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name for name in deeper if path_of(name).exists()} or {node.module}
    return found


def path_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def compiling() -> list[str]:
    """Return the modules of the product that import numba's compiler."""
    files = (file for top in ("spark_jobs", "dags", "plugins", "expectations")
             for file in (ROOT / top).rglob("*.py") if file.name != "__init__.py")  # fmt: skip
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    return sorted(name for name in names if "numba" in imported(name))


def dispatchers(module: str) -> list[Dispatcher]:
    """Return the compiled functions that ``module`` defines and numba keeps on disk."""
    return [
        value
        for value in vars(import_module(module)).values()
        if isinstance(value, Dispatcher)
        and value.py_func.__module__ == module
        and type(value._cache).__name__ != "NullCache"
    ]


@njit(cache=True)
def _elsewhere(number: int) -> int:
    return number


def test_functions_are_compiled_in_the_rooms_of_the_stamp_alone() -> None:
    assert [name for name in compiling() if not name.startswith(IN_ROOMS)] == []
    for room in IN_ROOMS:
        assert any(name.startswith(room) for name in compiling()), room


def test_what_is_compiled_inlines_nothing_of_other_rooms() -> None:
    seen: set[str] = set()
    ahead = set(compiling())
    while ahead:
        seen |= ahead
        named = {name for module in ahead for name in imported(module)}
        ahead = {name for name in named if name.split(".")[0] == "spark_jobs"} - seen
    assert sorted(name for name in seen if not name.startswith(IN_ROOMS)) == []


def test_what_is_kept_on_disk_bears_the_stamp_of_the_rooms() -> None:
    kept = [function for module in compiling() for function in dispatchers(module)]
    assert len(kept) > 5
    for function in kept:
        locator = function._cache._impl.locator
        assert type(locator).__module__ == LOCATORS
        assert function._cache._cache_file._source_stamp == code_digest(*COMPILED_ROOMS)


def test_functions_of_others_keep_numbas_own_stamp() -> None:
    assert type(_elsewhere._cache._impl.locator) is InTreeCacheLocator


def test_it_holds_where_numba_was_imported_before() -> None:
    program = (
        "import numba\n"
        "from spark_jobs.quota.bucket_kernel import replay_mutations as found\n"
        "print(type(found._cache._impl.locator).__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True)
    assert done.stdout.strip() == LOCATORS, done.stderr


@pytest.mark.parametrize(
    ("edited", "is_stamped"),
    [
        ("replay/alignment/borrowed.py", True),
        ("ingest/fast_lines/line_layout.py", True),
        ("quota/java_math.py", True),
        ("errors.py", False),
        ("settings.py", False),
    ],
)
def test_the_stamp_is_of_the_text_of_these_rooms(
    tmp_path: Path, edited: str, is_stamped: bool
) -> None:
    copy = shutil.copytree(
        ROOT / "spark_jobs", tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__")
    )
    before = modules_digest(copy, *COMPILED_ROOMS)
    assert before == modules_digest(ROOT / "spark_jobs", *COMPILED_ROOMS)
    whole = modules_digest(copy)
    with (copy / edited).open("a") as file:
        file.write("LIMIT = 1\n")
    assert (modules_digest(copy, *COMPILED_ROOMS) != before) == is_stamped
    assert modules_digest(copy) != whole
