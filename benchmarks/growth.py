"""What a replay takes for more requests, and where one client is 40 % of them.

Each size is a warehouse of its own, replayed once in processes of its own: processor microseconds
a request, and the most memory that a Python worker and the JVM had.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.made_requests import Traffic, make_warehouse
from benchmarks.process_tree import Taken, run
from spark_jobs.jobs.resolve_quotas import resolve_quotas

SIZES = (1_000_000, 5_000_000, 20_000_000)
HOT_SHARE = 0.4


def replayed(traffic: Traffic) -> Taken:
    """Return what the step ``replay`` took over made requests."""
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        resolve_quotas(make_warehouse(folder, traffic))
        return run("benchmarks.peers.own_replay", [str(folder)])
    finally:
        shutil.rmtree(folder)


def main(sizes: Annotated[list[int] | None, typer.Argument(min=100_000)] = None) -> None:
    table = Table("requests", "", "CPU s", "CPU µs a request", "wall s", "worker MB", "JVM MB")
    of_sizes = [Traffic(size) for size in sizes or SIZES]
    hot = Traffic(of_sizes[-1].requests, hot_share=HOT_SHARE)
    for traffic in (*of_sizes, hot):
        taken = replayed(traffic)
        table.add_row(
            f"{traffic.requests:,}",
            f"one client {traffic.hot_share:.0%}" if traffic.hot_share else "",
            f"{taken.cpu_s:.1f}",
            f"{taken.cpu_s / traffic.requests * 1e6:.2f}",
            f"{taken.wall_s:.1f}",
            *(f"{taken.peak_mb.get(name, 0):,}" for name in ("python", "java")),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
