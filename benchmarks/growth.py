"""What a replay takes for more requests, and where one client is 40 % of them.

Each size is a warehouse of its own, replayed in processes of its own. What every replay costs
(starting Spark and Python, a state for each client on each broker) is told by the smallest size and
taken out: a size's marginal cost is what its requests beyond the smallest size take. Beside it the
most memory of the driver's Python, a worker and the JVM, and the processor seconds of the busiest
worker. A hot client has its share of all requests on one broker, in as many requests as the largest
size up to HOT_MAX, and is compared with that. Where others use the machine, the busiest worker
tells more of the time that a hot client costs than the clock does. Each is the best of ROUNDS, or
of one for more requests than ROUNDS_MAX.
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

from benchmarks.kept_results import add_to_history, keep
from benchmarks.made_requests import make_warehouse
from benchmarks.made_traffic import Traffic
from benchmarks.process_tree import Taken
from benchmarks.replay import replayed, warm_up
from spark_jobs.resolve.resolve_quotas import resolve_quotas

SMALLEST = 200_000
SIZES = (1_000_000, 5_000_000, 20_000_000)
HOT_SHARE, HOT_MAX = 0.4, 20_000_000
PROCESSES = ("driver", "worker", "java")
ROUNDS, ROUNDS_MAX = 2, 5_000_000


def measured(traffic: Traffic, rounds: int = 1) -> dict[str, Any]:
    """Return what the step ``replay`` took over made requests, the best of ``rounds``."""
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        resolve_quotas(make_warehouse(folder, traffic))
        requests = sum(traffic.rows_of_brokers)
        found = [replayed(folder, requests) for _ in range(rounds)]
        return {
            "requests": requests,
            "hot_share": traffic.hot_share,
            "cpu_s": round(min(taken.cpu_s for taken in found), 1),
            "worker_s": round(min(taken.worker_s() for taken in found), 1),
            "wall_s": round(min(taken.wall_s for taken in found), 1),
            "peak_mb": _peak_mb(min(found, key=lambda taken: sum(_peak_mb(taken).values()))),
        }
    finally:
        shutil.rmtree(folder)


def _peak_mb(taken: Taken) -> dict[str, int]:
    names = {"driver": "driver", "java": "java"}
    return {short: taken.peak_mb.get(name, 0) for short, name in names.items()} | {
        "worker": taken.worker_mb()
    }


def with_marginal_cost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ``rows``, the smallest first, with microseconds of each request beyond the first's."""
    base = rows[0]
    for row in rows[1:]:
        more = row["requests"] - base["requests"]
        row["marginal_us"] = round((row["cpu_s"] - base["cpu_s"]) / more * 1e6, 2)
    return rows


def hot_beside_even(hot: dict[str, Any], even: dict[str, Any]) -> dict[str, float]:
    """Return how many times what the even case takes, the hot does; of memory by any process."""
    memory = (hot["peak_mb"][name] / max(even["peak_mb"][name], 1) for name in PROCESSES)
    return {
        "wall_times": round(hot["wall_s"] / even["wall_s"], 2),
        "cpu_times": round(hot["cpu_s"] / even["cpu_s"], 2),
        "worker_times": round(hot["worker_s"] / even["worker_s"], 2),
        "memory_times": round(max(memory), 2),
    }


def main(sizes: Annotated[list[int] | None, typer.Argument(min=SMALLEST + 1)] = None) -> None:
    warm_up()
    asked = sorted(sizes or SIZES)
    rows = with_marginal_cost(
        [measured(Traffic(size), 1 if size > ROUNDS_MAX else ROUNDS) for size in (SMALLEST, *asked)]
    )
    hot_size = max([size for size in asked if size <= HOT_MAX], default=asked[0])
    hot = measured(Traffic(hot_size, hot_share=HOT_SHARE))
    even = rows[1 + asked.index(hot_size)]
    found = {"even": rows, "hot": hot | hot_beside_even(hot, even)}
    keep("growth", found)
    add_to_history("growth", found)
    show([*rows, hot], found["hot"])


def show(rows: list[dict[str, Any]], hot: dict[str, Any]) -> None:
    table = Table(
        "requests",
        "",
        "CPU s",
        "marginal µs",
        "worker s",
        "wall s",
        *(f"{n} MB" for n in PROCESSES),
    )
    for row in rows:
        table.add_row(
            f"{row['requests']:,}",
            f"one client {row['hot_share']:.0%}" if row["hot_share"] else "",
            f"{row['cpu_s']:.1f}",
            f"{row['marginal_us']:.2f}" if "marginal_us" in row else "",
            f"{row['worker_s']:.1f}",
            f"{row['wall_s']:.1f}",
            *(f"{row['peak_mb'][name]:,}" for name in PROCESSES),
        )
    console = Console(width=120)
    console.print(table)
    wall, worker, memory = hot["wall_times"], hot["worker_times"], hot["memory_times"]
    console.print(
        f"one hot client: {wall}× the wall time, {worker}× the processor time of the busiest "
        f"worker, {memory}× the memory of a process"
    )


if __name__ == "__main__":
    typer.run(main)
