"""Two real Kafka brokers on loopback for as long as a block lasts."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.broker_files import (
    Node,
    logging_file,
    private_properties,
    server_properties,
)
from tests.oracle.kafka_libs import kafka_libs
from tests.oracle.lab_process import JavaProcess, LabError, java_process

BROKER_SOURCE = Path(__file__).parent / "java" / "Broker.java"
STARTED = "Kafka Server started"
_CLUSTER_ID = "quota-audit-lab-000000"
_START_SECONDS = 120
_FORMAT_SECONDS = 60

# Below the ports that systems give to outgoing connections (32768 and up on Linux), so that no
# client takes a port between our choice and the broker's bind.
_PORTS = range(20_000, 32_000)

# Small and calm: the lab shares a machine, and its brokers live for a minute.
_BROKER_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: its nodes and the folder with ``broker-<id>/`` of each."""

    nodes: tuple[Node, ...]
    controller_port: int
    folder: Path

    @property
    def plaintext_servers(self) -> str:
        """Return the bootstrap servers for clients without authentication."""
        return ",".join(f"127.0.0.1:{node.plaintext_port}" for node in self.nodes)

    @property
    def sasl_servers(self) -> str:
        """Return the bootstrap servers for clients that authenticate."""
        return ",".join(f"127.0.0.1:{node.sasl_port}" for node in self.nodes)

    def logs(self, node: Node) -> Path:
        """Return the folder with the ``kafka-request.log`` and ``server.log`` of a node."""
        return _home(self.folder, node) / "logs"


@contextmanager
def running_cluster(kafka_version: str, users: Sequence[str], folder: Path) -> Iterator[Cluster]:
    """Run node 1 (broker and controller) and node 2 (broker) in ``folder`` while the block lasts.

    ``LabError`` when one does not come up, with the last lines of its output. After the block
    both have stopped and their logs are complete.
    """
    logging = logging_file(kafka_version)
    libs = kafka_libs(kafka_version, logging.pom)
    ports = free_ports(5)
    nodes = (Node(1, *ports[0:2]), Node(2, *ports[2:4]))
    cluster = Cluster(nodes, ports[4], folder)
    for node in nodes:
        _format(cluster, node, users, libs)
    with ExitStack() as running:
        # Left in reverse: node 2 stops while its controller, node 1, is still there.
        brokers = [running.enter_context(_broker(cluster, node, kafka_version)) for node in nodes]
        for broker in brokers:
            broker.wait_for_text(STARTED, _START_SECONDS)
        yield cluster


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


def _home(folder: Path, node: Node) -> Path:
    return folder / f"broker-{node.node_id}"


def _format(cluster: Cluster, node: Node, users: Sequence[str], libs: Path) -> None:
    """Write a node's configuration and format its empty data folder."""
    home = _home(cluster.folder, node)
    cluster.logs(node).mkdir(parents=True)
    properties = home / "server.properties"
    properties.write_text(
        server_properties(node, cluster.controller_port) + private_properties(home / "data", users)
    )
    command = ["java", "-cp", f"{libs}/*", "kafka.tools.StorageTool", "format"]
    done = subprocess.run(
        [*command, "-t", _CLUSTER_ID, "-c", str(properties)],
        capture_output=True,
        text=True,
        timeout=_FORMAT_SECONDS,
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr)[-2000:]
        raise LabError(f"the data folder of node {node.node_id} could not be formatted: {last}")


@contextmanager
def _broker(cluster: Cluster, node: Node, kafka_version: str) -> Iterator[JavaProcess]:
    logging = logging_file(kafka_version)
    libs = kafka_libs(kafka_version, logging.pom)
    home = _home(cluster.folder, node)
    arguments = [
        *_BROKER_JVM,
        # The request log has no zone; the lab's is always UTC.
        "-Duser.timezone=UTC",
        f"-Dlab.logs={cluster.logs(node)}",
        logging.jvm_option,
        "-cp",
        f"{libs}{os.sep}*",
        str(BROKER_SOURCE),
        str(home / "server.properties"),
    ]
    with java_process(f"node {node.node_id} ({kafka_version})", arguments, home / "out") as broker:
        yield broker
