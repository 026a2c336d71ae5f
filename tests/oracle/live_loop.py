"""One load driven twice against the same brokers, audited each time: before a change and after."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.recommend.recommend_quotas import read_settings, recommend_quotas
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.oracle.capture import log_ends, write_capture
from tests.oracle.driver import drive
from tests.oracle.kafka_configs import described_quotas
from tests.oracle.lab import RunningCluster
from tests.oracle.live_audit import SCENARIOS
from tests.oracle.scenario import Quota, Scenario, parse_scenario

KAFKA_VERSION = "4.1.0"
CLUSTER = "default"
FIRST, SECOND = "first", "second"
"""What the topics' names of the two loads begin with: the second finds no backlog to read."""

_ROOT = Path(__file__).parents[2]
_COMMAND_SECONDS = 120
_DAY_SECONDS = 86_400
# For the clients to start, and to end.
_AROUND_LOAD_SECONDS = 30


@dataclass(frozen=True, slots=True)
class AuditedLoad:
    """A load that real brokers carried, and the audit of what they logged of it."""

    archive: Path
    scope: RunScope

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table of the load's day."""
        return list(read_table(self.scope, table).to_pylist())

    def logged_throttle_ms(self, quota_type: str, user: str | None, client_id: str | None) -> int:
        """Return the throttle times of an entity's clients as the brokers logged them, in all."""
        own = (quota_type, user or "", client_id or "")
        return sum(
            row["logged_throttle_time_ms"] or 0
            for row in self.rows("decisions")
            if (row["quota_type"], row["quota_user"], row["quota_client_id"]) == own
        )


def load_of(name: str) -> Scenario:
    """Return the first load, which sets the quotas too, or the second, which leaves them alone."""
    first = parse_scenario((SCENARIOS / "loop.txt").read_text())
    if name == FIRST:
        return first
    lines = (line for line, step in first.steps if not isinstance(step, Quota))
    return parse_scenario("\n".join(lines).replace(f" {FIRST}.", f" {name}."))


def carry(cluster: RunningCluster, name: str, archive: Path) -> Path:
    """Run a load; return the new folder ``archive`` with what the brokers logged of it.

    What held before, which such a log does not tell, is beside it: ``--describe``'s own output.
    """
    load = load_of(name)
    _wait_for_room_in_the_day(load)
    before = described_quotas(KAFKA_VERSION, cluster.plan.plaintext_servers)
    at_ms = time.time_ns() // 1_000_000
    begins = log_ends(cluster)
    drive(load, cluster, on_second=lambda _: None)
    write_capture(archive, cluster, load, begins)
    if before:
        snapshot = archive / f"quota-snapshot-{at_ms}.txt"
        snapshot.write_text("".join(f"{line}\n" for line in before))
    return archive


def audit(spark: SparkSession, archive: Path, warehouse: Path, settings: Path) -> AuditedLoad:
    """Return the audit of an archive of one day, up to what is recommended by a settings file."""
    options = IngestOptions.of()
    found = find_archive(archive, CLUSTER)
    (day,) = ingest_requests(spark, found, warehouse, None, options).days
    scope = RunScope(warehouse, CLUSTER, day)
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    judge_decisions(lambda: spark, scope)
    recommend_quotas(scope, read_settings(settings))
    return AuditedLoad(archive, scope)


def quota_audit(*arguments: str, env: dict[str, str]) -> str:
    """Return what a command line prints; AssertionError with all it said where it fails."""
    command = [sys.executable, "-m", "spark_jobs.cli", *arguments]
    done = subprocess.run(
        command, cwd=_ROOT, env={**os.environ, **env}, capture_output=True, text=True,
        timeout=_COMMAND_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _wait_for_room_in_the_day(load: Scenario) -> None:
    """Wait for midnight (UTC) where the load would go on after it: an audit is of one day."""
    now = dt.datetime.now(dt.UTC)
    left = _DAY_SECONDS - (now.hour * 3600 + now.minute * 60 + now.second)
    if left < load.end_ms / 1000 + _AROUND_LOAD_SECONDS:
        time.sleep(left + 1)
