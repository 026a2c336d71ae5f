"""The locks and what they were made from agree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ["requirements", "requirements-dev", "tests/object_storage/moto"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)")


def pins(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    found = (PIN.match(line) for line in lines)
    return {m[1].lower().replace("_", "-").replace(".", "-"): m[2] for m in found if m}


@pytest.mark.parametrize("name", LOCKS)
def test_every_asked_pin_is_in_the_lock(name: str) -> None:
    asked, locked = pins(ROOT / f"{name}.in"), pins(ROOT / f"{name}.txt")
    assert asked
    wrong = {p: (v, locked.get(p)) for p, v in asked.items() if locked.get(p) != v}
    assert not wrong, f"{name}.in and {name}.txt disagree on {wrong}: run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_says_why(name: str) -> None:
    reason = None
    for line in (ROOT / f"{name}.in").read_text().splitlines():
        if line.startswith("#"):
            reason = line
        elif PIN.match(line):
            assert reason, f"{name}.in: {line} has no reason above it"
            follows = line.startswith("numpy")  # numba and numpy share one reason
            reason = reason if follows or line.startswith("numba") else None


def test_the_lock_satisfies_every_package_in_it() -> None:
    """A lock edited by hand, or one that lacks a dependency, fails here."""
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "check", "--python", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_environment_is_the_lock() -> None:
    from importlib.metadata import PackageNotFoundError, version

    locked = pins(ROOT / "requirements.txt")
    different = {}
    for package, wanted in locked.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "missing"
        if found != wanted:
            different[package] = (wanted, found)
    assert not different, f"the environment is not the lock: {different}; run `make setup`"
