"""A fleet of real brokers under random scenarios, audited: nobody sound may be accused.

``python -m tests.fleet.live_fleet [RUNS] [--seed N]`` records and audits; the same seed draws the
same scenarios. ``--again`` audits the runs of a folder as the rules are now. Prints the tables of
:mod:`tests.fleet.fleet_table`, and ends with 1 where a limit is missed, 3 where too many runs
failed. A run that misses a limit, or whose load or audit failed, is kept in the folder.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs.errors import QuotaAuditError
from spark_jobs.settings import SparkSettings
from spark_jobs.spark.spark_session import spark_session
from tests.cluster.standalone import QUICK_JVM
from tests.fleet.fleet_figures import misses_a_limit
from tests.fleet.fleet_progress import FleetProgress, count, seed_of
from tests.fleet.fleet_table import WIDTH, FailedRun
from tests.fleet.live_run import CAPTURE, RUN, PlannedRun, audit, planned_runs, read_run, record
from tests.fleet.run_score import RunScore

RUNS = 12
SPARK = SparkSettings(
    master="local[2]",
    driver_memory="1g",
    shuffle_partitions=2,
    driver_java_options=QUICK_JVM,
)


class FleetRuns(FleetProgress):
    """The runs of real brokers."""

    def record(self, plan: PlannedRun, folder: Path) -> bool:
        """Return whether a run was recorded into ``folder``, made anew."""
        shutil.rmtree(folder, ignore_errors=True)
        try:
            record(plan, folder)
        except (QuotaAuditError, OSError, subprocess.SubprocessError) as error:
            self._fail(plan, f"its load failed: {error}")
            return False
        return True

    def audit(self, spark: SparkSession, folder: Path) -> RunScore | None:
        """Return the score of a recorded run; None where its audit failed."""
        plan = read_run(folder)
        try:
            score = audit(spark, folder)
        except Exception as error:  # any of them is a fault of the auditor, and the fleet goes on
            traceback.print_exc()
            self.broken_audits += 1
            self._fail(plan, f"its audit failed: {error!r}")
            return None
        self.scores.append(score)
        said = "accuses" if score.is_accusing else "accuses nobody"
        self.say(f"{plan.name}: {score.decisions:,} decisions, {said}")
        return score

    def _fail(self, plan: PlannedRun, why: str) -> None:
        self.failed.append(FailedRun(plan.name, plan.kafka_version, why))
        self.say(f"{plan.name}: {why}")


def run_fleet(
    runs: FleetRuns,
    spark: SparkSession,
    plans: Iterator[PlannedRun],
    folder: Path,
    is_keeping_all: bool,
) -> None:
    """Record and audit each planned run; keep in ``folder`` those that miss a limit, or all."""
    for plan in plans:
        own = folder / plan.name
        if not runs.record(plan, own):
            continue
        score = runs.audit(spark, own)
        if score is not None and not is_keeping_all and not misses_a_limit(score):
            shutil.rmtree(own)


def recorded_runs(folder: Path) -> list[Path]:
    """Return the folders of recorded runs, in order of their names."""
    return sorted(run.parent for run in folder.glob(f"*/{RUN}") if (run.parent / CAPTURE).is_dir())


def main() -> int:
    """Return KEPT, OVER_LIMITS or MANY_FAILED."""
    asked = _asked()
    # A plain `kill` ends brokers and clients too: SystemExit leaves every block.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    seed = seed_of(asked.seed)
    runs = FleetRuns(Console(width=WIDTH))
    if asked.again is None:
        print(f"seed {seed}; what misses a limit is kept in {asked.folder}", flush=True)
        load_ms = asked.load_seconds * 1000
        before = asked.first - 1
        plans = islice(planned_runs(seed, load_ms), before, before + (asked.runs or RUNS))
        with spark_session("fleet", SPARK) as spark:
            run_fleet(runs, spark, plans, asked.folder, asked.keep_all)
    else:
        with spark_session("fleet", SPARK) as spark:
            for folder in recorded_runs(asked.again)[: asked.runs]:
                runs.audit(spark, folder)
    return runs.print(findings_only=asked.findings_only)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=count, nargs="?", help=f"how many runs ({RUNS}, or all again)")
    parser.add_argument("--seed", type=int, help="of the scenarios; by default the time of day")
    parser.add_argument("--first", type=count, default=1, help="number of the first run")
    parser.add_argument("--load-seconds", type=count, default=60)
    parser.add_argument("--folder", type=Path, default=Path("artifacts/fleet"))
    parser.add_argument("--keep-all", action="store_true", help="keep runs that miss no limit too")
    parser.add_argument(
        "--findings-only", action="store_true", help="end with 1 by findings alone, not by shares"
    )
    parser.add_argument("--again", type=Path, help="audit the runs of this folder, record none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
