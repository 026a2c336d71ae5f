"""Requests per second and core of every policy beside the plain replay, on the same requests.

The plain replay is the audit's compiled kernel over arrays; "plain" is how many of those the same
time would do. "decided" is the policy alone, over requests that are there already; "what-if"
is the way of ``quota-audit whatif``: Arrow rows made requests, decided on, and counted in figures.
Speeds are of the processor time of the one thread. The memory is what a process of its own took at
most beyond what it began with: as logged it should not grow with the log, and in the closed loop,
which holds every connection's whole log, it must.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.alignment import peak_mb, show
from benchmarks.policy_log import BROKERS, TOPICS, byte_batches, mutation_batches
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.partition_inventory import MUTATION_APIS, PartitionInventory
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.whatif.clients.closed_loop import clients_of, sendings_of
from spark_jobs.whatif.clients.normalized_requests import (
    logged_connections,
    normalized_requests,
    rows_of,
)
from spark_jobs.whatif.clients.replay import closed_loop_rows, outcome_rows, replay_as_logged
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.policies.catalogue import POLICIES, policy_class
from spark_jobs.whatif.policies.change import TopicAdded
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest

BOUND, MUTATION_BOUND = 100_000.0, 10.0
SAMPLES, WINDOW_MS = 11, 1000
PARTITIONS, LEADERS = 12, 4
ROUNDS, KERNEL_ROUNDS = 3, 5
TIMES_LONGER = 10
MEMORY_BATCH_ROWS = 1_000
CLOSED_LOOP = "broker_bandwidth"
# One of each way to keep a state; the last of what KIP-13 rejected keeps the most.
MEASURED = (
    "broker_bandwidth",
    "broker_side_v1",
    "kip13_cluster_wide",
    "kip13_delay_then_error",
    "kip599_token_bucket",
    "kip599_usage_based",
)

EVERYONE = {"user": "<default>", "client-id": "<default>"}
BYTE_QUOTAS = {"producer_byte_rate": BOUND, "consumer_byte_rate": BOUND}
REQUEST_QUOTA = {"request_percentage": 0.3}
KIP13 = {"quota.producer.default": int(BOUND), "quota.consumer.default": int(BOUND)}
RETRIES = {**KIP13, "retries": 3}
BUCKET = {"quota.partition.mutations.rate": 100, "quota.partition.mutations.burst": 1_000}
MUTATION_QUOTA = {"quotas": [{**EVERYONE, "controller_mutation_rate": MUTATION_BOUND}]}
CONFIGS: dict[str, dict[str, object]] = {
    "broker_side_v1": {"total.bytes.in.per.sec.threshold": 1_000_000},
    "kip13": KIP13,
    "kip13_client_topic": {"quota.producer.default": "10K", "quota.consumer.default": "10K"},
    "kip13_topic": KIP13,
    "kip13_topic_partition": {key: bound * PARTITIONS // LEADERS for key, bound in KIP13.items()},
    "kip13_cluster_wide": {
        **{key: bound * len(BROKERS) for key, bound in KIP13.items()},
        "quota.sharing.delay.ms": 100,
    },
    "kip13_immediate_error": RETRIES,
    "kip13_delay_then_error": RETRIES,
    "kip599_early": BUCKET,
    "kip599_rate": MUTATION_QUOTA,
    "kip599_rate_burst_spread": MUTATION_QUOTA,
    "kip599_token_bucket": MUTATION_QUOTA,
    "kip599_execution_throttle": BUCKET,
    "kip599_no_error": BUCKET,
    "kip599_usage_based": {"quotas": [{**EVERYONE, "controller_usage_rate": 1.0}]},
    "broker_bandwidth": {"quotas": [{**EVERYONE, **BYTE_QUOTAS}]},
    "broker_request_percentage": {"quotas": [{**EVERYONE, **REQUEST_QUOTA}]},
    "broker_client_quotas": {"quotas": [{**EVERYONE, **BYTE_QUOTAS, **REQUEST_QUOTA}]},
    "broker_controller_mutation": MUTATION_QUOTA,
}
LED = tuple(
    TopicAdded(0, broker_id, topic, PARTITIONS, LEADERS)
    for broker_id in BROKERS
    for topic in TOPICS
)
SCENARIOS = tuple(ScenarioPolicy(name, name, CONFIGS[name], LED) for name in POLICIES)
NAMED = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass(frozen=True, slots=True)
class Log:
    """The same requests in the three forms that are replayed."""

    batches: tuple[pa.RecordBatch, ...]
    requests: tuple[PolicyRequest, ...]
    # Arguments of the kernel before the states: sensor, time, amount, bound, and constants.
    columns: tuple[np.ndarray, ...]
    sensors: int

    @classmethod
    def of(cls, batches: Iterator[pa.RecordBatch], bound: float) -> Log:
        """Return the log of some batches; in the plain replay every client has the same bound."""
        held = tuple(batches)
        requests = tuple(normalized_requests(held, inventory=PartitionInventory()))
        number: dict[tuple[int, str, str | None], int] = {}
        sensor = [
            number.setdefault((r.broker_id, r.user, r.client_id), len(number)) for r in requests
        ]
        n = len(requests)
        columns = (
            np.array(sensor),
            np.array([r.at_ms for r in requests]),
            np.array([r.amount for r in requests]),
            np.full(n, bound),
            np.full(n, RECORD, np.int8),
            np.zeros(n, np.int64),
            np.full(n, NO_THROTTLE_MAX),
        )
        return cls(held, requests, columns, len(number))


def replayed_plainly(log: Log) -> RateReplay:
    n = log.sensors
    states = SensorStates.allocate([RateProfile.RATE_3_8] * n, [SAMPLES] * n, [WINDOW_MS] * n)
    return replay_rate(*log.columns, *states.rate_arrays())


def decisions(scenario: ScenarioPolicy, log: Log) -> Iterator[tuple[PolicyRequest, Decision]]:
    return replay_as_logged(scenario.begin(), log.requests)


def figures(scenario: ScenarioPolicy, batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return outcome_rows(scenario, normalized_requests(batches, inventory=PartitionInventory()))


def closed_loop_figures(
    scenario: ScenarioPolicy, batches: Iterator[pa.RecordBatch]
) -> list[dict[str, object]]:
    return closed_loop_rows(scenario, logged_connections(rows_of(batches)))


def seconds(work: Callable[[], object], rounds: int = 1) -> float:
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def speed_cells(work: Callable[[], object], log: Log) -> list[str]:
    """Return the requests per second of the best round, and the median of plain replays.

    Both are timed in each round, for on a busy machine a second is not always the same work.
    """
    took, plain = [], []
    for _ in range(ROUNDS):
        plain.append(seconds(lambda: replayed_plainly(log), KERNEL_ROUNDS))
        took.append(seconds(work))
    ratio = np.median(np.array(took) / np.array(plain))
    return [f"{len(log.requests) / min(took):,.0f}", f"{ratio:,.0f}"]


def is_mutations(name: str) -> bool:
    return policy_class(name).apis <= frozenset(MUTATION_APIS)


def is_held(decision: Decision) -> bool:
    is_refused = decision.refusal is not None or any(t.refusal for t in decision.topics)
    return decision.delay_ms > 0 or is_refused


def held_share(scenario: ScenarioPolicy, log: Log) -> float:
    held = [is_held(decision) for _, decision in decisions(scenario, log)]
    share = sum(held) / len(held)
    assert 0 < share < 1, f"{scenario.name} decides the same on every request: {share}"
    return share


def is_same_work(log: Log) -> bool:
    """Return whether the kernel throttles what its policy does; fetches are taken back there."""
    pairs = zip(
        decisions(NAMED["broker_bandwidth"], log),
        replayed_plainly(log).throttle_time_ms,
        strict=True,
    )
    return all(d.delay_ms == ms for (r, d), ms in pairs if r.api_name == "PRODUCE")


def print_speeds(of_bytes: Log, of_mutations: Log, console: Console) -> None:
    table = Table("", "held", "decided/s", "plain", "what-if/s", "plain", box=SIMPLE_HEAD)
    for kind, log in (("bytes", of_bytes), ("mutations", of_mutations)):
        cells = speed_cells(lambda log=log: replayed_plainly(log), log)
        table.add_row(f"replay_rate, {kind}", "", *cells, "", "")
    for scenario in SCENARIOS:
        log = of_mutations if is_mutations(scenario.name) else of_bytes
        decided = speed_cells(lambda s=scenario, log=log: sum(1 for _ in decisions(s, log)), log)
        whole = speed_cells(lambda s=scenario, log=log: figures(s, iter(log.batches)), log)
        table.add_row(scenario.name, f"{held_share(scenario, log):.0%}", *decided, *whole)
    closed, connections = NAMED[CLOSED_LOOP], logged_connections(rows_of(of_bytes.batches))
    decided = speed_cells(
        lambda: deque(sendings_of(closed.begin(), clients_of(connections, closed.clients)), 0),
        of_bytes,
    )
    whole = speed_cells(lambda: closed_loop_figures(closed, iter(of_bytes.batches)), of_bytes)
    table.add_row(f"{CLOSED_LOOP}, closed loop", "", *decided, *whole)
    show(table, console)


def as_logged_once(scenario: ScenarioPolicy, rows: int) -> None:
    batches = mutation_batches if is_mutations(scenario.name) else byte_batches
    figures(scenario, batches(rows, MEMORY_BATCH_ROWS))


def closed_loop_once(scenario: ScenarioPolicy, rows: int) -> None:
    closed_loop_figures(scenario, byte_batches(rows, MEMORY_BATCH_ROWS))


def print_memory(rows: int, console: Console) -> None:
    """Print the most memory that so many requests took, and ten times as many."""
    many = rows * TIMES_LONGER
    table = Table("MB at most", f"{rows:,}", f"{many:,}", "bytes a request", box=SIMPLE_HEAD)
    ways = [(f"{name}, as logged", as_logged_once, NAMED[name]) for name in MEASURED]
    ways.append((f"{CLOSED_LOOP}, closed loop", closed_loop_once, NAMED[CLOSED_LOOP]))
    for _, way, scenario in ways:
        way(scenario, 100)
    for label, way, scenario in ways:
        short, long = (peak_mb(partial(way, scenario, n)) for n in (rows, many))
        growth = (long - short) * 2**20 / (many - rows)
        table.add_row(label, f"{short:.1f}", f"{long:.1f}", f"{growth:,.0f}")
    show(table, console)


def main(rows: Annotated[int, typer.Argument(min=2_000)] = 20_000) -> None:
    console = Console()
    # First, while no freed memory of this process hides what a child of it takes.
    print_memory(rows // 2, console)
    of_bytes = Log.of(byte_batches(rows), BOUND)
    of_mutations = Log.of(mutation_batches(rows), MUTATION_BOUND)
    assert is_same_work(of_bytes), "the kernel and the policy throttle different produces"
    sensors = f"{of_bytes.sensors:,} and {of_mutations.sensors:,} sensors"
    console.print(f"{rows:,} produces and fetches, {rows:,} mutations, {sensors}, one core")
    print_speeds(of_bytes, of_mutations, console)


if __name__ == "__main__":
    typer.run(main)
