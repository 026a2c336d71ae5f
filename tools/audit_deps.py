"""Looks up every locked package in PyPI's advisories: ``python -m tools.audit_deps LOCK…``.

pip-audit looks them up. Where it ends without an answer its packages are asked for again in
halves, so that one package without an answer does not hide those of all others. Standard library
only.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ENTRY = re.compile(r"^[A-Za-z0-9._-]+==[^\s;\\]+", re.MULTILINE)
WITHOUT_ANSWER_MAX = 10
"""With so many packages the network is gone, and no further one is asked for alone."""


@dataclass(slots=True)
class Audit:
    """What was found: packages that were looked up, and why others were not."""

    looked_up: list[str] = field(default_factory=list)
    advisories: list[str] = field(default_factory=list)
    without_answer: dict[str, str] = field(default_factory=dict)


def locked(paths: Sequence[Path]) -> list[str]:
    """Return the packages of locks as ``name==version``, each once."""
    found = [entry for path in paths for entry in _ENTRY.findall(path.read_text("utf-8"))]
    return list(dict.fromkeys(found))


def look_up(packages: Sequence[str], pip_audit: Sequence[str], audit: Audit) -> None:
    """Add to ``audit`` what is known of ``packages``."""
    answer, why = _asked(packages, pip_audit)
    if answer is not None:
        for one in answer["dependencies"]:
            _take(one, audit)
    elif len(packages) == 1 or len(audit.without_answer) >= WITHOUT_ANSWER_MAX:
        audit.without_answer |= dict.fromkeys(packages, why)
    else:
        half = len(packages) // 2
        look_up(packages[:half], pip_audit, audit)
        look_up(packages[half:], pip_audit, audit)


def _asked(packages: Sequence[str], pip_audit: Sequence[str]) -> tuple[Any, str]:
    """Return the answer, None where there is none, and what was said instead."""
    options = ("--format=json", "--progress-spinner=off", "--disable-pip", "--no-deps", "-r")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(packages), "utf-8")
        done = subprocess.run(
            [*pip_audit, *options, str(file)], capture_output=True, text=True, check=False
        )
    try:
        return json.loads(done.stdout), ""
    except json.JSONDecodeError:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, said[-1]


def _take(one: dict[str, Any], audit: Audit) -> None:
    if "skip_reason" in one:
        audit.without_answer[one["name"]] = one["skip_reason"]
        return
    name = f"{one['name']}=={one['version']}"
    audit.looked_up.append(name)
    for advisory in one["vulns"]:
        fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
        audit.advisories.append(f"{name}: {advisory['id']}, mended in {fixed}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is known; return 1 where a package has an advisory, or no answer."""
    parser = argparse.ArgumentParser(description="Looks locked packages up in PyPI's advisories.")
    parser.add_argument("locks", nargs="+", type=Path)
    parser.add_argument("--pip-audit", default="pip-audit", help="the command that looks them up")
    asked = parser.parse_args(arguments)
    packages, audit = locked(asked.locks), Audit()
    look_up(packages, shlex.split(asked.pip_audit), audit)
    print(*audit.advisories, sep="\n", end="\n" * bool(audit.advisories))
    for name, why in audit.without_answer.items():
        print(f"{name} could not be looked up: {why}")
    print(
        f"{len(audit.looked_up)} of {len(packages)} packages were looked up: "
        f"{len(audit.advisories)} advisories, {len(audit.without_answer)} without an answer."
    )
    return 1 if audit.advisories or len(audit.looked_up) < len(packages) else 0


if __name__ == "__main__":
    sys.exit(main())
