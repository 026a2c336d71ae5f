"""Processor seconds of the step ``replay``, Parquet to Parquet, beside others on the same rows.

All write the columns of ``decisions`` and ``rates``. What counts is the whole tree of processes,
the start of Spark and Python included; each runs alone, one after the other, and must say of as
many rows as the replay that it wrote them. A peer that takes long, or holds all rows in memory,
gets the first brokers' rows only, and is compared with a replay of those.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.made_requests import make_warehouse
from benchmarks.made_traffic import Traffic
from benchmarks.process_tree import Taken, run
from spark_jobs.resolve.resolve_quotas import resolve_quotas

REQUESTS = 20_000_000
WARM_UP = Traffic(20_000, brokers=2)
OWN = "benchmarks.peers.own_replay"
UNIT = "processor seconds of the peer / of the replay"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another way to do it, and how many requests it can do."""

    name: str
    module: str
    title: str
    requests_max: int


PEERS = (
    # Some 0.6 GB of memory a million.
    Peer("replay_vs_polars_rolling", "polars_rolling", "Polars rolling sums of 10 s", REQUESTS),
    # Some 40 processor seconds a million.
    Peer("replay_vs_apply_in_pandas", "apply_in_pandas", "applyInPandas per sensor", 5_000_000),
    Peer("replay_vs_spark_copy", "spark_copy", "Spark scan and write, no replay", REQUESTS),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """What the replay and a peer took on the same requests."""

    peer: Peer
    requests: int
    ours: Taken
    theirs: Taken

    @property
    def ratio(self) -> float:
        """Return how many times the processor seconds of the replay the peer takes."""
        return self.theirs.cpu_s / self.ours.cpu_s


def compared(traffic: Traffic) -> list[Compared]:
    """Return the replay beside each peer, on one made warehouse or its first brokers."""
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        resolve_quotas(make_warehouse(folder / "all", traffic))
        ours: dict[int, Taken] = {}
        found = []
        for peer in PEERS:
            brokers = max(peer.requests_max * traffic.brokers // traffic.requests, 1)
            rows = traffic.rows_of_brokers[:brokers]
            requests, part = sum(rows), folder / str(len(rows))
            if len(rows) not in ours:
                first_brokers(folder / "all", part, len(rows))
                ours[len(rows)] = replayed(part, requests)
            theirs = run(f"benchmarks.peers.{peer.module}", [str(part), str(folder / "out")])
            _check(peer.title, theirs, requests)
            found.append(Compared(peer, requests, ours[len(rows)], theirs))
            shutil.rmtree(folder / "out")
        return found
    finally:
        shutil.rmtree(folder)


def warm_up() -> None:
    """Replay a little, so that compiled code is on disk as it is from the second audit on."""
    with tempfile.TemporaryDirectory(prefix="quota-audit-bench-") as folder:
        resolve_quotas(make_warehouse(Path(folder), WARM_UP))
        replayed(Path(folder), WARM_UP.requests)


def replayed(warehouse: Path, requests: int) -> Taken:
    """Return what the step ``replay`` took."""
    taken = run(OWN, [str(warehouse)])
    _check("the replay", taken, requests)
    return taken


def first_brokers(whole: Path, part: Path, brokers: int) -> None:
    """Make a warehouse of the first brokers' requests out of ``whole``; no file is copied."""
    for path in whole.rglob("*"):
        place = part / path.relative_to(whole)
        is_other = path.match("part-*.parquet") and int(path.stem.removeprefix("part-")) >= brokers
        if path.is_symlink() or (path.is_file() and not is_other):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, place, follow_symlinks=False)


def _check(who: str, taken: Taken, requests: int) -> None:
    said = re.search(r"\d[\d,]*", taken.said)
    if said is None or int(said[0].replace(",", "")) != requests:
        raise ValueError(f"{who} should have decided on {requests:,} requests: {taken.said!r}")


def ratios(requests: int = REQUESTS) -> dict[str, dict[str, Any]]:
    """Return by how much each peer takes more processor time than the replay."""
    return {
        each.peer.name: {
            "ratio": round(each.ratio, 3),
            "peer": each.peer.title,
            "unit": UNIT,
            "ours": round(each.ours.cpu_s, 1),
            "theirs": round(each.theirs.cpu_s, 1),
            "requests": each.requests,
        }
        for each in compared(Traffic(requests))
    }


def main(requests: Annotated[int, typer.Argument(min=10_000)] = REQUESTS) -> None:
    table = Table("", "requests", "CPU s", "replay, CPU s", "times", "worker MB", "JVM MB")
    for each in compared(Traffic(requests)):
        table.add_row(
            each.peer.title,
            f"{each.requests:,}",
            f"{each.theirs.cpu_s:.1f}",
            f"{each.ours.cpu_s:.1f}",
            f"{each.ratio:.2f}",
            f"{each.theirs.worker_mb():,}",
            f"{each.theirs.peak_mb.get('java', 0):,}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
