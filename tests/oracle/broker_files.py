"""The files a broker of the lab starts with; all of it text, nothing is started here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import BadInputError

PASSWORD = "lab-only"
"""Of every user of the lab's brokers, which only this machine can reach."""

FIRST_KRAFT_VERSION = (3, 3, 0)
CONTROLLER_NODE_ID = 1

_FOLDER = Path(__file__).parent
_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)$")

# One copy of everything internal and no waiting for more members, so that two brokers are enough.
_COMMON = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.partitions": 4,
    "offsets.topic.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One broker and its ports on loopback; node 1 is the controller too."""

    node_id: int
    plaintext_port: int
    sasl_port: int

    @property
    def is_controller(self) -> bool:
        """Return whether this node is the one controller of the cluster."""
        return self.node_id == CONTROLLER_NODE_ID


@dataclass(frozen=True, slots=True)
class LoggingFile:
    """A logging configuration and the system property by which the broker's JVM is told of it."""

    path: Path
    system_property: str
    pom: Path

    @property
    def jvm_option(self) -> str:
        """Return the option of the broker's JVM."""
        return f"-D{self.system_property}={self.path.as_uri()}"


def parse_version(kafka_version: str) -> tuple[int, int, int]:
    """Return a Kafka version as numbers; ``BadInputError`` when the lab cannot run it."""
    match = _VERSION.match(kafka_version)
    if match is None:
        raise BadInputError(f"Kafka version {kafka_version!r}: expected three numbers, as 4.1.0")
    major, minor, patch = (int(number) for number in match.groups())
    if (major, minor, patch) < FIRST_KRAFT_VERSION:
        raise BadInputError(f"Kafka {kafka_version} needs ZooKeeper; the lab runs 3.3.0 and later")
    return major, minor, patch


def logging_file(kafka_version: str) -> LoggingFile:
    """Return the logging configuration: log4j 2 from Kafka 4 on, log4j 1 (reload4j) before."""
    if parse_version(kafka_version) >= (4, 0, 0):
        return LoggingFile(
            path=_FOLDER / "logging" / "log4j2.xml",
            system_property="log4j2.configurationFile",
            pom=_FOLDER / "maven" / "broker-log4j2.xml",
        )
    return LoggingFile(
        path=_FOLDER / "logging" / "log4j.properties",
        system_property="log4j.configuration",
        pom=_FOLDER / "maven" / "broker-reload4j.xml",
    )


def server_properties(node: Node, controller_port: int) -> str:
    """Return the part of ``server.properties`` that a capture keeps: no path, no password."""
    clients = (
        f"PLAINTEXT://127.0.0.1:{node.plaintext_port},SASL_PLAINTEXT://127.0.0.1:{node.sasl_port}"
    )
    controller = f"127.0.0.1:{controller_port}"
    return _properties(
        {
            "process.roles": "broker,controller" if node.is_controller else "broker",
            "node.id": node.node_id,
            "controller.quorum.voters": f"{CONTROLLER_NODE_ID}@{controller}",
            "listeners": clients + (f",CONTROLLER://{controller}" if node.is_controller else ""),
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            **_COMMON,
        }
    )


def private_properties(data_folder: Path, users: Iterable[str]) -> str:
    """Return the rest: where the broker keeps its data, and who may authenticate."""
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in ("lab", *users))
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
    return _properties(
        {
            "log.dirs": data_folder,
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        }
    )


def _properties(values: dict[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
