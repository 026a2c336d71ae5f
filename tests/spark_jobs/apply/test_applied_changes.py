from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.apply.applied_changes import only_one_run, read_applications, record_application
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import NOON_MS, row, scope_in

HOLDS_THE_LOCK = """
import fcntl, sys
lock = open(sys.argv[1])
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def change(application_id: str, **columns: Any) -> dict[str, Any]:
    return row("applied_changes", application_id=application_id, **columns)


def outcomes(scope: RunScope) -> dict[str, str]:
    rows = read_table(scope, "applied_changes").to_pylist()
    return {row["application_id"]: row["outcome"] for row in rows}


def test_an_application_is_added_to_the_day_and_then_replaced(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    record_application(scope, [change("a")])
    record_application(scope, [change("b", outcome="intended", ended_ms=None)])
    assert outcomes(scope) == {"a": "applied", "b": "intended"}
    record_application(scope, [change("b", outcome="failed", message="no")])
    assert outcomes(scope) == {"a": "applied", "b": "failed"}


def test_rows_that_are_not_the_tables_leave_what_was_there(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    path = record_application(scope, [change("a")])
    with pytest.raises(pa.ArrowInvalid):
        record_application(scope, [change("a", position="first")])
    assert [file.name for file in scope.partition_dir("applied_changes").iterdir()] == [path.name]
    assert outcomes(scope) == {"a": "applied"}


def test_what_a_stopped_machine_left_half_written_is_passed_over(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    path = record_application(scope, [change("a")])
    (path.parent / f".{path.name}").write_bytes(b"PAR1")
    assert outcomes(scope) == {"a": "applied"}


def test_applications_of_all_days_are_read_oldest_first(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    before = RunScope(tmp_path, "default", scope.day - dt.timedelta(days=1))
    record_application(scope, [change("a")])
    record_application(before, [change("z", started_ms=NOON_MS - 86_400_000)])
    record_application(RunScope(tmp_path, "other", scope.day), [change("o")])
    assert [a.application_id for a in read_applications(tmp_path, "default")] == ["z", "a"]
    assert read_applications(tmp_path, "nobody") == []


def test_two_runs_never_change_a_cluster_at_once(tmp_path: Path) -> None:
    with only_one_run(tmp_path, "default"):
        (lock,) = tmp_path.rglob(".lock")
    command = [sys.executable, "-S", "-c", HOLDS_THE_LOCK, str(lock)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BadInputError, match="Another apply or rollback of the cluster 'def"):
            only_one_run(tmp_path, "default").__enter__()
        with only_one_run(tmp_path, "another cluster"):
            # Its lock goes with it, however it ends.
            other.kill()
            other.wait()
    with only_one_run(tmp_path, "default"):
        assert read_applications(tmp_path, "default") == []
