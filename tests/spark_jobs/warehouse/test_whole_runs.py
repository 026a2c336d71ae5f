"""A run is published whole and validated, and by who made it or was told to take it over."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.publish.publish_report import publish_run
from spark_jobs.warehouse.pipeline import AUDIT_STAGES, WRITTEN_BY
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.runs import DRAFT, RunOwner, draft_of, published_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.write import (
    begin_draft,
    check_draft,
    check_whole,
    continued_draft,
    draft_or_published,
    draft_to_publish,
    new_run,
    publish_draft,
    put_validated,
    write_table,
)
from tests.builders.tables_builder import row

ELSEWHERE = RunOwner("quota-audit run", "another-host", 1, 1.0)


@pytest.fixture
def day(tmp_path: Path) -> RunScope:
    return RunScope(tmp_path, "default", dt.date(2026, 11, 9))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits to be ended."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.kill()
    started.communicate()


def owner_of(process: subprocess.Popen[bytes]) -> RunOwner:
    created_s = psutil.Process(process.pid).create_time()
    return RunOwner("quota-audit run", socket.gethostname(), process.pid, created_s)


def write(scope: RunScope, table: str, rows: int = 1) -> None:
    made = [row(table) for _ in range(rows)]
    write_table(pa.Table.from_pylist(made, TABLES[table]), table, scope)


def whole(scope: RunScope) -> RunScope:
    """Write every table of an audit, and let the last stage pass."""
    for table in WRITTEN_BY:
        write(scope, table)
    put_validated("judged", scope)
    return scope


@pytest.mark.parametrize("missing", WRITTEN_BY)
def test_a_run_that_lacks_a_table_is_not_published_and_says_which_command_writes_it(
    day: RunScope, missing: str
) -> None:
    made = begin_draft(day, new_run())
    for table in WRITTEN_BY:
        if table != missing:
            write(made, table)
    put_validated("judged", made)
    says = rf"is not published: its run has no {missing}\. Run 'quota-audit {WRITTEN_BY[missing]}'"
    with pytest.raises(BadInputError, match=says):
        publish_run(made)
    assert published_run(day.runs) is None
    assert not day.output_dir("reports").exists()


def test_a_run_that_ended_early_is_not_published_over_a_whole_one(day: RunScope) -> None:
    publish_draft(whole(begin_draft(day, new_run())))
    before = published_run(day.runs)
    made = begin_draft(day, new_run())
    write(made, "files")
    write(made, "quota_changes")
    with pytest.raises(BadInputError, match="its run has no requests, quarantine, brokers"):
        publish_run(draft_or_published(day))
    assert published_run(day.runs) == before
    assert read_table(day, "decisions").num_rows == 1


@pytest.mark.parametrize("stage", [None, "ingested", "replayed"])
def test_a_run_whose_last_stage_did_not_pass_is_not_published(
    day: RunScope, stage: str | None
) -> None:
    made = begin_draft(day, new_run())
    for table in WRITTEN_BY:
        write(made, table)
    if stage is not None:
        put_validated(stage, made)
    with pytest.raises(BadInputError, match=r"have not passed 'quota-audit validate judged'"):
        publish_run(made)
    assert published_run(day.runs) is None


@pytest.mark.parametrize("table", AUDIT_STAGES["judged"])
def test_what_passed_is_to_be_validated_again_once_a_table_of_it_is_written_again(
    day: RunScope, table: str
) -> None:
    made = whole(begin_draft(day, new_run()))
    check_whole(made)
    write(made, table, 2)
    with pytest.raises(BadInputError, match="as they are now, have not passed"):
        check_whole(made)
    put_validated("judged", made)
    check_whole(made)


def test_a_table_without_rows_counts_as_written(day: RunScope) -> None:
    made = whole(begin_draft(day, new_run()))
    write_table(None, "quarantine", made)
    write_table(None, "log_gaps", made)
    check_whole(made)


def test_a_published_day_is_whole_when_a_step_is_done_again(day: RunScope) -> None:
    made = whole(begin_draft(day, new_run()))
    write_table(None, "quarantine", made)
    publish_draft(made)
    again = continued_draft(day)
    check_whole(again)
    write(again, "findings", 2)
    with pytest.raises(BadInputError, match="validate judged"):
        check_whole(again)


def test_another_ones_draft_is_published_only_by_who_is_told_to_take_it_over(
    day: RunScope,
) -> None:
    theirs = whole(begin_draft(day, new_run(ELSEWHERE)))
    says = r"audited by 'quota-audit run' \(process 1 of another-host, not here\), and this is sing"
    for take in (continued_draft, draft_to_publish):
        with pytest.raises(BadInputError, match=says) as refused:
            take(day)
        assert "--take-over" in str(refused.value)
    assert draft_or_published(day) == day
    taken = draft_to_publish(day, take_over=True)
    check_whole(taken)
    with pytest.raises(AuditFailedError, match="Another run of default 2026-11-09 has begun"):
        write(theirs, "findings", 2)
    publish_draft(taken)
    assert published_run(day.runs) == taken.run
    with pytest.raises(AuditFailedError):
        check_draft(theirs)


def test_a_run_does_not_begin_while_the_process_of_another_one_still_runs(
    day: RunScope, process: subprocess.Popen[bytes]
) -> None:
    ended = owner_of(process)
    theirs = begin_draft(day, new_run(ended))
    with pytest.raises(BadInputError, match=rf"process {process.pid} of .*, still running"):
        begin_draft(day, new_run())
    check_draft(theirs)
    process.kill()
    # It has ended, although nobody has waited for it yet.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ended.is_running() is False
    mine = begin_draft(day, new_run())
    check_draft(mine)
    process.wait()
    assert ended.is_running() is False


def test_a_run_that_is_told_to_takes_the_day_from_a_process_that_still_runs(
    day: RunScope, process: subprocess.Popen[bytes]
) -> None:
    theirs = begin_draft(day, new_run(owner_of(process)))
    mine = begin_draft(day, new_run(take_over=True))
    with pytest.raises(AuditFailedError):
        check_draft(theirs)
    check_draft(mine)


def test_another_process_of_the_same_id_is_not_the_one_that_made_the_run(
    process: subprocess.Popen[bytes],
) -> None:
    owner = owner_of(process)
    assert owner.is_running() is True
    later = RunOwner(owner.name, owner.host, owner.pid, owner.started_s + 3600)
    assert later.is_running() is False
    assert ELSEWHERE.is_running() is None


def test_nothing_is_published_of_a_day_that_was_never_ingested(day: RunScope) -> None:
    with pytest.raises(BadInputError, match="so there is nothing to publish"):
        draft_to_publish(day)


@pytest.mark.parametrize("owner", [None, "scheduled__1"])
def test_a_draft_of_an_earlier_version_is_gone_on_with(
    day: RunScope, owner: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if owner is not None:
        monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", owner)
    made = begin_draft(day, new_run())
    (day.runs / DRAFT).write_text(json.dumps({"run": made.run, "owner": owner}))
    assert draft_of(day.runs) == (made.run, RunOwner(owner or ""))
    assert continued_draft(day) == made
