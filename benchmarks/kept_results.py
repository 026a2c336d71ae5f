"""Where results are kept: ``benchmarks/results``, a file for each benchmark, and their history."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from pathlib import Path
from typing import Any

import psutil

from spark_jobs.warehouse.storage import write_whole

RESULTS = Path(__file__).parent / "results"
HISTORY = RESULTS / "history.jsonl"


def keep(name: str, found: object) -> None:
    """Write what a benchmark found to its own file, in place of what it found before."""
    RESULTS.mkdir(exist_ok=True)
    write_whole(RESULTS / f"{name}.json", json.dumps(found, indent=2) + "\n")


def add_to_history(name: str, found: object) -> None:
    """Add a line: what was found, when, at which commit, and on what machine."""
    machine = {"cores": psutil.cpu_count(), "memory_gb": psutil.virtual_memory().total >> 30}
    said: dict[str, Any] = {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine,
        name: found,
    }
    RESULTS.mkdir(exist_ok=True)
    with HISTORY.open("a", encoding="utf-8") as history:
        history.write(json.dumps(said) + "\n")


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=RESULTS.parent, capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.strip() or "unknown"
