"""A cluster of real Kafka brokers on loopback for as long as a block lasts."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.broker_files import private_properties, server_properties, zookeeper_properties
from tests.oracle.cluster_plan import ZOOKEEPER, ClusterPlan, plan_nodes
from tests.oracle.kafka_libs import CACHE, kafka_libs
from tests.oracle.lab_process import LabError, java_process
from tests.oracle.logging_file import logging_file
from tests.oracle.node_process import START_SECONDS, NodeProcess, server_arguments
from tests.oracle.scenario import Cluster

_CLUSTER_ID = "quota-audit-lab-000000"
_FORMAT_SECONDS = 60
_ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER_BOUND = "binding to port"
_SERVER_LOG_LEVEL = "lab.server.log"
_METRICS_EVERY_MS = "lab.metrics"

# Below the ports that systems give to outgoing connections (32768 and up on Linux), so that no
# client takes a port between our choice and the broker's bind.
_PORTS = range(20_000, 32_000)
_PORTS_MAX = 8


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running cluster: its plan, the processes of its nodes, and the folder of their files."""

    plan: ClusterPlan
    nodes: tuple[NodeProcess, ...]
    folder: Path

    def node(self, node_id: int) -> NodeProcess:
        """Return a node; ``LabError`` where the cluster has none of this id."""
        for process in self.nodes:
            if process.node.node_id == node_id:
                return process
        known = ", ".join(str(process.node.node_id) for process in self.nodes)
        raise LabError(f"the cluster has the nodes {known}, not {node_id}: correct the scenario")


def plan_cluster(kafka_version: str, wanted: Cluster) -> ClusterPlan:
    """Return the nodes that a scenario asks for, on ports that nobody listens on."""
    ports = iter(free_ports(_PORTS_MAX))
    settings = dict(wanted.settings)
    level = settings.pop(_SERVER_LOG_LEVEL, "DEBUG")
    metrics_every_ms = int(settings.pop(_METRICS_EVERY_MS, "0"))
    return ClusterPlan(
        kafka_version=kafka_version,
        layout=wanted.layout,
        nodes=plan_nodes(wanted.layout, ports),
        zookeeper_port=next(ports) if wanted.layout == ZOOKEEPER else 0,
        settings=settings,
        quota_log_level=level,
        metrics_every_ms=metrics_every_ms,
    )


@contextmanager
def running_cluster(
    plan: ClusterPlan, users: Sequence[str], folder: Path
) -> Iterator[RunningCluster]:
    """Run all nodes of ``plan`` in ``folder`` while the block lasts.

    Waits for its turn: clusters of other processes on this machine would disturb its load.
    ``LabError`` when one does not come up, with the last lines of its output. After the block
    all have stopped and their logs are complete.
    """
    libs = kafka_libs(plan.kafka_version, logging_file(plan.kafka_version).pom)
    nodes = tuple(NodeProcess(plan, node, folder / f"node-{node.node_id}") for node in plan.nodes)
    with ExitStack() as running:
        running.enter_context(_alone())
        if plan.layout == ZOOKEEPER:
            running.enter_context(_zookeeper(plan, libs, folder / "zookeeper"))
        for process in nodes:
            _write_files(process, users)
            if plan.layout != ZOOKEEPER:
                _format(process, libs)
        # Left in reverse: brokers stop while their controllers are still there.
        for process in nodes:
            running.callback(process.stop)
            process.start()
        for process in nodes:
            process.wait_until_started()
        yield RunningCluster(plan, nodes, folder)


@contextmanager
def _alone() -> Iterator[None]:
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "brokers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 on which nobody listens."""
    ports: list[int] = []
    for port in random.sample(_PORTS, k=len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise LabError(f"fewer than {count} free ports on 127.0.0.1 in {_PORTS}")


def _write_files(process: NodeProcess, users: Sequence[str]) -> None:
    process.logs.mkdir(parents=True)
    public = server_properties(process.node, process.plan)
    process.properties.write_text(public + private_properties(process.home / "data", users))


def _format(process: NodeProcess, libs: Path) -> None:
    """Format a node's empty data folder."""
    own = ["-cp", f"{libs}{os.sep}*", "kafka.tools.StorageTool", "format"]
    command = ["java", *process.plan.jvm, *own]
    done = subprocess.run(
        [*command, "-t", _CLUSTER_ID, "-c", str(process.properties)],
        capture_output=True,
        text=True,
        timeout=_FORMAT_SECONDS,
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr)[-2000:]
        raise LabError(f"the data folder of {process.name} could not be formatted: {last}")


@contextmanager
def _zookeeper(plan: ClusterPlan, libs: Path, home: Path) -> Iterator[None]:
    (home / "logs").mkdir(parents=True)
    properties = home / "zoo.cfg"
    properties.write_text(zookeeper_properties(home / "data", plan.zookeeper_port))
    arguments = server_arguments(plan, home / "logs", libs, _ZOOKEEPER_MAIN, properties)
    with java_process(f"ZooKeeper of {plan.kafka_version}", arguments, home / "out") as process:
        process.wait_for_text(_ZOOKEEPER_BOUND, START_SECONDS)
        yield
