"""A fleet of simulated brokers, audited: thousands of runs, and nobody sound may be accused.

``python -m tests.fleet.simulated_fleet [RUNS] [--seed N]`` simulates and audits; the same seed
draws the same runs. Kafka's own classes decide, in ``FleetSimulator.java``. ``--begin-amid`` lets
the logs begin amid the load: accusations alone count then. ``--again`` audits the clusters of a
folder as the rules are now. Prints the tables of :mod:`tests.fleet.fleet_table`, and
ends with 1 where a limit is missed, 3 where too many runs failed. Brokers that miss a limit alone
are kept in the folder, and clusters whose audit failed.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs.settings import SparkSettings
from spark_jobs.spark.spark_session import spark_session
from tests.fleet.fleet_figures import misses_a_limit
from tests.fleet.fleet_progress import FleetProgress, count, seed_of
from tests.fleet.fleet_table import OVER_LIMITS, WIDTH, FailedRun
from tests.fleet.random_cluster import simulated_clusters
from tests.fleet.run_score import RunScore
from tests.fleet.simulated_plan import KAFKA_VERSIONS, SimulatedCluster
from tests.fleet.simulated_run import (
    CLUSTER,
    audit_cluster,
    keep_missing,
    logs_begun_amid_us,
    read_cluster,
    simulate,
)

RUNS = 300
BROKERS_OF_AN_ARCHIVE_MAX = 100
SPARK = SparkSettings(
    master="local[2]",
    driver_memory="4g",
    shuffle_partitions=2,
    driver_java_options="-XX:+UseSerialGC",
)


class SimulatedRuns(FleetProgress):
    """The runs of simulated brokers."""

    def __init__(self, console: Console, *, begin_amid: bool = False) -> None:
        super().__init__(console)
        self._began = time.monotonic()
        self._begin_amid = begin_amid

    def simulate(self, cluster: SimulatedCluster, folder: Path) -> None:
        """Make ``folder`` anew the archive of a cluster that has run."""
        shutil.rmtree(folder, ignore_errors=True)
        begins_us = logs_begun_amid_us(cluster) if self._begin_amid else {}
        simulate(cluster, folder, log_begins_us=begins_us)

    def audit(self, spark: SparkSession, folder: Path) -> list[RunScore] | None:
        """Return the scores of a cluster's brokers; None where its audit failed."""
        cluster = read_cluster(folder)
        try:
            scores = audit_cluster(spark, folder)
        except Exception as error:  # any of them is a fault of the auditor, and the fleet goes on
            traceback.print_exc()
            self.broken_audits += 1
            why = f"its audit failed: {error!r}"
            names = [cluster.run_of(broker).name for broker in cluster.brokers]
            self.failed += [FailedRun(name, cluster.kafka_version, why) for name in names]
            self.say(f"{cluster.name}: {why}")
            return None
        self.scores += scores
        self.say(
            f"{cluster.name}: {len(scores)} runs, {sum(s.decisions for s in scores):,} decisions, "
            f"{sum(s.is_accusing for s in scores)} runs accuse; {self.runs_per_minute:.0f} a minute"
        )
        return scores

    def is_worth_a_look(self, score: RunScore) -> bool:
        """Return True if a run misses a limit.

        What a sensor held before its log began leaves decisions open: then accusations alone count.
        """
        return score.is_accusing if self._begin_amid else misses_a_limit(score)

    @property
    def runs_per_minute(self) -> float:
        """Return how many runs have been simulated and audited in a minute."""
        return 60 * len(self.scores) / (time.monotonic() - self._began)

    def print(self, *, findings_only: bool = False) -> int:
        """Print the tables, and how fast it went; return the exit code."""
        code = super().print(findings_only=findings_only or self._begin_amid)
        if self._begin_amid and any(score.is_accusing for score in self.scores):
            code = max(code, OVER_LIMITS)
        self.say(f"{self.runs_per_minute:.0f} runs a minute")
        return code


def run_simulated_fleet(
    runs: SimulatedRuns,
    spark: SparkSession,
    clusters: Iterable[SimulatedCluster],
    folder: Path,
    is_keeping_all: bool,
) -> None:
    """Simulate and audit each cluster; keep in ``folder`` those that miss a limit, or all."""
    for own in _simulated(runs, clusters, folder):
        scores = runs.audit(spark, own)
        if scores is None or is_keeping_all:
            continue
        if any(map(runs.is_worth_a_look, scores)):
            keep_missing(own, scores)
        else:
            shutil.rmtree(own)


def _simulated(
    runs: SimulatedRuns, clusters: Iterable[SimulatedCluster], folder: Path
) -> Iterator[Path]:
    """Yield the folder of each cluster; the next one is simulated while one is looked at."""

    def simulated(cluster: SimulatedCluster) -> Path:
        own = folder / cluster.name
        runs.simulate(cluster, own)
        return own

    with ThreadPoolExecutor(1) as thread:
        waiting: deque[Future[Path]] = deque()
        for cluster in clusters:
            waiting.append(thread.submit(simulated, cluster))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for last in waiting:
            yield last.result()


def kept_clusters(folder: Path) -> list[Path]:
    """Return the folders of simulated clusters, in order of their names."""
    return sorted(cluster.parent for cluster in folder.glob(f"*/{CLUSTER}"))


def brokers_of_an_archive(runs: int) -> int:
    """Return how many brokers share an archive, so that few runs are of all versions too.

    >>> brokers_of_an_archive(1), brokers_of_an_archive(300), brokers_of_an_archive(10_000)
    (1, 50, 100)
    """
    return min(math.ceil(runs / len(KAFKA_VERSIONS)), BROKERS_OF_AN_ARCHIVE_MAX)


def main() -> int:
    """Return KEPT, OVER_LIMITS or MANY_FAILED."""
    asked = _asked()
    seed = seed_of(asked.seed)
    runs = SimulatedRuns(Console(width=WIDTH), begin_amid=asked.begin_amid)
    with spark_session("fleet", SPARK) as spark:
        if asked.again is None:
            print(f"seed {seed}; what misses a limit is kept in {asked.folder}", flush=True)
            brokers = asked.brokers or brokers_of_an_archive(asked.runs)
            clusters = simulated_clusters(seed, asked.runs, brokers)
            run_simulated_fleet(runs, spark, clusters, asked.folder, asked.keep_all)
        else:
            for folder in kept_clusters(asked.again):
                runs.audit(spark, folder)
    return runs.print()


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=count, nargs="?", default=RUNS, help="how many brokers")
    parser.add_argument("--seed", type=int, help="of the runs; by default the time of day")
    parser.add_argument(
        "--brokers", type=count, help="how many share an archive; by default all versions run"
    )
    parser.add_argument("--folder", type=Path, default=Path("artifacts/simulated-fleet"))
    parser.add_argument("--keep-all", action="store_true", help="keep runs that miss no limit too")
    parser.add_argument(
        "--begin-amid",
        action="store_true",
        help="begin the brokers' logs amid their load: nobody may be accused of what was before",
    )
    parser.add_argument("--again", type=Path, help="audit the clusters of this folder, run none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
