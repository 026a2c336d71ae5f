"""Clusters of simulated brokers: simulated by Kafka's classes, logged, audited and scored.

The folder of a cluster is an archive with ``cluster.json`` (what was drawn) beside its brokers.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random

import msgspec
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import REQUEST_LOG, VERSION, find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from tests.fleet.fleet_figures import misses_a_limit
from tests.fleet.run_score import RunScore, score_brokers
from tests.fleet.simulated_lines import ClientName, Row, alteration_line, read_row, request_line
from tests.fleet.simulated_plan import (
    QuotaChange,
    SimulatedBroker,
    SimulatedCluster,
    awake,
    simulator_words,
)
from tests.oracle.jars import run_java
from tests.oracle.jvm_quota import broker_jars
from tests.oracle.live_audit import audit_archive

PROGRAM = Path(__file__).parents[1] / "oracle" / "java" / "FleetSimulator.java"
BASE_MS = 1_795_168_800_000
"""When every cluster begins: 2026-11-20 10:00:00 UTC."""
CLUSTER, SCORE = "cluster.json", "score.json"
_OF_THE_CLUSTER = 0
_CONTROLLER_PORT, _BROKER_PORT = 9093, 9092

Line = tuple[int, bytes]
"""When a line was stamped (ns), and the line."""


def simulate(
    cluster: SimulatedCluster,
    folder: Path,
    words_of: Callable[[SimulatedCluster, SimulatedBroker], Iterator[str]] = simulator_words,
    said_version: str | None = None,
    log_begins_us: Mapping[int, int] | None = None,
) -> list[Row]:
    """Make ``folder`` the archive of a cluster that has run; return what the simulator printed.

    ``words_of`` tells the simulator what each broker does. The archive says that the brokers are of
    ``said_version``, where it is not None. The log of a broker in ``log_begins_us`` (by its id)
    begins then.
    """
    lines: dict[int, list[Line]] = {broker.broker_id: [] for broker in cluster.brokers}
    clients = {
        (broker.broker_id, words[1]): ClientName(words[2], words[3])
        for broker in cluster.brokers
        for words in broker.clients
    }
    forwards = {broker.broker_id: _forwards(cluster, broker) for broker in cluster.brokers}
    words = (line for broker in cluster.brokers for line in words_of(cluster, broker))
    printed = run_java(
        PROGRAM,
        broker_jars(cluster.kafka_version),
        stdin="\n".join((f"base\t{BASE_MS}", *words, "")),
    )
    rows = [read_row(text) for text in printed.splitlines()]
    for row in rows:
        client = clients[row.broker_id, row.connection]
        is_forwarded = forwards[row.broker_id]
        line = request_line(row, client, BASE_MS, is_forwarded=is_forwarded)
        lines[row.broker_id].append((row.stamped_ns, line))
    for broker_id, line in _alterations(cluster):
        lines[broker_id].append(line)
    folder.mkdir(parents=True)
    (folder / CLUSTER).write_bytes(msgspec.json.encode(cluster) + b"\n")
    (folder / VERSION).write_text((said_version or cluster.kafka_version) + "\n")
    for broker in cluster.brokers:
        own = broker_folder(folder, broker)
        own.mkdir()
        (own / "server.properties").write_text(_properties(cluster, broker))
        begins_ns = (log_begins_us or {}).get(broker.broker_id, 0) * 1000
        in_order = sorted(
            (line for line in lines[broker.broker_id] if line[0] >= begins_ns),
            key=lambda line: line[0],
        )
        (own / REQUEST_LOG).write_bytes(b"".join(line for _, line in in_order))
    return rows


def logs_begun_amid_us(cluster: SimulatedCluster) -> dict[int, int]:
    """Return when (us) the log of each broker begins, amid its load, by broker id.

    That of a controller is whole, for it has the quotas; with ZooKeeper all are whole, for each
    broker's own has some.
    """
    if cluster.uses_zookeeper:
        return {}
    load_us = cluster.end_us - cluster.load_begins_us
    return {
        broker.broker_id: cluster.load_begins_us + int(load_us * Random(broker.seed).random() / 2)
        for broker in cluster.brokers
        if not broker.is_controller
    }


def broker_folder(folder: Path, broker: SimulatedBroker) -> Path:
    """Return the folder of a broker's files in its cluster's."""
    return folder / f"broker={broker.broker_id}"


def _forwards(cluster: SimulatedCluster, broker: SimulatedBroker) -> bool:
    return broker.is_controller and not cluster.uses_zookeeper


def _alterations(cluster: SimulatedCluster) -> Iterator[tuple[int, Line]]:
    """Yield the lines of all quota changes, by broker.

    With KRaft a broker forwards them, and the controller logs them too; with ZooKeeper whoever is
    asked writes them.
    """
    controller = cluster.brokers[-1]
    is_forwarded = not cluster.uses_zookeeper

    def by_controller(changes: Iterable[QuotaChange], sender: int) -> Iterator[tuple[int, Line]]:
        connection = f"127.0.0.1:{_CONTROLLER_PORT}-127.0.0.1:{30_000 + sender}-{sender}"
        for number, change in enumerate(changes):
            line = alteration_line(
                change, number, _admin(sender), BASE_MS, connection, is_forwarded=is_forwarded
            )
            yield controller.broker_id, line

    yield from by_controller(cluster.changes, _OF_THE_CLUSTER)
    for broker in cluster.brokers:
        if is_forwarded or broker is controller:
            yield from by_controller(broker.changes, broker.broker_id)
        if broker is controller:
            continue
        port = _BROKER_PORT + broker.broker_id
        connection = f"127.0.0.1:{port}-127.0.0.1:{30_000 + port}-{broker.broker_id}"
        for number, change in enumerate(broker.changes):
            own = change
            # A broker that was stopped hands the controller's answer on when it runs again.
            if is_forwarded:
                at_us = awake(change.answered_us + 2000, broker.pauses)
                own = msgspec.structs.replace(change, answered_us=at_us)
            line = alteration_line(
                own, number, _admin(broker.broker_id), BASE_MS, connection, is_forwarded=False
            )
            yield broker.broker_id, line


def _admin(sender: int) -> str:
    return "quotas" if sender == _OF_THE_CLUSTER else f"quotas-{sender}"


def _properties(cluster: SimulatedCluster, broker: SimulatedBroker) -> str:
    if cluster.uses_zookeeper:
        own = [f"broker.id={broker.broker_id}", "zookeeper.connect=127.0.0.1:2181"]
    else:
        role = "controller" if broker.is_controller else "broker"
        own = [
            f"process.roles={role}",
            f"node.id={broker.broker_id}",
            "controller.listener.names=CONTROLLER",
        ]
    quota = [
        f"quota.window.num={broker.samples}",
        f"quota.window.size.seconds={broker.window_seconds}",
        f"controller.quota.window.num={broker.controller_samples}",
        f"controller.quota.window.size.seconds={broker.controller_window_seconds}",
    ]
    return "\n".join((*own, *quota, ""))


def audit_cluster(spark: SparkSession, folder: Path) -> list[RunScore]:
    """Return the score of each broker of a simulated cluster, audited now."""
    cluster = read_cluster(folder)
    archive = find_archive(folder, "default")
    there = {log.broker_id for log in archive.request_logs}
    runs = {
        broker.broker_id: cluster.run_of(broker)
        for broker in cluster.brokers
        if broker.broker_id in there
    }
    with tempfile.TemporaryDirectory(prefix="quota-audit-fleet-") as warehouse:
        scopes = audit_archive(spark, archive, Path(warehouse), IngestOptions.of())
        return score_brokers(runs, archive, scopes)


def read_cluster(folder: Path) -> SimulatedCluster:
    """Return what the cluster of a folder was drawn as."""
    return msgspec.json.decode((folder / CLUSTER).read_bytes(), type=SimulatedCluster)


def keep_missing(folder: Path, scores: Iterable[RunScore]) -> None:
    """Leave in a cluster's folder only the brokers that miss a limit, with their scores.

    The controller stays beside them: its log has the quotas that were set for all.
    """
    cluster = read_cluster(folder)
    of_name = {score.run.name: score for score in scores}
    for broker in cluster.brokers:
        own, score = broker_folder(folder, broker), of_name[cluster.run_of(broker).name]
        if misses_a_limit(score):
            (own / SCORE).write_bytes(msgspec.json.format(msgspec.json.encode(score)) + b"\n")
        elif not broker.is_controller:
            shutil.rmtree(own)
