"""A stand-in for the command line `quota-audit`: says what it was asked, and ends as it is told.

FAKE_STEPS_JOURNAL: file to which each call's arguments are added, a JSON list a line.
FAKE_STEPS_EXIT: JSON object, first argument → exit code.
FAKE_STEPS_SAYS: what such a step says last, in place of a sentence of its own.
FAKE_STEPS_HANG: an argument; a step that is given it never ends by itself, nor does its child.
    Its journal line is "hanging", its own process id and its child's.

FAKE_STEPS_REAL: JSON list of steps that the real command line does; `proposals`, which costs it
    little, always is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

DAYS = "2026-11-10"


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def note(*words: object) -> None:
    with Path(os.environ["FAKE_STEPS_JOURNAL"]).open("a") as journal:
        print(json.dumps(words), file=journal)


def hang() -> None:
    # In a process group of its own, as PySpark's worker daemon is.
    child = subprocess.Popen(["sleep", "3600"], process_group=0)
    note("hanging", os.getpid(), child.pid)
    signal.pause()


def publish_report() -> None:
    cluster, day = f"cluster={option('--cluster')}", f"date={option('--day')}"
    folder = Path(option("--warehouse"), "reports", cluster, day)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text("<h1>Fake report</h1>")


def main() -> int:
    step = sys.argv[1]
    note(*sys.argv[1:])
    if step == "days":
        print(DAYS)
        return 0
    if step in ["proposals", *json.loads(os.environ.get("FAKE_STEPS_REAL", "[]"))]:
        command = [sys.executable, "-m", "spark_jobs.cli", *sys.argv[1:]]
        return subprocess.run(command, check=False).returncode
    if step == "publish":
        publish_report()
    if os.environ.get("FAKE_STEPS_HANG") in sys.argv:
        hang()
    exit_code = int(json.loads(os.environ.get("FAKE_STEPS_EXIT", "{}")).get(step, 0))
    if exit_code:
        said = os.environ.get("FAKE_STEPS_SAYS", f"error: [fake] {step} ends with {exit_code}")
        print(said, file=sys.stderr)
    else:
        print(f"{step} went well")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
