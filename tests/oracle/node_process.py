"""One node of a running cluster: started, stopped, started again."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.cluster_plan import ZOOKEEPER, ClusterPlan, Node
from tests.oracle.java_program import java_program
from tests.oracle.kafka_libs import kafka_libs
from tests.oracle.lab_process import JavaProcess, java_process
from tests.oracle.logging_file import logging_file

SERVER_SOURCE = Path(__file__).parent / "java" / "Server.java"
METRICS = "metrics.tsv"
START_SECONDS = 120
_KAFKA_MAIN = "kafka.Kafka"
_STARTED = "Kafka Server started"
_STARTED_WITH_ZOOKEEPER = "started (kafka.server.KafkaServer)"
_LEADS = re.compile(r"Completed transition to Leader\(.*?\bepoch=(\d+)")


def server_arguments(
    plan: ClusterPlan, logs: Path, libs: Path, main_class: str, properties: Path
) -> list[str]:
    """Return the arguments of ``java`` that run a server of the cluster."""
    return [
        *plan.jvm,
        # The request log has no zone; the lab's is always UTC.
        "-Duser.timezone=UTC",
        f"-Dlab.logs={logs}",
        # What Kafka's own start script sets, and its own logging configuration asks for.
        f"-Dkafka.logs.dir={logs}",
        f"-Dlab.quota.level={plan.quota_log_level}",
        *_metrics_options(plan, logs),
        logging_file(plan.kafka_version, plan.logging).jvm_option,
        *java_program(SERVER_SOURCE, f"{libs}{os.sep}*"),
        main_class,
        str(properties),
    ]


def _metrics_options(plan: ClusterPlan, logs: Path) -> list[str]:
    if not plan.metrics_every_ms:
        return []
    return [f"-Dlab.metrics={logs / METRICS}", f"-Dlab.metrics.every={plan.metrics_every_ms}"]


@dataclass(slots=True)
class NodeProcess:
    """A node whose files are in ``home``; its logs go on where they were when it starts again."""

    plan: ClusterPlan
    node: Node
    home: Path
    starts: int = 0
    _running: ExitStack = field(default_factory=ExitStack)
    _java: JavaProcess | None = None

    @property
    def name(self) -> str:
        """Return what error messages call it."""
        return f"node {self.node.node_id} ({self.plan.kafka_version})"

    @property
    def logs(self) -> Path:
        """Return the folder with its ``kafka-request.log`` and ``server.log``."""
        return self.home / "logs"

    @property
    def properties(self) -> Path:
        """Return its whole configuration."""
        return self.home / "server.properties"

    @property
    def process_id(self) -> int:
        """Return the id of its process; it must be running."""
        assert self._java is not None, self.name
        return self._java.process.pid

    @property
    def is_running(self) -> bool:
        """Return whether it was started and not stopped."""
        return self._java is not None

    def start(self) -> None:
        """Start it; it is up after :meth:`wait_until_started`."""
        assert self._java is None, self.name
        version = self.plan.kafka_version
        libs = kafka_libs(version, logging_file(version).pom)
        arguments = server_arguments(self.plan, self.logs, libs, _KAFKA_MAIN, self.properties)
        output = self.home / f"out-{self.starts}"
        self._java = self._running.enter_context(java_process(self.name, arguments, output))
        self.starts += 1

    def wait_until_started(self) -> None:
        """Return when it serves; ``LabError`` when it ends or takes too long."""
        assert self._java is not None, self.name
        is_with_zookeeper = self.plan.layout == ZOOKEEPER
        said = _STARTED_WITH_ZOOKEEPER if is_with_zookeeper else _STARTED
        self._java.wait_for_text(said, START_SECONDS)

    def stop(self) -> None:
        """Stop it as an operator does; nothing where it does not run."""
        self._running.close()
        self._java = None

    def leader_epoch(self) -> int:
        """Return the last epoch in which it led the quorum, 0 where it never did or has stopped."""
        if self._java is None:
            return 0
        said = self._java.output.read_text(errors="replace")
        return max((int(epoch) for epoch in _LEADS.findall(said)), default=0)
