"""Rows per second of the replay kernel beside Kafka's own Rate on the JVM, on the same arrays.

Each amount is recorded, measured and, when above its bound, given a throttle time. The JVM runs
``Rate`` of kafka-clients alone, without a broker's sensors and locks, and warms up on the same
arrays; start-up, compiling and reading are not counted. Both must give the same bits. What counts
is the processor time of the one thread that replays, so that other work on the machine does not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD, decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from tests.oracle.jvm_quota import Sequences, bits, client_jars, run_oracle

KAFKA_VERSION, PROFILE = "4.1.0", RateProfile.RATE_3_8
SAMPLES, WINDOW_MS = 11, 1000
SENSORS = 1_000
BOUND = 1_000_000.0
MEAN_GAP_MS = 20
ROUNDS, WARM_UP_ROUNDS = 5, 2
REFERENCE_ROWS_MAX = 50_000
ROWS = 2_000_000


def random_rows(n: int) -> Sequences:
    """Return ``n`` amounts, those of one sensor together as a sorted Spark partition has them.

    A row each 20 ms and sensor on average, one in 500 after a pause of up to 30 s; about as many
    bytes as the bound allows, so that many rows are throttled and many are not.
    """
    rng = np.random.default_rng(20261121)
    gaps_ms = rng.exponential(MEAN_GAP_MS, n).astype(np.int64)
    pauses = rng.random(n) < 1 / 500
    gaps_ms[pauses] = rng.integers(0, 30_000, int(pauses.sum()))
    return Sequences(
        samples=np.full(SENSORS, SAMPLES),
        window_ms=np.full(SENSORS, WINDOW_MS),
        sensor=np.arange(n) * SENSORS // n,
        now_ms=1_700_000_000_000 + np.cumsum(gaps_ms),
        amount=rng.exponential(BOUND * MEAN_GAP_MS / 1000 * 1.5, n).round(),
        bound=np.full(n, BOUND),
        operation=np.full(n, RECORD),
        extra=np.full(n, NO_THROTTLE_MAX),
    )


def first_rows(rows: Sequences, n: int) -> Sequences:
    names = ("sensor", "now_ms", "amount", "bound", "operation", "extra")
    return replace(rows, **{name: getattr(rows, name)[:n] for name in names})


def kernel(rows: Sequences) -> RateReplay:
    states = SensorStates.allocate([PROFILE] * SENSORS, [SAMPLES] * SENSORS, [WINDOW_MS] * SENSORS)
    nothing_logged = np.zeros(len(rows.sensor), np.int64)
    columns = (rows.sensor, rows.now_ms, rows.amount, rows.bound, rows.operation)
    return replay_rate(*columns, nothing_logged, rows.extra, *states.rate_arrays())


def reference(rows: Sequences) -> None:
    rates = [Rate(PROFILE, SAMPLES, WINDOW_MS) for _ in range(SENSORS)]
    columns = (rows.sensor, rows.amount, rows.bound, rows.now_ms)
    for sensor, amount, bound, now_ms in zip(*(c.tolist() for c in columns), strict=True):
        decide(rates[sensor], amount, bound, now_ms)


def best_seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def jvm_seconds(rows: Sequences, ours: RateReplay) -> float:
    """Return the JVM's best round; its answers must be ``ours``, or nothing is being compared."""
    [answer] = run_oracle(client_jars(KAFKA_VERSION), ("benchmark", rows))
    rate, throttle_time_ms, nanos = np.split(answer, [len(rows.sensor), 2 * len(rows.sensor)])
    assert np.array_equal(rate, bits(ours.rate)), "the kernel's rates are not Kafka's"
    assert np.array_equal(throttle_time_ms, ours.throttle_time_ms), "nor are the throttle times"
    return float(nanos[WARM_UP_ROUNDS:].min()) / 1e9


def ratios(rows: int = ROWS) -> dict[str, dict[str, Any]]:
    """Return how many times faster the kernel is than Kafka's own class on the JVM."""
    given = random_rows(rows)
    theirs = jvm_seconds(given, kernel(given))
    ours = best_seconds(lambda: kernel(given))
    return {
        "kernel_vs_jvm": {
            "ratio": round(theirs / ours, 3),
            "peer": f"Kafka {KAFKA_VERSION} Rate on the JVM",
            "unit": "processor seconds of the peer / of the kernel, one thread",
            "ours": round(ours, 4),
            "theirs": round(theirs, 4),
            "rows": rows,
        }
    }


def main(rows: Annotated[int, typer.Argument(min=SENSORS)] = ROWS) -> None:
    given = random_rows(rows)
    ours = kernel(given)
    few = first_rows(given, min(rows, REFERENCE_ROWS_MAX))
    per_second = {
        f"Kafka {KAFKA_VERSION} Rate, JVM": rows / jvm_seconds(given, ours),
        "replay_rate, numba": rows / best_seconds(lambda: kernel(given)),
        "decide, plain Python": len(few.sensor) / best_seconds(lambda: reference(few), rounds=1),
    }
    table = Table("", "rows/s", "times the JVM")
    jvm = next(iter(per_second.values()))
    for name, speed in per_second.items():
        table.add_row(name, f"{speed:,.0f}", f"{speed / jvm:.3g}")
    for column in table.columns[1:]:
        column.justify = "right"
    throttled = np.mean(ours.throttle_time_ms > 0)
    console = Console()
    console.print(f"{rows:,} rows, {SENSORS:,} sensors, {throttled:.0%} throttled, one thread")
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
