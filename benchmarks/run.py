"""Every ratio of the benchmarks in one file: ``benchmarks/results/latest.json``, and its history.

A ratio says how many times better than its peer the work is, both measured in this run on the same
data. Earlier results stay in ``benchmarks/results/history.jsonl``, a line for each run.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import ingest, replay, replay_kernel
from spark_jobs.whole_file import write_whole

RESULTS = Path(__file__).parent / "results"
Ratios = dict[str, dict[str, Any]]


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RESULTS, capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"


def main(requests: Annotated[int, typer.Argument(min=10_000)] = replay.REQUESTS) -> None:
    measured: tuple[Callable[[], Ratios], ...] = (
        replay_kernel.ratios,
        ingest.ratios,
        lambda: replay.ratios(requests),
    )
    found: Ratios = {}
    for measure in measured:
        found |= measure()
        write_whole(RESULTS / "latest.json", json.dumps(found, indent=2) + "\n")
    machine = {"cores": psutil.cpu_count(), "memory_gb": psutil.virtual_memory().total >> 30}
    said = {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine,
        "ratios": {name: each["ratio"] for name, each in found.items()},
    }
    with (RESULTS / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps(said) + "\n")
    table = Table("", "ratio", "beside")
    for name, each in found.items():
        table.add_row(name, f"{each['ratio']:.2f}", str(each["peer"]))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
