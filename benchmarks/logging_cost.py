"""What logging every request costs a live broker: log size, processor time, latency, lost lines.

    python -m benchmarks.logging_cost                 Kafka 4.1.0, log4j 2
    python -m benchmarks.logging_cost 3.9.1           log4j 1, with KRaft
    python -m benchmarks.logging_cost 2.8.2           log4j 1, with ZooKeeper

One broker a way of writing the log; on each the logger is turned on and off while it runs, and the
same load is sent both times, at each rate. The load generator runs on the same machine: processor
seconds are the broker's alone, latencies are of both. Printed and kept: medians over the rounds.
Then the log stands still a second in every five, as a busy disk does.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.kept_results import RESULTS, add_to_history, keep
from benchmarks.logged_requests import Logged, logged_requests
from benchmarks.stalling_pipe import stalling_pipe
from tests.oracle.cluster_plan import BROKER, COMBINED, CONTROLLER, ZOOKEEPER, ClusterPlan, Node
from tests.oracle.java_program import java_program
from tests.oracle.kafka_libs import kafka_libs
from tests.oracle.lab import free_ports, running_cluster
from tests.oracle.lab_process import JavaProcess, java_process
from tests.oracle.logging_file import logging_file

FOLDER = Path(__file__).parent / "brokers"
KEPT = RESULTS / "logging_cost.json"
RATES = (100, 500, 2000)
SECONDS, ROUNDS, WARM_UP_SECONDS = 10, 3, 15
STALLED_RATES, STALLED_SECONDS = (500, 2000), 20
SETTLE_SECONDS = 0.5
WAYS = {
    "Written": "file",
    "Waits": "asynchronous, 1024 lines, waits",
    "Drops": "asynchronous, 1024 lines, drops",
    "DropsSoon": "asynchronous, 16 lines, drops",
}
"""Appenders of the logging files in ``brokers/``, and what results call them."""

# As Kafka's own start script has it, with less memory.
JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
       "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")  # fmt: skip
SUMMED = ("requests", "lost")
COLUMNS = ("mb_per_1000", "gzip_mb_per_1000", "cpu_s_per_1000", "p50_ms", "p99_ms", *SUMMED)
_NODE = 1
_OFF, _ON = "WARN", "DEBUG"


class Load:
    """The load generator, a command at a time."""

    def __init__(self, java: JavaProcess) -> None:
        self._java = java
        self._answers = 0

    def ask(self, command: str, within_seconds: float) -> list[int]:
        """Return the numbers of the answer."""
        self._java.say(f"{command}\n")
        deadline = time.monotonic() + within_seconds
        while len(answers := self._done()) == self._answers:
            if time.monotonic() > deadline or self._java.has_ended_well():
                raise RuntimeError(f"no answer to {command!r}: {self._java.output.read_text()}")
            time.sleep(0.02)
        self._answers = len(answers)
        return [int(word) for word in answers[-1].split()[1:]]

    def _done(self) -> list[str]:
        said = self._java.output.read_text(errors="replace").split("\n")
        return [line for line in said[:-1] if line.startswith("done")]


def measured(kafka_version: str, way: str) -> list[dict[str, Any]]:
    """Return a row for each rate, level and round of one broker that writes its log so."""
    with tempfile.TemporaryDirectory(prefix="quota-audit-bench-") as folder:
        log = Path(folder) / "kafka-request.log"
        rows = []
        with broker(kafka_version, way, Path(folder), log) as (load, process):
            for turn in range(ROUNDS):
                for rate in RATES:
                    # In turn first and second, so that neither always finds the warmer broker.
                    for level in (_OFF, _ON) if turn % 2 == 0 else (_ON, _OFF):
                        name = f"r{turn}-{rate}-{level}"
                        rows.append(_run(load, process, rate, level, SECONDS, name))
        # The broker has stopped: an asynchronous appender has written what it had.
        return _with_logged(rows, sorted(Path(folder).glob(f"{log.name}*")))


def stalled(kafka_version: str, way: str) -> list[dict[str, Any]]:
    """Return a row for each rate, of a broker whose log stands still a second in every five."""
    with tempfile.TemporaryDirectory(prefix="quota-audit-bench-") as folder:
        pipe, copy = Path(folder) / "pipe", Path(folder) / "kafka-request.log"
        with stalling_pipe(pipe, copy), broker(kafka_version, way, Path(folder), pipe) as running:
            rows = [
                _run(*running, rate, _ON, STALLED_SECONDS, f"s{rate}") for rate in STALLED_RATES
            ]
        return _with_logged(rows, [copy])


def _run(
    load: Load, process: psutil.Process, rate: int, level: str, seconds: int, client_id: str
) -> dict[str, Any]:
    load.ask(f"level {_NODE} {level}", 60)
    before = process.cpu_times()
    answered, p50, p99, longest = load.ask(
        f"load {client_id} {rate} {seconds * 1000}", 10 * seconds
    )
    # A client has its answer before the broker has logged it.
    time.sleep(SETTLE_SECONDS)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return {"client_id": client_id, "rate": rate, "logged": level == _ON, "requests": answered,
            "cpu_s_per_1000": used / answered * 1000, "p50_ms": p50 / 1000, "p99_ms": p99 / 1000,
            "max_ms": longest / 1000}  # fmt: skip


def _with_logged(rows: list[dict[str, Any]], logs: list[Path]) -> list[dict[str, Any]]:
    logged = logged_requests(logs)
    for row in rows:
        found = logged.get(row.pop("client_id"), Logged())
        if not row["logged"] and found.lines:
            raise RuntimeError(f"{found.lines} lines were logged with the logger at {_OFF}")
        if row["logged"]:
            row["lost"] = row["requests"] - found.lines
            row["mb_per_1000"] = len(found.text) / found.lines / 1000
            row["gzip_mb_per_1000"] = len(gzip.compress(found.text, 6)) / found.lines / 1000
    return rows


@contextmanager
def broker(
    kafka_version: str, way: str, folder: Path, log: Path
) -> Iterator[tuple[Load, psutil.Process]]:
    """Run a broker that logs into ``log``, warm; yield its load generator and its process."""
    is_with_zookeeper = kafka_version.startswith("2.")
    ports = free_ports(4)
    node = Node(_NODE, (BROKER,) if is_with_zookeeper else (BROKER, CONTROLLER), *ports[:2],
                controller_port=0 if is_with_zookeeper else ports[2])  # fmt: skip
    own = FOLDER / ("log4j2.yaml" if kafka_version.startswith("4.") else "log4j.xml")
    plan = ClusterPlan(
        kafka_version,
        ZOOKEEPER if is_with_zookeeper else COMBINED,
        (node,),
        zookeeper_port=ports[3],
        settings={"num.network.threads": "3", "num.io.threads": "8"},
        logging=own,
        jvm=(*JVM, f"-Dbenchmark.appender={way}", f"-Dbenchmark.log={log}"),
    )
    libs = kafka_libs(kafka_version, logging_file(kafka_version).pom)
    with running_cluster(plan, (), folder) as cluster:
        arguments = ["-Xmx256m", *java_program(FOLDER / "ProduceLoad.java", f"{libs}/*")]
        with java_process("load", [*arguments, plan.plaintext_servers], folder / "load") as java:
            java.wait_for_text("ready", 60)
            load = Load(java)
            load.ask(f"level {_NODE} {_ON}", 60)
            load.ask(f"load warm-up {RATES[-1]} {WARM_UP_SECONDS * 1000}", 120)
            yield load, psutil.Process(cluster.node(_NODE).process_id)


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each rate and level: medians over the rounds, requests and lost summed."""
    found = []
    for rate, is_on in sorted({(row["rate"], row["logged"]) for row in rows}):
        same = [row for row in rows if (row["rate"], row["logged"]) == (rate, is_on)]
        one: dict[str, Any] = {"rate": rate, "logged": is_on}
        for name in (name for name in COLUMNS if name in same[0]):
            values = [row[name] for row in same]
            one[name] = sum(values) if name in SUMMED else round(statistics.median(values), 4)
        found.append(one)
    return found


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table("requests/s", "logged", *COLUMNS, title=title)
    for row in rows:
        cells = (f"{row[name]:.4g}" if name in row else "" for name in COLUMNS)
        table.add_row(str(row["rate"]), "yes" if row["logged"] else "no", *cells)
    Console(width=120).print(table)


def main(
    kafka_version: Annotated[str, typer.Argument()] = "4.1.0",
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(WAYS)}.")] = None,
) -> None:
    for way in only or WAYS:
        steady, standing = measured(kafka_version, way), stalled(kafka_version, way)
        found = {"steady": medians(steady), "stalled": medians(standing)}
        rounds = {"steady_rounds": steady, "stalled_rounds": standing}
        kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
        kept.setdefault(kafka_version, {})[WAYS[way]] = {**found, **rounds}
        keep("logging_cost", kept)
        add_to_history("logging_cost", {"kafka": kafka_version, "way": WAYS[way], **found})
        show(f"Kafka {kafka_version}, {WAYS[way]}", found["steady"])
        show("the log stands still a second in every five", found["stalled"])


if __name__ == "__main__":
    typer.run(main)
