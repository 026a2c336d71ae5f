"""One run of the live fleet: real brokers under a random scenario, recorded, audited and scored.

A run's folder holds ``run.json`` (what was drawn), ``scenario.txt``, ``capture`` (the archive that
is audited), ``server-logs`` (each broker's own lines on its throttles, of which the archive has
what the run says) and ``score.json``.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from tests.fleet.random_scenario import random_scenario
from tests.fleet.run_score import Run, RunScore, score_run
from tests.oracle.capture import capture
from tests.oracle.live_audit import audit_archive
from tests.oracle.scenario import Busy, Pause, parse_scenario

KAFKA_VERSIONS = (
    "2.8.2", "3.2.3", "3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.0", "4.2.2",
    "4.3.1", "4.4.0",
)  # fmt: skip
_LOADED_EVERY = 3
CAPTURE, SERVER_LOGS, SCORE, RUN = "capture", "server-logs", "score.json", "run.json"
_SCENARIO = "scenario.txt"


class PlannedRun(msgspec.Struct, frozen=True):
    """What is to be recorded: all of it follows from the seed, the number and the load's length.

    ``server_log`` is what the archive has of the brokers' server logs: everything, nothing, or what
    they write by default.
    """

    seed: int
    number: int
    kafka_version: str
    load_ms: int
    is_loaded: bool
    server_log: Literal["none", "INFO", "DEBUG"]

    @property
    def name(self) -> str:
        """Return the name of the run and its folder."""
        return f"{self.seed}-{self.number}-{self.kafka_version}"

    @property
    def scenario(self) -> str:
        """Return the text of its scenario."""
        seed = f"{self.seed}-{self.number}"
        return random_scenario(seed, self.kafka_version, self.load_ms, self.is_loaded)

    @property
    def conditions(self) -> Run:
        """Return what a score says of it."""
        scenario = parse_scenario(self.scenario)
        steps = [step for _, step in scenario.steps]
        return Run(
            name=self.name,
            kafka_version=self.kafka_version,
            layout=scenario.cluster.layout,
            is_loaded=any(isinstance(step, Busy) for step in steps),
            pauses=sum(isinstance(step, Pause) for step in steps),
        )


def planned_runs(seed: int, load_ms: int) -> Iterator[PlannedRun]:
    """Yield runs without end: all versions in turn, one in three on a machine kept busy."""
    random = Random(seed)
    versions: list[str] = []
    number = 0
    while True:
        number += 1
        versions = versions or random.sample(KAFKA_VERSIONS, k=len(KAFKA_VERSIONS))
        yield PlannedRun(
            seed=seed,
            number=number,
            kafka_version=versions.pop(),
            load_ms=load_ms,
            is_loaded=number % _LOADED_EVERY == 0,
            server_log=random.choices(("none", "INFO", "DEBUG"), (0.45, 0.35, 0.2))[0],
        )


def record(plan: PlannedRun, folder: Path) -> None:
    """Make ``folder`` the run's, with all but its score.

    Raises LabError where a broker or a client failed; then the folder has no capture.
    """
    folder.mkdir(parents=True)
    (folder / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    scenario = folder / _SCENARIO
    scenario.write_text(plan.scenario)
    captured = capture(scenario, plan.kafka_version, folder / CAPTURE)
    for log in sorted(captured.glob("broker=*/server.log.gz")):
        kept = folder / SERVER_LOGS / log.parent.name / log.name
        kept.parent.mkdir(parents=True)
        shutil.move(log, kept)
        if plan.server_log != "none":
            log.write_bytes(_server_log(kept.read_bytes(), plan.server_log))


def _server_log(packed: bytes, level: str) -> bytes:
    if level == "DEBUG":
        return packed
    lines = gzip.decompress(packed).splitlines(keepends=True)
    return gzip.compress(b"".join(line for line in lines if b"] DEBUG " not in line), mtime=0)


def audit(spark: SparkSession, folder: Path) -> RunScore:
    """Return the score of a recorded run, audited now; it is kept in the run's folder."""
    plan = read_run(folder)
    archive = find_archive(folder / CAPTURE, "default")
    with tempfile.TemporaryDirectory(prefix="quota-audit-fleet-") as warehouse:
        scopes = audit_archive(spark, archive, Path(warehouse), IngestOptions.of())
        score = score_run(plan.conditions, archive, scopes)
    (folder / SCORE).write_bytes(msgspec.json.format(msgspec.json.encode(score)) + b"\n")
    return score


def read_run(folder: Path) -> PlannedRun:
    """Return what the run of a folder was planned as."""
    return msgspec.json.decode((folder / RUN).read_bytes(), type=PlannedRun)
