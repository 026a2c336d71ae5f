"""Rows per second of the replay kernel beside Kafka's own Rate on the JVM, on the same arrays.

Each amount is recorded, measured and, when above its bound, given a throttle time. The JVM runs
``Rate`` of kafka-clients alone, without a broker's sensors and locks, and warms up on the same
arrays; start-up, compiling and reading are not counted. The same loop in C, where there is a
compiler, tells what numba costs. All must give the same bits. What counts is the processor time of
the one thread that replays, so that other work on the machine does not.

The rows lie in two ways: those of one sensor together, and in the order of time. The kernel and C
get them in as many calls as a broker's replay makes, and make new arrays for each call's answers;
the JVM fills two arrays that it has.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.peers.rate_in_c import replay_rate_in_c
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
EPOCH_MS = 1_700_000_000_000
ROUNDS, JVM_WARM_UP_ROUNDS = 20, 3
REFERENCE_ROWS_MAX = 50_000
ROWS = 2_000_000
# At least so many rows are replayed at once by spark_jobs/replay/replay_broker.py.
CALL_ROWS = 131_072
TOGETHER, BY_TIME = "", "_in_time_order"
NO_COMPILER = "no C compiler (gcc or cc) on PATH: not compared with C"


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of one thread for all rows; ``in_c`` None where there is no compiler."""

    kernel: float
    jvm: float
    in_c: float | None
    throttled: float  # share of the rows


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
        now_ms=EPOCH_MS + np.cumsum(gaps_ms),
        amount=rng.exponential(BOUND * MEAN_GAP_MS / 1000 * 1.5, n).round(),
        bound=np.full(n, BOUND),
        operation=np.full(n, RECORD),
        extra=np.full(n, NO_THROTTLE_MAX),
    )


def in_time_order(rows: Sequences) -> Sequences:
    """Return the same amounts by time, all sensors beginning at once, as a broker has them."""
    first = np.searchsorted(rows.sensor, np.arange(SENSORS))
    now_ms = rows.now_ms - rows.now_ms[first][rows.sensor] + EPOCH_MS
    return take(replace(rows, now_ms=now_ms), np.argsort(now_ms, kind="stable"))


def take(rows: Sequences, places: np.ndarray | slice) -> Sequences:
    own = [f.name for f in fields(rows) if len(getattr(rows, f.name)) == len(rows.sensor)]
    return replace(rows, **{name: getattr(rows, name)[places] for name in own})


def fresh_states() -> SensorStates:
    return SensorStates.allocate([PROFILE] * SENSORS, [SAMPLES] * SENSORS, [WINDOW_MS] * SENSORS)


def columns(rows: Sequences) -> list[np.ndarray]:
    """Return the columns that ``replay_rate`` takes, in its order and of its types."""
    nothing_logged = np.zeros(len(rows.sensor), np.int64)
    behaviour = rows.operation.astype(np.int8)
    return [
        *(rows.sensor, rows.now_ms, rows.amount, rows.bound, behaviour),
        *(nothing_logged, rows.extra),
    ]


def replayed(
    given: list[np.ndarray], states: SensorStates, replay: Callable[..., RateReplay] = replay_rate
) -> Iterator[RateReplay]:
    """Yield the answers of each call; the states move on."""
    for first in range(0, len(given[0]), CALL_ROWS):
        part = [column[first : first + CALL_ROWS] for column in given]
        yield replay(*part, *states.rate_arrays())


