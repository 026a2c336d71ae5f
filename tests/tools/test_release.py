"""A release is one command in a clean clone: version, changelog, image, wheel, commit, tag."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.version import VERSION
from tools.release import (
    CHANGELOG,
    PLACES,
    ReleaseError,
    current_version,
    release,
    released_changelog,
)

ROOT = Path(__file__).parents[2]
DAY = dt.date(2026, 12, 1)
LATER = "7.8.9"
FAKE_BUILD = """
import pathlib, re, sys
version = re.search('version = "(.+)"', pathlib.Path("pyproject.toml").read_text())[1]
out = pathlib.Path(sys.argv[sys.argv.index("--out-dir") + 1])
out.mkdir()
(out / f"quota_audit-{version}-py3-none-any.whl").touch()
"""
BUILD = [sys.executable, "-c", FAKE_BUILD]


def git(clone: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=clone, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in (*PLACES, CHANGELOG, ".gitignore"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = (
        "# Changelog\n\n## [Unreleased]\n### Added\n- A thing.\n\n## [0.0.1] - 2026-01-01\n- Old.\n"
    )
    (tmp_path / CHANGELOG).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.email", "releases@example.com")
    git(tmp_path, "config", "user.name", "Releases")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "All there is")
    return tmp_path


def test_the_version_is_the_same_wherever_it_stands() -> None:
    assert current_version(ROOT) == VERSION
    for name, pattern in PLACES.items():
        found = re.findall(pattern, (ROOT / name).read_text("utf-8"), re.M)
        assert found, name
    images = re.findall(r"image: quota-audit:(\S+)", (ROOT / "docker/compose.yaml").read_text())
    assert set(images) == {VERSION}


def test_a_release_is_a_commit_a_tag_and_a_wheel(clone: Path) -> None:
    assert release(clone, LATER, DAY, BUILD) == "v7.8.9"
    assert git(clone, "describe") == "v7.8.9"
    assert git(clone, "log", "-1", "--format=%s") == "Release 7.8.9"
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "show", "--format=", "--name-only").split() == sorted([*PLACES, CHANGELOG])
    assert current_version(clone) == LATER
    assert f'VERSION = "{LATER}"' in (clone / "spark_jobs/version.py").read_text()
    assert f"  image: quota-audit:{LATER}\n" in (clone / "docker/compose.yaml").read_text()
    assert [wheel.name for wheel in (clone / "dist").iterdir()] == [
        "quota_audit-7.8.9-py3-none-any.whl"
    ]


def test_what_was_unreleased_is_below_the_version_with_its_date(clone: Path) -> None:
    release(clone, LATER, DAY, BUILD)
    assert (clone / CHANGELOG).read_text() == (
        "# Changelog\n\n## [Unreleased]\n\n## [7.8.9] - 2026-12-01\n### Added\n- A thing.\n\n"
        "## [0.0.1] - 2026-01-01\n- Old.\n"
    )
    with pytest.raises(ReleaseError, match="has nothing under"):
        released_changelog((clone / CHANGELOG).read_text(), "8.0.0", DAY)


def test_our_own_changelog_can_be_released() -> None:
    text = (ROOT / CHANGELOG).read_text("utf-8")
    assert f"## [Unreleased]\n\n## [{LATER}] - {DAY}\n" in released_changelog(text, LATER, DAY)


@pytest.mark.parametrize(
    ("version", "why"),
    [("1.2", "no version"), ("v9.0.0", "no version"), ("0.0.1", "would be no later one")],
)
def test_what_is_no_later_version_is_refused(clone: Path, version: str, why: str) -> None:
    with pytest.raises(ReleaseError, match=why):
        release(clone, version, DAY, BUILD)


def test_a_clone_with_changes_is_refused(clone: Path) -> None:
    (clone / "new.txt").touch()
    with pytest.raises(ReleaseError, match=r"not clean[^?]*\?\? new\.txt"):
        release(clone, LATER, DAY, BUILD)


def test_a_tag_is_given_once(clone: Path) -> None:
    git(clone, "tag", "v7.8.9")
    with pytest.raises(ReleaseError, match=r"v7\.8\.9 is there already"):
        release(clone, LATER, DAY, BUILD)


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "pass"], ids=["fails", "leaves no wheel"])
def test_a_build_that_fails_leaves_the_clone_as_it_was(clone: Path, code: str) -> None:
    with pytest.raises(ReleaseError, match=r"exit status 3|left no wheel of 7\.8\.9"):
        release(clone, LATER, DAY, [sys.executable, "-c", code])
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "tag") == ""
    assert current_version(clone) == VERSION
