"""Processor seconds of the step ``replay``, Parquet to Parquet, beside others on the same rows.

All write the columns of ``decisions`` and ``rates``. What counts is the whole tree of processes,
the start of Spark and Python included; each runs alone, one after the other.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.made_requests import Traffic, make_warehouse
from benchmarks.process_tree import Taken, run
from spark_jobs.jobs.resolve_quotas import resolve_quotas

REQUESTS = 20_000_000
PEERS = {
    "replay_vs_polars_rolling": ("benchmarks.peers.polars_rolling", "Polars rolling sums of 10 s"),
    "replay_vs_apply_in_pandas": ("benchmarks.peers.apply_in_pandas", "applyInPandas per sensor"),
    "replay_vs_spark_copy": ("benchmarks.peers.spark_copy", "Spark scan and write, no replay"),
}


def measured(traffic: Traffic) -> dict[str, Taken]:
    """Return what the replay ("replay") and each peer took on one made warehouse."""
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        warehouse = folder / "warehouse"
        resolve_quotas(make_warehouse(warehouse, traffic))
        taken = {"replay": run("benchmarks.peers.own_replay", [str(warehouse)])}
        for name, (module, _) in PEERS.items():
            out = folder / "peer"
            taken[name] = run(module, [str(warehouse), str(out)])
            shutil.rmtree(out)
        return taken
    finally:
        shutil.rmtree(folder)


def ratios(requests: int = REQUESTS) -> dict[str, dict[str, Any]]:
    """Return by how much each peer takes more processor time than the replay."""
    taken = measured(Traffic(requests))
    ours = taken["replay"].cpu_s
    return {
        name: {
            "ratio": round(taken[name].cpu_s / ours, 3),
            "peer": peer,
            "unit": "processor seconds of the peer / of the replay",
            "ours": round(ours, 1),
            "theirs": round(taken[name].cpu_s, 1),
            "requests": requests,
        }
        for name, (_, peer) in PEERS.items()
    }


def main(requests: Annotated[int, typer.Argument(min=10_000)] = REQUESTS) -> None:
    taken = measured(Traffic(requests))
    names = {"replay": "quota-audit replay"} | {name: peer for name, (_, peer) in PEERS.items()}
    table = Table("", "CPU s", "wall s", "times the replay", "largest process, MB")
    for name, each in taken.items():
        times = each.cpu_s / taken["replay"].cpu_s
        largest = ", ".join(f"{process} {mb:,}" for process, mb in sorted(each.peak_mb.items()))
        cells = f"{each.cpu_s:.1f}", f"{each.wall_s:.1f}", f"{times:.2f}", largest
        table.add_row(names[name], *cells)
    Console(width=140).print(f"{requests:,} requests", table)


if __name__ == "__main__":
    typer.run(main)
