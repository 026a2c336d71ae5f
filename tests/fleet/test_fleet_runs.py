"""What becomes of the runs of a live fleet, without brokers and without audits."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from spark_jobs.score.agreement import Tally
from tests.fleet import live_fleet
from tests.fleet.fleet_table import KEPT, MANY_FAILED, OVER_LIMITS, WIDTH
from tests.fleet.live_fleet import FleetRuns, recorded_runs, run_fleet
from tests.fleet.live_run import PlannedRun, planned_runs
from tests.fleet.run_score import RunScore
from tests.fleet.test_fleet_figures import ACCUSATION, GOOD
from tests.oracle.lab_process import LabError

BAD = msgspec.structs.replace(GOOD, accusations=(ACCUSATION,))
WEAK = msgspec.structs.replace(GOOD, produces=Tally(decisions=1000, agreeing=990))


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A fleet whose runs become what ``outcomes`` says, one after the other."""
    outcomes: list[Any] = []
    text = io.StringIO()
    runs = FleetRuns(Console(width=WIDTH, file=text))

    def record(plan: PlannedRun, folder: Path) -> None:
        if isinstance(outcomes[0], LabError):
            raise outcomes.pop(0)
        (folder / "capture").mkdir(parents=True)
        (folder / "run.json").write_bytes(msgspec.json.encode(plan))

    def audit(_: object, folder: Path) -> RunScore:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return msgspec.structs.replace(outcome, run=live_fleet.read_run(folder).conditions)

    monkeypatch.setattr(live_fleet, "record", record)
    monkeypatch.setattr(live_fleet, "audit", audit)

    def run(*what: Any, is_keeping_all: bool = False) -> int:
        outcomes.extend(what)
        plans: Iterator[PlannedRun] = islice(planned_runs(3, 60_000), len(what))
        run_fleet(runs, SimpleNamespace(), plans, tmp_path, is_keeping_all)
        return runs.print()

    def kept() -> list[str]:
        return [folder.name.split("-")[1] for folder in recorded_runs(tmp_path)]

    return SimpleNamespace(run=run, kept=kept, text=text, runs=runs)


def test_runs_that_miss_no_limit_leave_nothing(fleet: Any) -> None:
    assert fleet.run(GOOD, GOOD) == KEPT
    assert fleet.kept() == []


def test_all_are_kept_where_that_is_asked(fleet: Any) -> None:
    assert fleet.run(GOOD, GOOD, is_keeping_all=True) == KEPT
    assert fleet.kept() == ["1", "2"]


def test_a_run_that_accuses_is_kept_and_the_fleet_goes_on(fleet: Any) -> None:
    assert fleet.run(GOOD, BAD, GOOD) == OVER_LIMITS
    assert fleet.kept() == ["2"]
    assert len(fleet.runs.scores) == 3


def test_a_run_that_accuses_nobody_but_misses_a_limit_is_kept_too(fleet: Any) -> None:
    assert fleet.run(GOOD, WEAK) == OVER_LIMITS
    assert fleet.kept() == ["2"]


def test_a_load_that_failed_is_counted_and_told(fleet: Any) -> None:
    assert fleet.run(GOOD, LabError("not one record was sent"), GOOD) == KEPT
    assert "not one record was sent" in fleet.text.getvalue()
    assert "1 runs failed" in fleet.text.getvalue()


def test_too_many_failed_loads_fail_the_fleet(fleet: Any) -> None:
    assert fleet.run(GOOD, LabError("a"), LabError("b")) == MANY_FAILED


def test_an_audit_that_breaks_fails_the_fleet_and_its_capture_is_kept(fleet: Any) -> None:
    assert fleet.run(GOOD, ValueError("a defect"), GOOD) == OVER_LIMITS
    assert fleet.kept() == ["2"]
    assert "its audit failed: ValueError('a defect')" in fleet.text.getvalue()
