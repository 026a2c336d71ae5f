from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from tests.fleet import live_run
from tests.fleet.live_run import KAFKA_VERSIONS, PlannedRun, planned_runs, read_run, record
from tests.oracle.lab_process import LabError

LINES = (
    "[2026-11-21 10:00:00,000] INFO Changing PRODUCE quota for user alice to 8.0 (q)\n"
    "[2026-11-21 10:00:01,000] DEBUG Quota violated for sensor (Produce-alice:) (q)\n"
)
PLAN = PlannedRun(1, 7, "4.1.0", 60_000, False, "INFO")


def runs(seed: int, count: int) -> list[PlannedRun]:
    return list(islice(planned_runs(seed, 60_000), count))


def fake_capture(scenario: Path, kafka_version: str, out_dir: Path) -> Path:
    for broker_id in (1, 2):
        log = out_dir / f"broker={broker_id}" / "server.log.gz"
        log.parent.mkdir(parents=True)
        log.write_bytes(gzip.compress(LINES.encode()))
    return out_dir


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, plan: PlannedRun = PLAN) -> Path:
    monkeypatch.setattr(live_run, "capture", fake_capture)
    record(plan, folder)
    return folder


def test_runs_follow_from_the_seed_and_are_the_same_however_many_there_are() -> None:
    assert runs(5, 4) == runs(5, 30)[:4]
    assert runs(5, 4) != runs(6, 4)
    assert len({run.scenario for run in runs(5, 30)}) == 30


def test_all_versions_come_once_before_one_comes_again() -> None:
    versions = [run.kafka_version for run in runs(5, 2 * len(KAFKA_VERSIONS))]
    assert sorted(versions[: len(KAFKA_VERSIONS)]) == sorted(KAFKA_VERSIONS)
    assert sorted(versions[len(KAFKA_VERSIONS) :]) == sorted(KAFKA_VERSIONS)


def test_one_in_three_runs_on_a_busy_machine_and_says_so() -> None:
    found = [run.conditions for run in runs(5, 30)]
    assert [run.is_loaded for run in found] == [number % 3 == 2 for number in range(30)]
    assert any(run.pauses for run in found)
    assert {run.layout for run in found} == {"combined", "dedicated", "zookeeper"}


def test_the_name_tells_seed_number_and_version() -> None:
    assert PLAN.name == "1-7-4.1.0"


@pytest.mark.parametrize(
    ("level", "archived"),
    [("none", None), ("INFO", LINES.splitlines(keepends=True)[0]), ("DEBUG", LINES)],
)
def test_the_archive_has_of_the_server_log_what_was_planned_and_the_truth_stays_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, archived: str | None
) -> None:
    plan = msgspec.structs.replace(PLAN, server_log=level)
    folder = recorded(tmp_path / "run", monkeypatch, plan)
    for broker in ("broker=1", "broker=2"):
        kept = folder / "server-logs" / broker / "server.log.gz"
        assert gzip.decompress(kept.read_bytes()).decode() == LINES
        log = folder / "capture" / broker / "server.log.gz"
        assert (gzip.decompress(log.read_bytes()).decode() if log.exists() else None) == archived


def test_the_folder_says_what_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "run", monkeypatch)
    assert read_run(folder) == PLAN
    assert (folder / "scenario.txt").read_text() == PLAN.scenario


def test_a_load_that_fails_leaves_no_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Path:
        raise LabError("a broker did not come up")

    monkeypatch.setattr(live_run, "capture", failing)
    with pytest.raises(LabError):
        record(PLAN, tmp_path / "run")
    assert not (tmp_path / "run" / "capture").exists()
    assert (tmp_path / "run" / "scenario.txt").exists()
