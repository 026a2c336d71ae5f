"""The files a broker of the lab starts with; all of it text, nothing is started here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.oracle.cluster_plan import ZOOKEEPER, ClusterPlan, Node

PASSWORD = "lab-only"
"""Of every user of the lab's brokers, which only this machine can reach."""

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


def server_properties(node: Node, plan: ClusterPlan) -> str:
    """Return the part of ``server.properties`` that a capture keeps: no path, no password."""
    is_with_zookeeper = plan.layout == ZOOKEEPER
    members = _zookeeper_member(node, plan) if is_with_zookeeper else _quorum_member(node, plan)
    return _properties(
        {
            **members,
            **(_client_listeners(node) if node.is_broker else {}),
            "listeners": ",".join(_listeners(node)),
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            **_COMMON,
            **plan.settings,
        }
    )


def zookeeper_properties(data_folder: Path, port: int) -> str:
    """Return the configuration of a ZooKeeper of its own, on loopback."""
    return _properties(
        {
            "dataDir": data_folder,
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
        }
    )


def _zookeeper_member(node: Node, plan: ClusterPlan) -> dict[str, object]:
    return {
        "broker.id": node.node_id,
        "zookeeper.connect": f"127.0.0.1:{plan.zookeeper_port}",
        "zookeeper.session.timeout.ms": 6000,
    }


def _quorum_member(node: Node, plan: ClusterPlan) -> dict[str, object]:
    voters = (f"{voter.node_id}@127.0.0.1:{voter.controller_port}" for voter in plan.controllers)
    return {
        "process.roles": ",".join(node.roles),
        "node.id": node.node_id,
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
    }


def _client_listeners(node: Node) -> dict[str, object]:
    return {
        "advertised.listeners": ",".join(_listeners(node)[:2]),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _listeners(node: Node) -> list[str]:
    ports = {
        "PLAINTEXT": node.plaintext_port,
        "SASL_PLAINTEXT": node.sasl_port,
        "CONTROLLER": node.controller_port,
    }
    return [f"{name}://127.0.0.1:{port}" for name, port in ports.items() if port]


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
