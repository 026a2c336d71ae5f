"""A day is due when its audit is not what the archive says now; other days are left alone."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.audit.due_days import Digests, due_days
from spark_jobs.ingest.archive import LogFile, find_archive
from spark_jobs.ingest.archive_days import days_of_log
from spark_jobs.ingest.file_report import counted_once
from spark_jobs.ingest.ingested_files import audited_days, file_rows
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.read_logs import ReadTask, read_log_file, with_changes
from spark_jobs.replay.replay_quotas import state_digest
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FILES
from spark_jobs.warehouse.write import put_carried, write_table
from tests.builders.log_lines import log_line, message
from tests.builders.tables_builder import row, write_rows

MONDAY, TUESDAY, WEDNESDAY = (dt.date(2026, 11, 16 + day) for day in range(3))
UTC = LogOptions(timezone="UTC", prefix=None, listener_brokers={})
LOG = "broker=1/kafka-request.log"


def lines(day: dt.date, *seconds: int) -> bytes:
    stamps = (f"{day} 12:00:{second:02d},000" for second in seconds)
    return b"".join(log_line(message(), stamp) + b"\n" for stamp in stamps)


def put(archive: Path, name: str, data: bytes) -> Path:
    path = archive / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class Reads:
    """Reads logs as Spark's workers do, and remembers which."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, logs: Sequence[LogFile]) -> Sequence[Digests]:
        self.names += [log.source_file for log in logs]
        return [days_of_log(log, UTC) for log in logs]


def due(archive: Path, warehouse: Path, reads: Reads | None = None) -> dict[dt.date, str]:
    found = due_days(find_archive(archive, "default"), warehouse, reads or Reads())
    return {one.day: one.reason for one in found}


def audit(archive: Path, warehouse: Path, day: dt.date | None = None) -> None:
    """Write the manifest as an ingest does."""
    found = find_archive(archive, "default")
    task = ReadTask(UTC, warehouse / ".staged", None)
    reports = [with_changes(read_log_file(log, task), log) for log in found.request_logs]
    reports = counted_once(reports)
    days = audited_days(reports, found, day)
    rows = file_rows(reports, days)
    for one in days:
        of_day = pa.Table.from_pylist([r for r in rows if r["date"] == one], FILES)
        write_table(of_day, "files", RunScope(warehouse, "default", one))


