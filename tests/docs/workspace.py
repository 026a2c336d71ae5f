"""A folder that looks like a clone, in which the commands of the documentation are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.standalone import SMALL_SPARK
from tests.docs.pages import ROOT

# What the pages call the clone's folder.
HOME = "/home/you/quota-audit"
# The machine's own words: of the JVM, and of Spark where a machine is slow.
_NOISE = re.compile(r"^(WARNING: Using incubator modules|\d\d/\d\d/\d\d [\d:]+ WARN )")
_LEFT_OUT = ("…", "...")
_WITHIN_S = 900


@dataclass(frozen=True, slots=True)
class Ran:
    """What a block's commands printed, output and errors as they came, and how they ended."""

    exit_code: int
    printed: str
    seconds: float


def make_clone(folder: Path) -> Path:
    """Return a folder with this project's files, an environment's programs, and room to write."""
    clone = folder / "quota-audit"
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    for source in ROOT.iterdir():
        if not source.name.startswith(".") and source.name != "artifacts":
            (clone / source.name).symlink_to(source)
    for name, arguments in {"python": "", "quota-audit": "-m spark_jobs.cli"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    return clone


def run_block(clone: Path, text: str) -> Ran:
    """Run a block's commands in one shell that stops at the first failure."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("QUOTA_AUDIT_")}
    started = time.monotonic()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=clone,
        env={
            **inherited,
            # As the tutorial sets it, and a Spark small enough to start often.
            "PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{inherited['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
            **SMALL_SPARK,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    printed = done.stdout.replace(str(clone), HOME)
    return Ran(done.returncode, printed, time.monotonic() - started)


def first_difference(shown: str, printed: str) -> str | None:
    """Return the first shown line that was not printed where it should be; None: all were.

    A shown line that is only ``…`` stands for any number of lines, ``…`` within a line for any
    text.
    """
    lines = [line.rstrip() for line in printed.splitlines() if not _NOISE.match(line)]
    position, may_skip = 0, False
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() in _LEFT_OUT:
            may_skip = True
            continue
        pattern = re.compile(".*".join(re.escape(p) for p in re.split("…", line.rstrip())))
        last = len(lines) if may_skip else min(position + 1, len(lines))
        found = next((i for i in range(position, last) if pattern.fullmatch(lines[i])), None)
        if found is None:
            return line
        position, may_skip = found + 1, False
    rest = [line for line in lines[position:] if line]
    return None if may_skip or not rest else f"(nothing more, but printed was) {rest[0]}"
