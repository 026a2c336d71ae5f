"""Which nodes a cluster of the lab has, and on which ports of loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.errors import BadInputError

COMBINED, DEDICATED, ZOOKEEPER = "combined", "dedicated", "zookeeper"
"""Node 1 is broker and controller; brokers 1 and 2 have three controllers; they have ZooKeeper."""

FIRST_JSON_VERSION = (2, 8, 0)
FIRST_KRAFT_VERSION = (3, 3, 0)
FIRST_WITHOUT_ZOOKEEPER = (4, 0, 0)
BROKER, CONTROLLER = "broker", "controller"

_BROKER_IDS = (1, 2)
_CONTROLLER_IDS = (11, 12, 13)
SMALL_JVM = ("-Xms96m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Small and calm: the lab shares a machine, and its brokers live for a minute."""

_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Node:
    """One process of the cluster; a port is 0 where the node's roles do not need it."""

    node_id: int
    roles: tuple[str, ...]
    plaintext_port: int = 0
    sasl_port: int = 0
    controller_port: int = 0

    @property
    def is_broker(self) -> bool:
        """Return whether clients talk to it."""
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Return whether it votes in the quorum."""
        return CONTROLLER in self.roles


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster that is not running yet.

    ``settings`` are of every node's ``server.properties``; ``quota_log_level`` is what the brokers'
    quota managers write into ``server.log``: DEBUG, INFO or OFF. ``logging`` is a logging
    configuration to use in place of the lab's own. Every ``metrics_every_ms`` the brokers' own
    metrics of quotas are read, never where it is 0: reading them moves samples.
    """

    kafka_version: str
    layout: str
    nodes: tuple[Node, ...]
    zookeeper_port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    quota_log_level: str = "DEBUG"
    metrics_every_ms: int = 0
    logging: Path | None = None
    jvm: tuple[str, ...] = SMALL_JVM

    @property
    def brokers(self) -> tuple[Node, ...]:
        """Return the nodes that clients talk to."""
        return tuple(node for node in self.nodes if node.is_broker)

    @property
    def controllers(self) -> tuple[Node, ...]:
        """Return the nodes of the quorum; none with ZooKeeper."""
        return tuple(node for node in self.nodes if node.is_controller)

    @property
    def plaintext_servers(self) -> str:
        """Return the bootstrap servers for clients without authentication."""
        return ",".join(f"127.0.0.1:{node.plaintext_port}" for node in self.brokers)

    @property
    def sasl_servers(self) -> str:
        """Return the bootstrap servers for clients that authenticate."""
        return ",".join(f"127.0.0.1:{node.sasl_port}" for node in self.brokers)


def parse_version(kafka_version: str) -> tuple[int, int, int]:
    """Return a Kafka version as numbers; ``BadInputError`` where it is none."""
    match = _VERSION.match(kafka_version)
    if match is None:
        raise BadInputError(f"Kafka version {kafka_version!r}: expected three numbers, as 4.1.0")
    major, minor, patch = (int(number) for number in match.groups())
    return major, minor, patch


def check_layout(kafka_version: str, layout: str) -> None:
    """Raise ``BadInputError`` where the lab cannot run this version in this layout."""
    version = parse_version(kafka_version)
    if version < FIRST_JSON_VERSION:
        raise BadInputError(f"Kafka {kafka_version} logs no JSON; the lab runs 2.8.0 and later")
    if layout == ZOOKEEPER and version >= FIRST_WITHOUT_ZOOKEEPER:
        raise BadInputError(f"Kafka {kafka_version} knows no ZooKeeper; choose another layout")
    if layout != ZOOKEEPER and version < FIRST_KRAFT_VERSION:
        raise BadInputError(
            f"Kafka {kafka_version} needs ZooKeeper; the layout {layout} runs 3.3.0 and later"
        )


def plan_nodes(layout: str, ports: Iterator[int]) -> tuple[Node, ...]:
    """Return the nodes of a layout, controllers first; each port is taken from ``ports``."""
    controllers = tuple(
        Node(node_id, (CONTROLLER,), controller_port=next(ports))
        for node_id in (_CONTROLLER_IDS if layout == DEDICATED else ())
    )
    brokers = []
    for node_id in _BROKER_IDS:
        is_both = layout == COMBINED and node_id == _BROKER_IDS[0]
        roles = (BROKER, CONTROLLER) if is_both else (BROKER,)
        controller_port = next(ports) if is_both else 0
        brokers.append(Node(node_id, roles, next(ports), next(ports), controller_port))
    return (*controllers, *brokers)
