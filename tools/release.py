"""Makes a release: ``python -m tools.release x.y.z``, as ``make release VERSION=x.y.z`` does.

Writes the version where it stands, moves what the changelog has under Unreleased below it, builds
the wheel, says what it is made of, commits and tags. Nothing is pushed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tools.bill_of_materials import bill_of_materials

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# Where the version stands: a file, and what is around the number there.
PLACES = {
    "pyproject.toml": r'^(version = ")[^"]+(")$',
    "spark_jobs/version.py": r'^(VERSION = ")[^"]+(")$',
    "docker/compose.yaml": r"^(\s+image: quota-audit:)\S+()$",
    "docs/howto/production-airflow.md": r"(dist/quota_audit-)[0-9.]+(-py3)",
}
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"


class ReleaseError(Exception):
    """Why there is no release; nothing is changed."""


def current_version(root: Path) -> str:
    """Return the version that the sources have."""
    found = re.search(PLACES["pyproject.toml"], (root / "pyproject.toml").read_text(), re.M)
    if found is None:
        raise ReleaseError("pyproject.toml has no version.")
    return found[0].split('"')[1]


def released_changelog(text: str, version: str, day: dt.date) -> str:
    """Return the changelog with what is unreleased below ``version``, and nothing unreleased.

    Raises ReleaseError where nothing is.
    """
    head, marker, rest = text.partition(UNRELEASED)
    changes = rest.partition("\n## [")[0]
    if not marker or not re.search(r"^- ", changes, re.M):
        raise ReleaseError(f"{CHANGELOG} has nothing under '{UNRELEASED.strip()}'.")
    return f"{head}{UNRELEASED}\n## [{version}] - {day}\n{rest}"


def with_version(text: str, pattern: str, version: str, name: str) -> str:
    """Return a file's text with the version; raises ReleaseError where it has no place for it."""
    written, places = re.subn(pattern, rf"\g<1>{version}\g<2>", text, flags=re.M)
    if not places:
        raise ReleaseError(f"{name} has no version: expected a line like {pattern}.")
    return written


def release(root: Path, version: str, day: dt.date, build: list[str]) -> str:
    """Make the release in the clone ``root`` and return its tag.

    ``build`` is the command that builds the wheel; it is told where to by ``--out-dir``. Raises
    ReleaseError, with the clone as it was.
    """
    tag = f"v{version}"
    _check(root, version, tag)
    texts = {
        name: with_version((root / name).read_text("utf-8"), pattern, version, name)
        for name, pattern in PLACES.items()
    }
    changelog = (root / CHANGELOG).read_text("utf-8")
    texts[CHANGELOG] = released_changelog(changelog, version, day)
    for name, text in texts.items():
        (root / name).write_text(text, "utf-8")
    try:
        _build(root, version, build)
        (root / "dist" / f"quota_audit-{version}.cdx.json").write_text(
            bill_of_materials(root, version), "utf-8"
        )
        _git(root, "commit", "--quiet", "-m", f"Release {version}", "--", *texts)
    except (OSError, subprocess.CalledProcessError, ReleaseError) as error:
        _git(root, "checkout", "--quiet", "HEAD", "--", *texts)
        raise ReleaseError(f"{error}") from error
    _git(root, "tag", "--annotate", tag, "-m", f"quota-audit {version}")
    return tag


def _check(root: Path, version: str, tag: str) -> None:
    found, now = NUMBER.fullmatch(version), current_version(root)
    known = NUMBER.fullmatch(now)
    if found is None or known is None:
        raise ReleaseError(f"{version!r} is no version: expected three numbers, as 1.4.0.")
    is_tagged = bool(_git(root, "tag", "--list", f"v{now}"))
    if [*map(int, found.groups())] < [*map(int, known.groups())] or (version == now and is_tagged):
        raise ReleaseError(f"The sources have version {now}: {version} would be no later one.")
    if _git(root, "tag", "--list", tag):
        raise ReleaseError(f"The tag {tag} is there already.")
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"The clone is not clean. Commit or remove first:\n{changed}")


def _build(root: Path, version: str, build: list[str]) -> None:
    subprocess.run([*build, "--out-dir", "dist"], cwd=root, check=True)
    wheels = sorted(path.name for path in (root / "dist").glob(f"quota_audit-{version}-*.whl"))
    if not wheels:
        raise ReleaseError(f"The build left no wheel of {version} in dist.")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def main() -> int:
    """Make the release; return the exit code."""
    parser = argparse.ArgumentParser(description="Makes a release; nothing is pushed.")
    parser.add_argument("version", help="three numbers, as 1.4.0")
    parser.add_argument("--build", default="uv build --quiet --wheel", help="builds the wheel")
    asked = parser.parse_args()
    try:
        tag = release(ROOT, asked.version, dt.datetime.now(dt.UTC).date(), shlex.split(asked.build))
    except ReleaseError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    image = f"image quota-audit:{asked.version}"
    print(
        f"{tag} is committed and tagged, its wheel and what that is made of are in dist. Next: "
        f"docker compose -f docker/compose.yaml build ({image}), git push --follow-tags"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