def test_every_day_of_an_archive_nobody_audited_is_due(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    assert due(tmp_path / "a", tmp_path / "w") == {
        MONDAY: f"not audited yet ({LOG})",
        TUESDAY: f"not audited yet ({LOG})",
    }


def test_nothing_is_due_and_nothing_is_read_of_an_archive_that_was_audited(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    put(tmp_path / "a", "broker=2/kafka-request.log", b"nothing of ours\n" + lines(MONDAY, 2))
    audit(tmp_path / "a", tmp_path / "w")
    reads = Reads()
    assert due(tmp_path / "a", tmp_path / "w", reads) == {}
    assert reads.names == []


def test_a_day_of_a_file_that_was_read_for_another_day_is_due(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    audit(tmp_path / "a", tmp_path / "w", TUESDAY)
    reads = Reads()
    assert due(tmp_path / "a", tmp_path / "w", reads) == {MONDAY: f"not audited yet ({LOG})"}
    assert reads.names == []


def test_a_late_file_makes_its_days_due_and_no_others(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1) + lines(WEDNESDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    put(tmp_path / "a", "broker=1/kafka-request.log.7", lines(TUESDAY, 5))
    reads = Reads()
    late = {TUESDAY: "new: broker=1/kafka-request.log.7"}
    assert due(tmp_path / "a", tmp_path / "w", reads) == late
    assert reads.names == ["broker=1/kafka-request.log.7"]
    audit(tmp_path / "a", tmp_path / "w", TUESDAY)
    assert due(tmp_path / "a", tmp_path / "w") == {}


def test_the_same_lines_of_another_broker_are_another_file(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    put(tmp_path / "a", "broker=2/kafka-request.log", lines(MONDAY, 1))
    found = due(tmp_path / "a", tmp_path / "w")
    assert found == {MONDAY: "new: broker=2/kafka-request.log"}


def test_a_file_that_grew_makes_only_the_days_due_whose_requests_it_adds(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    assert due(tmp_path / "a", tmp_path / "w") == {TUESDAY: f"not audited yet ({LOG})"}
    put(tmp_path / "a", LOG, lines(MONDAY, 1, 2) + lines(TUESDAY, 1))
    assert due(tmp_path / "a", tmp_path / "w")[MONDAY] == f"changed since: {LOG}"


def test_a_file_that_was_rotated_or_packed_makes_no_day_due(tmp_path: Path) -> None:
    whole = lines(MONDAY, 1, 2)
    put(tmp_path / "a", LOG, whole)
    audit(tmp_path / "a", tmp_path / "w")
    (tmp_path / "a" / LOG).rename(tmp_path / "a" / f"{LOG}.2026-11-16")
    put(tmp_path / "a", f"{LOG}.1.gz", gzip.compress(whole))
    put(tmp_path / "a", LOG, lines(TUESDAY, 1))
    assert due(tmp_path / "a", tmp_path / "w") == {TUESDAY: f"not audited yet ({LOG})"}


def test_a_file_that_lost_a_day_s_requests_makes_it_due(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    put(tmp_path / "a", LOG, lines(TUESDAY, 1))
    assert due(tmp_path / "a", tmp_path / "w") == {MONDAY: f"changed since: {LOG}"}


def test_a_file_that_is_only_touched_is_read_again_and_makes_nothing_due(tmp_path: Path) -> None:
    path = put(tmp_path / "a", LOG, lines(MONDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    os.utime(path, ns=(1, 1))
    reads = Reads()
    assert due(tmp_path / "a", tmp_path / "w", reads) == {}
    assert reads.names == [LOG]


def test_files_that_left_the_archive_make_nothing_due(tmp_path: Path) -> None:
    put(tmp_path / "a", LOG, lines(TUESDAY, 1))
    old = put(tmp_path / "a", f"{LOG}.1", lines(MONDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    old.unlink()
    assert due(tmp_path / "a", tmp_path / "w") == {}


def test_the_logs_of_a_due_day_are_those_with_its_requests_and_those_with_none(
    tmp_path: Path,
) -> None:
    for name, data in {
        LOG: lines(MONDAY, 1), f"{LOG}.1": lines(MONDAY, 2) + lines(TUESDAY, 1),
        f"{LOG}.2": lines(TUESDAY, 2), f"{LOG}.3": b"no request\n",
    }.items():  # fmt: skip
        put(tmp_path / "a", name, data)
    found = due_days(find_archive(tmp_path / "a", "default"), tmp_path / "w", Reads())
    assert {one.day: [log.source_file for log in one.logs] for one in found} == {
        MONDAY: [LOG, f"{LOG}.1", f"{LOG}.3"],
        TUESDAY: [f"{LOG}.1", f"{LOG}.2", f"{LOG}.3"],
    }


@pytest.fixture
def two_days(tmp_path: Path) -> tuple[RunScope, RunScope]:
    """Return Monday and Tuesday, audited one after the other."""
    put(tmp_path / "a", LOG, lines(MONDAY, 1) + lines(TUESDAY, 1))
    audit(tmp_path / "a", tmp_path / "w")
    monday, tuesday = (RunScope(tmp_path / "w", "default", day) for day in (MONDAY, TUESDAY))
    replay(monday, tokens=5.0)
    replay(tuesday, tokens=6.0)
    return monday, tuesday


def replay(scope: RunScope, tokens: float) -> None:
    """Write a state as a replay does, and what it began with."""
    before = state_digest(scope.day_before) if scope.day == TUESDAY else None
    write_rows(scope, "quota_state", [row("quota_state", tokens=tokens, resumes_from=None)])
    put_carried(before, state_digest(scope), scope)


def test_a_day_is_due_when_the_day_before_leaves_other_states_than_it_began_with(
    tmp_path: Path, two_days: tuple[RunScope, RunScope]
) -> None:
    monday, tuesday = two_days
    assert due(tmp_path / "a", tmp_path / "w") == {}
    replay(monday, tokens=5.0)
    assert due(tmp_path / "a", tmp_path / "w") == {}
    replay(monday, tokens=4.0)
    assert due(tmp_path / "a", tmp_path / "w") == {
        TUESDAY: "2026-11-16 was audited again, and left other states"
    }
    replay(tuesday, tokens=7.0)
    assert due(tmp_path / "a", tmp_path / "w") == {}


def test_a_day_is_due_when_the_day_before_was_audited_after_it(
    tmp_path: Path, two_days: tuple[RunScope, RunScope]
) -> None:
    _, tuesday = two_days
    put_carried(None, state_digest(tuesday), tuesday)
    assert due(tmp_path / "a", tmp_path / "w") == {TUESDAY: "2026-11-16 was audited after it"}


def mutation(at: dt.time, partitions: int) -> dict[str, Any]:
    """Return a request of Monday that created a topic."""
    at_ms = int(dt.datetime.combine(MONDAY, at, dt.UTC).timestamp() * 1000)
    times = dict.fromkeys(("log_time_ms", "recorded_earliest_ms", "recorded_latest_ms"), at_ms)
    topics = [{"topic": "orders", "partitions": partitions, "error_code": 0}]
    told = {"api_name": "CREATE_TOPICS", "mutations": topics}
    return row("requests", recorded_estimate_us=at_ms * 1000, **told, **times)


def test_the_digest_has_the_mutations_that_are_read_again_and_the_bucket_before(
    tmp_path: Path,
) -> None:
    scope = RunScope(tmp_path, "default", MONDAY)

    def digest(noon: int, evening: int, tokens: float) -> str:
        bucket = {"tokens_min": tokens, "tokens_max": tokens, "last_update_ms": 9}
        resumed = row("quota_state")["resumes_from"] | {
            "at_ms": mutation(dt.time(23, 49), 1)["log_time_ms"],
            "bucket": bucket | {"debt_slack_ms": 1.0, "debt_bound": 2.0},
        }
        told = row("quota_state", quota_type="controller_mutation_rate", resumes_from=resumed)
        write_rows(scope, "quota_state", [told])
        lines = [mutation(dt.time(12), noon), mutation(dt.time(23, 55), evening)]
        write_rows(scope, "requests", lines)
        return state_digest(scope)

    first = digest(1, 1, -3.0)
    assert digest(2, 1, -3.0) == first
    assert len({first, digest(1, 2, -3.0), digest(1, 1, -4.0)}) == 3


def test_the_states_have_one_digest_in_whatever_order_they_were_written(tmp_path: Path) -> None:
    scope = RunScope(tmp_path, "default", MONDAY)
    one, other = row("quota_state", broker_id=1), row("quota_state", broker_id=2)
    write_rows(scope, "quota_state", [one, other])
    first = state_digest(scope)
    write_rows(scope, "quota_state", [other, one])
    assert state_digest(scope) == first
    write_rows(scope, "quota_state", [one])
    assert state_digest(scope) != first


@pytest.mark.parametrize("day", [dt.date(2030, 1, 1), dt.date(9999, 12, 31)], ids=str)
def test_a_day_of_the_future_is_never_due(tmp_path: Path, day: dt.date) -> None:
    log = put(tmp_path / "a", LOG, lines(MONDAY, 3))
    archive = find_archive(tmp_path / "a", "default")
    (of_file,) = archive.request_logs
    rows = [
        {
            **row("files"), "source_file": of_file.source_file, "broker_id": of_file.broker_id,
            "bytes_read": log.stat().st_size, "modified_ns": log.stat().st_mtime_ns,
            "days": [str(MONDAY), str(day)], "day_digest": name,
        }
        for name in ("monday", "future")
    ]  # fmt: skip
    until_ms = day_number(TUESDAY) * DAY_MS
    write_rows(RunScope(tmp_path / "w", "default", MONDAY), "files", rows[:1])
    # Put away, as doctor says: the manifest of Monday still names the day.
    assert due_days(archive, tmp_path / "w", Reads(), until_ms) == []
    # Still there, and the file has grown: it no longer has lines of that day.
    write_rows(RunScope(tmp_path / "w", "default", day), "files", rows[1:])
    put(tmp_path / "a", LOG, lines(MONDAY, 4))
    archive = find_archive(tmp_path / "a", "default")
    found = due_days(archive, tmp_path / "w", Reads(), until_ms)
    assert [one.day for one in found] == [MONDAY]
