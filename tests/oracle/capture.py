"""Capture the request logs of real Kafka brokers under a scripted load.

``python tests/oracle/capture.py --kafka-version 4.1.0 --scenario FILE --out DIR``, from the
repository's root. ``DIR`` then holds per node ``broker=<id>/`` with ``kafka-request.log.gz``,
``server.log.gz`` and ``server.properties``, and ``kafka-version.txt`` and ``scenario.txt``. Where
the scenario says ``lab.metrics``, ``broker-metrics.json.gz`` is an export as of Prometheus.
"""

from __future__ import annotations

import gzip
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import typer
from rich.console import Console
from rich.progress import Progress

from spark_jobs.errors import BadInputError, QuotaAuditError
from tests.oracle.broker_files import server_properties
from tests.oracle.cluster_plan import check_layout
from tests.oracle.driver import drive
from tests.oracle.lab import RunningCluster, plan_cluster, running_cluster
from tests.oracle.metrics_export import prometheus_export
from tests.oracle.node_process import METRICS
from tests.oracle.scenario import Scenario, parse_scenario

LOGS = ("kafka-request.log", "server.log")


def capture(scenario: Path, kafka_version: str, out_dir: Path) -> Path:
    """Return ``out_dir`` holding a new capture of ``scenario`` on brokers of ``kafka_version``.

    Takes the scenario's time and about half a minute. ``BadInputError`` when the version, the
    scenario or the folder cannot be used; ``LabError`` when a broker or a client failed, and then
    ``out_dir`` is left as it was. Nothing keeps running afterwards, however it ends.
    """
    steps = _read(scenario)
    check_layout(kafka_version, steps.cluster.layout)
    if out_dir.exists() and (not out_dir.is_dir() or any(out_dir.iterdir())):
        raise BadInputError(f"{out_dir} is not an empty folder: remove it or name another one")
    with tempfile.TemporaryDirectory(prefix="quota-audit-lab-") as folder:
        plan = plan_cluster(kafka_version, steps.cluster)
        with running_cluster(plan, steps.users, Path(folder)) as cluster:
            _drive(steps, cluster)
        write_capture(out_dir, cluster, steps)
    return out_dir


def _read(scenario: Path) -> Scenario:
    try:
        return parse_scenario(scenario.read_text())
    except OSError as error:
        raise BadInputError(f"the scenario {scenario} cannot be read: {error.strerror}") from error


def _drive(steps: Scenario, cluster: RunningCluster) -> None:
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(
            f"load on Kafka {cluster.plan.kafka_version}", total=steps.end_ms / 1000
        )
        drive(steps, cluster, on_second=lambda passed: progress.update(task, completed=passed))


def write_capture(
    out_dir: Path,
    cluster: RunningCluster,
    steps: Scenario,
    begins: Mapping[Path, int] | None = None,
) -> None:
    """Make ``out_dir`` a capture of what the logs hold, from ``begins`` (``log_ends``) on."""
    out_dir.mkdir(parents=True, exist_ok=True)
    (out_dir / "kafka-version.txt").write_text(f"{cluster.plan.kafka_version}\n")
    (out_dir / "scenario.txt").write_text(steps.text)
    for process in cluster.nodes:
        folder = out_dir / f"broker={process.node.node_id}"
        folder.mkdir()
        public = server_properties(process.node, cluster.plan)
        (folder / "server.properties").write_text(public)
        for log in LOGS:
            source = process.logs / log
            _compress(source, folder / f"{log}.gz", (begins or {}).get(source, 0))
    if cluster.plan.metrics_every_ms:
        read = {p.node.node_id: (p.logs / METRICS).read_text() for p in cluster.nodes}
        export = gzip.compress(prometheus_export(read).encode(), mtime=0)
        (out_dir / "broker-metrics.json.gz").write_bytes(export)


def log_ends(cluster: RunningCluster) -> dict[Path, int]:
    """Return how many bytes of whole lines each log of a running cluster has."""
    logs = [process.logs / log for process in cluster.nodes for log in LOGS]
    return {log: _whole_lines(log.read_bytes()) for log in logs}


def _whole_lines(text: bytes) -> int:
    # A running broker may be in the middle of a line.
    return text.rfind(b"\n") + 1


def _compress(source: Path, target: Path, begin: int) -> None:
    text = source.read_bytes()
    # No name and time of packing in the file: the same log gives the same bytes.
    with (
        target.open("wb") as sink,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=sink, mtime=0) as packed,
    ):
        packed.write(text[begin : _whole_lines(text)])


def main(
    scenario: Annotated[Path, typer.Option(help="The steps to drive: see scenario.py.")],
    out: Annotated[Path, typer.Option(help="The folder to make; it must not hold anything yet.")],
    kafka_version: Annotated[str, typer.Option(help="The brokers' version, 2.8.0 or later.")],
) -> None:
    """Capture the request logs of real Kafka brokers under a scripted load."""
    # A plain `kill` or a closed terminal ends the brokers too: SystemExit leaves every block.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        capture(scenario, kafka_version, out)
    except QuotaAuditError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False)
        raise typer.Exit(error.exit_code) from error
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"captured {size / 1000:.0f} kB into {out}")


if __name__ == "__main__":
    typer.run(main)