def whole(parts: Iterator[RateReplay]) -> RateReplay:
    return RateReplay(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def reference(rows: Sequences) -> None:
    rates = [Rate(PROFILE, SAMPLES, WINDOW_MS) for _ in range(SENSORS)]
    lists = [column.tolist() for column in (rows.sensor, rows.amount, rows.bound, rows.now_ms)]
    for sensor, amount, bound, now_ms in zip(*lists, strict=True):
        decide(rates[sensor], amount, bound, now_ms)


def best_seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def jvm_seconds(rows: Sequences, ours: RateReplay) -> float:
    """Return the JVM's best round; its answers must be ``ours``, or nothing is being compared.

    It runs as a broker's does, all its compilers included.
    """
    [answer] = run_oracle(client_jars(KAFKA_VERSION), ("benchmark", rows), options=())
    rate, throttle_time_ms, nanos = np.split(answer, [len(rows.sensor), 2 * len(rows.sensor)])
    assert np.array_equal(rate, bits(ours.rate)), "the kernel's rates are not Kafka's"
    assert np.array_equal(throttle_time_ms, ours.throttle_time_ms), "nor are the throttle times"
    return float(nanos[JVM_WARM_UP_ROUNDS:].min()) / 1e9


def c_seconds(rows: Sequences, ours: RateReplay, states: SensorStates) -> float | None:
    """Return the best round in C; its answers and states must be ours. None: no compiler."""
    replay = replay_rate_in_c()
    if replay is None:
        return None
    given, left = columns(rows), fresh_states()
    pairs = [*zip(whole(replayed(given, left, replay)), ours, strict=True)]
    pairs += zip(left.rate_arrays(), states.rate_arrays(), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs), "C and the kernel differ"
    return best_seconds(lambda: deque(replayed(given, fresh_states(), replay), maxlen=0))


def measured(rows: Sequences) -> Seconds:
    given, states = columns(rows), fresh_states()
    ours = whole(replayed(given, states))
    return Seconds(
        jvm=jvm_seconds(rows, ours),
        in_c=c_seconds(rows, ours, states),
        kernel=best_seconds(lambda: deque(replayed(given, fresh_states()), maxlen=0)),
        throttled=float(np.mean(ours.throttle_time_ms > 0)),
    )


def layouts(rows: int) -> dict[str, Sequences]:
    together = random_rows(rows)
    return {TOGETHER: together, BY_TIME: in_time_order(together)}


def ratios(rows: int = ROWS) -> dict[str, dict[str, Any]]:
    """Return how many times faster the kernel is than Kafka's own class, and than C."""
    found = {}
    for layout, given in layouts(rows).items():
        seconds = measured(given)
        peers = {"jvm": (seconds.jvm, f"Kafka {KAFKA_VERSION} Rate on the JVM")}
        if seconds.in_c is None:
            print(NO_COMPILER, file=sys.stderr)
        else:
            peers["c"] = seconds.in_c, "the same loop in C"
        for name, (theirs, peer) in peers.items():
            found[f"kernel_vs_{name}{layout}"] = {
                "ratio": round(theirs / seconds.kernel, 3),
                "peer": peer + layout.replace("_", " "),
                "unit": "processor seconds of the peer / of the kernel, one thread",
                "ours": round(seconds.kernel, 4),
                "theirs": round(theirs, 4),
                "rows": rows,
            }
    return found


def main(rows: Annotated[int, typer.Argument(min=SENSORS)] = ROWS) -> None:
    console = Console()
    for layout, given in layouts(rows).items():
        seconds = measured(given)
        speeds = {
            f"Kafka {KAFKA_VERSION} Rate, JVM": rows / seconds.jvm,
            "replay_rate, numba": rows / seconds.kernel,
        }
        if seconds.in_c is None:
            console.print(NO_COMPILER)
        else:
            speeds["the same loop, C"] = rows / seconds.in_c
        few = take(given, slice(REFERENCE_ROWS_MAX))
        plain = best_seconds(lambda few=few: reference(few), rounds=1)
        speeds["decide, plain Python"] = len(few.sensor) / plain
        table = Table("", "rows/s", "times the JVM")
        for name, speed in speeds.items():
            table.add_row(name, f"{speed:,.0f}", f"{speed * seconds.jvm / rows:.3g}")
        for column in table.columns[1:]:
            column.justify = "right"
        order = "in time order" if layout == BY_TIME else "each sensor's together"
        said = f"{rows:,} rows, {order}, {SENSORS:,} sensors, {seconds.throttled:.0%} throttled"
        console.print(f"{said}, one thread", table)


if __name__ == "__main__":
    typer.run(main)
