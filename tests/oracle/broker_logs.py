"""What one broker with a logging configuration of one's own writes under a little load."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.cluster_plan import (
    BROKER,
    COMBINED,
    CONTROLLER,
    FIRST_KRAFT_VERSION,
    ZOOKEEPER,
    ClusterPlan,
    Node,
    parse_version,
)
from tests.oracle.driver import drive
from tests.oracle.lab import free_ports, running_cluster
from tests.oracle.scenario import parse_scenario

# A client that is throttled.
_LOAD = """\
0 topic orders 1 1
500 quota client-id=orders-app producer_byte_rate=3000
1500 produce - orders-app orders 1000 40 6000 1 false
"""


@dataclass(frozen=True, slots=True)
class BrokerLogs:
    """The folder of the broker's log files, and the file of what it printed."""

    folder: Path
    printed: Path


def broker_logs(kafka_version: str, logging: Path, folder: Path) -> BrokerLogs:
    """Run a broker that logs as ``logging`` says, in ``folder``, until a client was throttled."""
    is_with_zookeeper = parse_version(kafka_version) < FIRST_KRAFT_VERSION
    plaintext, sasl, controller, zookeeper = free_ports(4)
    roles = (BROKER,) if is_with_zookeeper else (BROKER, CONTROLLER)
    plan = ClusterPlan(
        kafka_version,
        ZOOKEEPER if is_with_zookeeper else COMBINED,
        (Node(1, roles, plaintext, sasl, 0 if is_with_zookeeper else controller),),
        zookeeper_port=zookeeper,
        logging=logging,
    )
    steps = parse_scenario(_LOAD)
    with running_cluster(plan, steps.users, folder) as cluster:
        drive(steps, cluster, on_second=lambda _: None)
        node = cluster.node(1)
    return BrokerLogs(node.logs, node.home / "out-0")


def as_archive(archive: Path, kafka_version: str, *logs: Path) -> Path:
    """Return ``archive``, made of a broker's files."""
    broker = archive / "broker=1"
    broker.mkdir(parents=True)
    for log in logs:
        shutil.copy(log, broker / ("kafka-request.log" if log.name == "out-0" else log.name))
    (archive / "kafka-version.txt").write_text(f"{kafka_version}\n")
    return archive
