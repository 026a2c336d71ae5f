"""Compiled code of a package in a zip is kept for all applications, and where it can be kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cluster.package_zip import make_zip

KERNEL = """
from numba import njit

@njit(cache=True)
def half(number):
    return number / 2
"""
# Prints where the package is, and whether the kernel was compiled or found.
PROGRAM = """
import spark_jobs
from spark_jobs.quota.half import half
half(7)
print(spark_jobs.__file__, "found" if sum(half.stats.cache_hits.values()) else "compiled")
"""
# A folder in which even root makes none.
UNWRITABLE = Path("/proc/self")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_zip(tmp_path_factory.mktemp("made") / "spark_jobs.zip")
    with ZipFile(path, "a") as packed:
        packed.writestr("spark_jobs/quota/half.py", KERNEL)
    return path


def run(package: Path, application: Path, **environment: object) -> subprocess.CompletedProcess:
    """Run PROGRAM with a copy of the zip in an application's own folder."""
    application.mkdir(parents=True)
    copied = application / package.name
    copied.write_bytes(package.read_bytes())
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": copied.name} | {name: str(value) for name, value in environment.items()},
        cwd=application, capture_output=True, text=True,
    )  # fmt: skip


def found(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stderr
    file, how = done.stdout.split()
    assert file.endswith("spark_jobs.zip/spark_jobs/__init__.py")
    return how


def test_an_application_finds_what_the_one_before_has_compiled(
    package: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    first, second = (run(package, tmp_path / name / "0", HOME=home) for name in ("one", "two"))
    assert (found(first), found(second)) == ("compiled", "found")
    (folder,) = (home / ".cache" / "numba").iterdir()
    assert folder.name.startswith("quota-audit-")


@pytest.mark.parametrize("named", ["NUMBA_CACHE_DIR", "SPARK_LOCAL_DIRS"])
def test_code_is_kept_where_numba_or_spark_is_told_to_where_there_is_no_home(
    package: Path, tmp_path: Path, named: str
) -> None:
    kept = tmp_path / "kept"
    done = run(package, tmp_path / "app", HOME=UNWRITABLE, **{named: kept})
    assert found(done) == "compiled"
    assert list(kept.glob("quota-audit-*/spark_jobs/quota/*.nbi"))


def test_where_nothing_may_be_written_it_is_said(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path / "app", HOME=UNWRITABLE)
    assert done.returncode == 1
    assert "Set NUMBA_CACHE_DIR to a folder of the worker's user." in done.stderr.splitlines()[-1]
