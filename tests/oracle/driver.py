"""Drive real Java clients against a running cluster as a scenario says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.oracle.broker_files import PASSWORD
from tests.oracle.java_program import java_program
from tests.oracle.kafka_libs import CLIENTS_POM, kafka_libs
from tests.oracle.lab import RunningCluster
from tests.oracle.lab_events import carry_out
from tests.oracle.lab_process import JavaProcess, LabError, java_process
from tests.oracle.logging_file import logging_file
from tests.oracle.scenario import LabStep, Scenario

DRIVER_SOURCE = Path(__file__).parent / "java" / "Driver.java"

PERMISSIVE_CLIENT_VERSION = "2.6.3"
"""Clients before 2.7 send CreateTopics < 6, CreatePartitions < 3 and DeleteTopics < 5."""

_READY_SECONDS = 60
_OVERTIME_SECONDS = 60
_POLL_SECONDS = 0.2
_DRIVER_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def drive(
    scenario: Scenario,
    cluster: RunningCluster,
    on_second: Callable[[float], None],
) -> None:
    """Run every step of the scenario; ``LabError`` when one fails or does not end in time.

    ``on_second`` is told, again and again, how many seconds of the load have passed.
    """
    with ExitStack() as running:
        drivers = [
            running.enter_context(_driver(cluster, name, libs, lines))
            for name, libs, lines in _programs(scenario, cluster.plan.kafka_version)
        ]
        for driver in drivers:
            driver.wait_for_text("ready", _READY_SECONDS)
        for driver in drivers:
            driver.say("go\n")
        _wait_for_end(
            drivers, scenario, partial(carry_out, cluster=cluster, running=running), on_second
        )


def _programs(scenario: Scenario, kafka_version: str) -> Iterator[tuple[str, Path, Sequence[str]]]:
    """Yield name, jars and steps of each JVM: the broker's own clients, and the old ones."""
    if scenario.lines:
        libs = kafka_libs(kafka_version, logging_file(kafka_version).pom)
        yield f"clients-{kafka_version}", libs, scenario.lines
    if scenario.permissive_lines:
        libs = kafka_libs(PERMISSIVE_CLIENT_VERSION, CLIENTS_POM, name="kafka-clients")
        yield f"clients-{PERMISSIVE_CLIENT_VERSION}", libs, scenario.permissive_lines


@contextmanager
def _driver(
    cluster: RunningCluster, name: str, libs: Path, lines: Sequence[str]
) -> Iterator[JavaProcess]:
    servers = [cluster.plan.plaintext_servers, cluster.plan.sasl_servers]
    arguments = [*_DRIVER_JVM, *java_program(DRIVER_SOURCE, f"{libs}/*"), *servers, PASSWORD]
    with java_process(name, arguments, cluster.folder / f"{name}.out") as driver:
        driver.say("".join(f"{line}\n" for line in (*lines, "end")))
        yield driver


def _wait_for_end(
    drivers: Sequence[JavaProcess],
    scenario: Scenario,
    do: Callable[[LabStep], None],
    on_second: Callable[[float], None],
) -> None:
    start = time.monotonic()
    load_seconds = scenario.end_ms / 1000
    running = list(drivers)
    to_do = list(scenario.lab_steps)
    while running or to_do:
        passed = time.monotonic() - start
        if passed > load_seconds + _OVERTIME_SECONDS:
            late = ", ".join(driver.name for driver in running)
            raise LabError(f"{late} still ran {_OVERTIME_SECONDS} s after the load's last step")
        if to_do and passed * 1000 >= to_do[0].at_ms:
            do(to_do.pop(0))
        on_second(min(passed, load_seconds))
        time.sleep(_POLL_SECONDS)
        running = [driver for driver in running if not driver.has_ended_well()]
    on_second(load_seconds)
