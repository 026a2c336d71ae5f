"""A stand-in for the command line `quota-audit`: says what it was asked, and ends as it is told.

FAKE_STEPS_JOURNAL: file to which each call's arguments are added, a JSON list a line.
FAKE_STEPS_EXIT: JSON object, first argument → exit code.
FAKE_STEPS_HANG: first argument of the step that never ends by itself, nor does its child.
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


def hang() -> None:
    # In a process group of its own, as PySpark's worker daemon is.
    child = subprocess.Popen(["sleep", "3600"], process_group=0)
    print(f"hanging as {os.getpid()} with child {child.pid}", flush=True)
    signal.pause()


def main() -> int:
    step = sys.argv[1]
    with Path(os.environ["FAKE_STEPS_JOURNAL"]).open("a") as journal:
        print(json.dumps(sys.argv[1:]), file=journal)
    if step == "days":
        print(DAYS)
        return 0
    if step == "publish":
        folder = Path(option("--warehouse"), "reports", f"cluster={option('--cluster')}")
        folder = folder / f"date={option('--day')}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.html").write_text("<h1>Fake report</h1>")
    if step == os.environ.get("FAKE_STEPS_HANG"):
        hang()
    exit_code = json.loads(os.environ.get("FAKE_STEPS_EXIT", "{}")).get(step, 0)
    if exit_code:
        print(f"error: [fake] {step} ends with {exit_code}", file=sys.stderr)
    else:
        print(f"{step} went well")
    return int(exit_code)


if __name__ == "__main__":
    sys.exit(main())
