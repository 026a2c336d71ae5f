"""The locks and what they were made from agree."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ["requirements", "requirements-build", "requirements-dev", "tests/object_storage/moto"]
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


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_of_a_lock_has_hashes_and_names_no_index(name: str) -> None:
    text = (ROOT / f"{name}.txt").read_text()
    entries = re.split(r"\n(?=\S)", text)
    locked = [entry for entry in entries if PIN.match(entry)]
    assert len(locked) == len(pins(ROOT / f"{name}.txt")) > 0
    bare = [
        entry.split()[0] for entry in locked if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)
    ]
    assert bare == []
    assert "://" not in text


def test_the_same_tool_installs_and_is_tested_with() -> None:
    build, dev = (pins(ROOT / f"requirements-{name}.txt")["uv"] for name in ("build", "dev"))
    assert build == dev


def test_nothing_is_installed_or_built_without_hashes() -> None:
    """Our own folder alone has none; what builds it has."""
    dry = ["make", "--dry-run", "--always-make", "setup-dev", "package", f"UV={ROOT}/.uv/bin/uv"]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [line.split() for line in done.splitlines() if "pip install" in line]
    first, *others = installs
    assert first[-3:] == ["--require-hashes", "-r", "requirements-build.txt"]
    assert len(others) == 3
    for words in others:
        assert "--require-hashes" in words or words[-2:] == ["-e", "."], words
        assert words[words.index("--build-constraints") + 1] == "requirements-build.txt"
        assert "--no-deps" in words
    (build,) = [line.split() for line in done.splitlines() if "uv build" in line]
    assert {"--require-hashes", "--build-constraints"} <= set(build)
    ci = (ROOT / ".ci" / "run").read_text()
    assert "make setup-dev" in ci
    assert "pip install" not in ci


def test_a_file_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    made = tmp_path / "index" / "small"
    made.mkdir(parents=True)
    wheel = made / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        info = "small-1.0.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest(), "0" * 64]
    codes = []
    for number, one in enumerate(hashes):
        lock = tmp_path / f"{number}.txt"
        lock.write_text(f"small==1.0 --hash=sha256:{one}\n")
        done = subprocess.run(
            [sys.executable, "-m", "uv", "pip", "install", "--require-hashes", "--no-deps",
             "--no-index", "--no-cache", "--find-links", str(made), "--target",
             str(tmp_path / f"to{number}"), "-r", str(lock)],
            capture_output=True, text=True,
        )  # fmt: skip
        codes.append((done.returncode == 0, "Hash mismatch" in done.stderr))
    assert codes == [(True, False), (False, True)]


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
