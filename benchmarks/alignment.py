"""Requests per second and core of the alignment beside the plain replay, on the same rows.

The rows are a synthetic broker's: clients that obey their throttles, lines that tell the record
times to some milliseconds. The plain replay takes each row at its likely time; the search is run
with several widths over the whole log, then window after window as a day's log is. What counts is
the processor time of the one thread, after a run that compiles; "plain replays" is how many of them
the same time would do. The memory is what a process of its own took at most beyond what it began
with, for a tenth of the log and for all of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.alignment_cost import STEP_REQUESTS, STEP_REQUESTS_MIN, in_step, in_stream
from benchmarks.kept_results import add_to_history, keep
from benchmarks.replay import warm_up
from spark_jobs.replay.alignment.events import Events
from spark_jobs.replay.alignment.explanation import EXPLAINED
from tests.builders.synthetic_broker import (
    Audited,
    Log,
    Traffic,
    audited,
    audited_in_windows,
    is_throttled,
    logged,
    replayed_plainly,
    share_within,
)

WIDTHS = (32, 128, 512)
WINDOW_ROWS = 2_048
TIMES_LONGER = 10
MEAN_GAP_MS = 8.0

SPEED_ROWS = 10_000

WAYS: dict[str, Callable[[Log], Audited]] = {
    **{f"search of {width}": lambda log, width=width: audited(log, width) for width in WIDTHS},
    f"windows of {WINDOW_ROWS:,}": lambda log: audited_in_windows(log, WINDOW_ROWS),
}

# Those whose memory is told: one over the whole log, one that should not grow with it.
MEASURED = ("search of 128", f"windows of {WINDOW_ROWS:,}")


def first_rows(log: Log, n: int) -> Log:
    return Log(
        Events(*(column[:n] for column in log.events)),
        log.window,
        *(column[:n] for column in log[2:]),
    )


def print_speeds(log: Log, console: Console) -> None:
    """Print what each way costs and how much of the log it explains."""
    rows = len(log.turn)
    plain = replayed_plainly(log)
    started = time.thread_time()
    replayed_plainly(log)
    plain_s = time.thread_time() - started
    table = Table("", "requests/s", "plain replays", "within 1 ms", "not explained")
    share = share_within(log, plain.throttle_time_ms, off_ms=1)
    table.add_row("replay_rate", f"{rows / plain_s:,.0f}", "1", f"{share:.4f}", "")
    audited(first_rows(log, 100), 32)
    for name, way in WAYS.items():
        started = time.thread_time()
        found = way(log)
        took_s = time.thread_time() - started
        share = share_within(log, found.replayed_throttle_time_ms, off_ms=1)
        speed = f"{rows / took_s:,.0f}", f"{took_s / plain_s:,.0f}"
        table.add_row(name, *speed, f"{share:.4f}", str(int(np.sum(found.status != EXPLAINED))))
    show(table, console)


def print_memory(log: Log, console: Console) -> None:
    """Print the most memory taken for a tenth of the log and for all of it."""
    few = first_rows(log, len(log.turn) // TIMES_LONGER)
    audited(first_rows(log, 100), 32)
    table = Table("MB at most", f"{len(few.turn):,} rows", f"{len(log.turn):,} rows", "ratio")
    for name in MEASURED:
        way = WAYS[name]
        short, long = (peak_mb(lambda way=way, part=part: way(part)) for part in (few, log))
        table.add_row(name, f"{short:.1f}", f"{long:.1f}", f"{long / short:.1f}")
    show(table, console)


def peak_mb(work: Callable[[], object]) -> float:
    """Return the memory that ``work`` took at most, compiled code's own included, in megabytes."""
    return max(_peak_kb(work) - _peak_kb(lambda: None), 1) / 1024


def _peak_kb(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, status
    return usage.ru_maxrss


def show(table: Table, console: Console) -> None:
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)


def print_stream(found: dict[str, dict[str, float]], console: Console) -> None:
    """Print what a request costs in its stream, as estimated and aligned."""
    table = Table("µs a request, in the stream", "as estimated", "aligned", "times")
    for name, each in found.items():
        figures = each["estimated_us"], each["aligned_us"], each["times"]
        table.add_row(f"sensor {name}", *(f"{figure:,.2f}" for figure in figures))
    show(table, console)


def print_step(found: dict[str, Any], console: Console) -> None:
    """Print what a request costs in the whole step."""
    table = Table("µs a request, in the step", "far from the bound", "near it", "times")
    figures = f"{found['plain_us']:.2f}", f"{found['aligned_us']:.2f}", f"{found['times']:.1f}"
    table.add_row(f"{found['requests']:,} requests", *figures)
    show(table, console)


def main(
    rows: Annotated[int, typer.Argument(min=SPEED_ROWS)] = 40_000,
    step_requests: Annotated[int, typer.Argument(min=2 * STEP_REQUESTS_MIN)] = STEP_REQUESTS,
) -> None:
    log = logged(Traffic(seed=20261121, requests=rows, clients=10, mean_gap_ms=MEAN_GAP_MS))
    console = Console()
    throttled = f"{is_throttled(log).mean():.0%} throttled"
    console.print(f"{rows:,} requests of one sensor, {throttled}, one core")
    # First, while no freed memory of this process hides what a child of it takes.
    print_memory(log, console)
    few = first_rows(log, SPEED_ROWS)
    print_speeds(few, console)
    found: dict[str, Any] = {"stream": in_stream(few)}
    print_stream(found["stream"], console)
    warm_up()
    found["step"] = in_step(step_requests)
    print_step(found["step"], console)
    keep("alignment", found)
    add_to_history("alignment", found)


if __name__ == "__main__":
    typer.run(main)
