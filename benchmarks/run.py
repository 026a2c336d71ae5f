"""Every ratio of the benchmarks in one file: ``benchmarks/results/latest.json``, and its history.

A ratio says how many times better than its peer the work is, both measured in this run on the same
data. Earlier results stay in ``benchmarks/results/history.jsonl``, a line for each run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import ingest, replay, replay_kernel
from benchmarks.kept_results import add_to_history, keep

Ratios = dict[str, dict[str, Any]]


def main(requests: Annotated[int, typer.Argument(min=10_000)] = replay.REQUESTS) -> None:
    measured: tuple[Callable[[], Ratios], ...] = (
        replay_kernel.ratios,
        ingest.ratios,
        lambda: replay.ratios(requests),
    )
    found: Ratios = {}
    for measure in measured:
        found |= measure()
        keep("latest", found)
    add_to_history("ratios", {name: each["ratio"] for name, each in found.items()})
    table = Table("", "ratio", "beside")
    for name, each in found.items():
        table.add_row(name, f"{each['ratio']:.2f}", str(each["peer"]))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
