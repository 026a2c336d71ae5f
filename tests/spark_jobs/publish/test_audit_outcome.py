from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs.publish.audit_outcome import OUTCOME_NAME, read_outcome
from spark_jobs.publish.facts.quality import StageQuality, worst_quality
from spark_jobs.publish.publish_report import publish_report
from tests.builders.tables_builder import scope_in, write_day


def test_what_was_published_can_be_read_again(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_day(scope)
    publish_report(scope, dag_run_id="manual__2026-11-10")
    found = read_outcome(scope.output_dir("reports") / OUTCOME_NAME)
    assert found is not None
    assert (found.cluster, found.day) == (scope.cluster, str(scope.day))
    assert found.dag_run_id == "manual__2026-11-10"
    assert found.decisions >= found.agree + found.wrong + found.indeterminate > 0
    first = (scope.output_dir("reports") / OUTCOME_NAME).read_bytes()
    publish_report(scope, dag_run_id="manual__2026-11-10")
    assert (scope.output_dir("reports") / OUTCOME_NAME).read_bytes() == first


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe", b'{"cluster": 1}'])
def test_a_file_that_is_missing_or_not_ours_is_no_outcome(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "audit.json"
    if content is not None:
        path.write_bytes(content)
    assert read_outcome(path) is None


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "warnings"], "warnings"),
        (["warnings", "not validated"], "not validated"),
        (["failed", "not validated"], "failed"),
        (["failed", "not readable: x.json"], "broken"),
        ([], "not validated"),
    ],
)
def test_the_worst_stage_speaks_for_the_day(outcomes: list[str], worst: str) -> None:
    stages = tuple(StageQuality(f"stage-{i}", outcome) for i, outcome in enumerate(outcomes))
    assert worst_quality(stages) == worst


def test_a_pipe_and_endless_brackets_in_place_of_an_outcome_are_none(tmp_path: Path) -> None:
    path = tmp_path / OUTCOME_NAME
    path.write_text("[" * 100_000)
    assert read_outcome(path) is None
    path.unlink()
    os.mkfifo(path)
    assert read_outcome(path) is None
