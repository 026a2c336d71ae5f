"""A release is one command in a clean clone: version, changelog, image, wheel, commit, tag."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from spark_jobs.version import VERSION
from tools.bill_of_materials import IN_CHARTS, LOCK, bill_of_materials, locked_packages
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
    for name in (*PLACES, CHANGELOG, LOCK, ".gitignore"):
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
    assert sorted(made.name for made in (clone / "dist").iterdir()) == [
        "quota_audit-7.8.9-py3-none-any.whl",
        "quota_audit-7.8.9.cdx.json",
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


def test_a_release_says_what_it_is_made_of(clone: Path) -> None:
    release(clone, LATER, DAY, BUILD)
    text = (clone / "dist" / f"quota_audit-{LATER}.cdx.json").read_text()
    assert json.loads(text)["metadata"]["component"]["version"] == LATER


def test_the_bill_has_all_that_is_locked_and_bundled_with_hashes_and_who_asks_for_it() -> None:
    text = bill_of_materials(ROOT, VERSION)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    packages = locked_packages((ROOT / LOCK).read_text())
    components = {one["bom-ref"]: one for one in bill["components"]}
    for package in packages:
        one = components[f"pkg:pypi/{package.name}@{package.version}"]
        (files,) = one["externalReferences"]
        hashes = [found["content"] for found in files["hashes"]]
        assert sorted(hashes) == sorted(package.hashes)
        assert hashes
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    reached, ahead = set(), [bill["metadata"]["component"]["bom-ref"]]
    while ahead:
        ref = ahead.pop()
        ahead += [one for one in needs[ref] if one not in reached]
        reached.add(ref)
    assert set(components) <= reached
    names = {one["name"] for one in components.values()}
    assert names >= {one.name for one in IN_CHARTS} | {"kafka-clients"}


def test_what_is_bundled_is_what_the_notice_names() -> None:
    licenses = {path.name.removeprefix("LICENSE-") for path in (ROOT / "licenses").iterdir()}
    assert {one.name for one in IN_CHARTS} == licenses | {"echarts"}
