"""No line is lost between a log file and the tables, and only whole partitions change."""

from __future__ import annotations

import datetime as dt
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.ingest.archive import Archive, find_archive
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.ingested_files import (
    audited_days,
    check_conservation,
    file_rows,
    publish_parts,
)
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.read_logs import UNDATED_ROWS_MAX, ReadTask, read_log_file
from spark_jobs.warehouse.days import day_number
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.log_lines import log_line, message

MONDAY, TUESDAY = dt.date(2026, 11, 16), dt.date(2026, 11, 17)
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
OPTIONS = LogOptions(timezone="UTC", prefix=None, listener_brokers={})


def line(day: dt.date, time: str = "12:00:00,000") -> bytes:
    return log_line(message(), f"{day} {time}")


def archive_of(folder: Path, **files: list[bytes]) -> Archive:
    for name, lines in files.items():
        path = folder / "archive" / "broker=1" / f"kafka-request.log.{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(each + b"\n" for each in lines))
    return find_archive(folder / "archive", "default")


def read(archive: Archive, folder: Path, day: dt.date | None = None) -> list[FileReport]:
    task = ReadTask(OPTIONS, folder, None if day is None else day_number(day))
    return [read_log_file(log, task) for log in archive.request_logs]


def ingest(archive: Archive, warehouse: Path, day: dt.date | None = None) -> list[dict]:
    folder = warehouse / ".staged"
    reports = read(archive, folder, day)
    days = audited_days(reports, archive, day)
    files = file_rows(reports, days)
    check_conservation(reports, files, days)
    publish_parts(reports, [RunScope(warehouse, "default", day) for day in days])
    return files


def lines_of(warehouse: Path, day: dt.date, table: str) -> list[int]:
    rows = read_table(RunScope(warehouse, "default", day), table)
    return sorted(rows["source_line"].to_pylist())


def test_lines_go_to_the_day_of_their_time(tmp_path: Path) -> None:
    before_midnight = line(MONDAY, "23:59:59,999")
    archive = archive_of(tmp_path, a=[before_midnight, b"broken", line(TUESDAY, "00:00:00,000")])
    files = ingest(archive, tmp_path / "w")
    assert lines_of(tmp_path / "w", MONDAY, "requests") == [1]
    assert lines_of(tmp_path / "w", TUESDAY, "requests") == [3]
    counted = [(f["date"], f["requests"], f["quarantined"], f["other_days"]) for f in files]
    # The line without a time belongs to the day of its block's last request.
    assert counted == [(MONDAY, 1, 0, 2), (TUESDAY, 1, 1, 1)]


def test_one_day_asked_for_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, a=[line(MONDAY), line(TUESDAY), line(TUESDAY)])
    (file,) = ingest(archive, tmp_path / "w", TUESDAY)
    assert (file["requests"], file["other_days"]) == (2, 1)
    assert lines_of(tmp_path / "w", MONDAY, "requests") == []
    ingest(archive, tmp_path / "w", MONDAY)
    assert lines_of(tmp_path / "w", TUESDAY, "requests") == [2, 3]


def test_a_file_without_any_time_is_told_of_on_the_first_day(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, a=[line(MONDAY), line(TUESDAY)], b=[b"what is this", b"?"])
    ingest(archive, tmp_path / "w")
    assert lines_of(tmp_path / "w", MONDAY, "quarantine") == [1, 2]
    assert lines_of(tmp_path / "w", TUESDAY, "quarantine") == []


def test_many_lines_before_the_first_request_do_not_wait_for_it(tmp_path: Path) -> None:
    many = [b"?"] * (UNDATED_ROWS_MAX + 10)
    archive = archive_of(tmp_path, a=[line(MONDAY)], b=[*many, line(TUESDAY), b"?"])
    (report,) = [r for r in read(archive, tmp_path / "s") if r.source_file.endswith("b")]
    days = {c.day: c.rows for c in report.counts if c.table == "quarantine"}
    assert days == {None: UNDATED_ROWS_MAX, day_number(TUESDAY): 11}
    ingest(archive, tmp_path / "w")
    assert len(lines_of(tmp_path / "w", MONDAY, "quarantine")) == UNDATED_ROWS_MAX
    assert len(lines_of(tmp_path / "w", TUESDAY, "quarantine")) == 11


def test_lines_of_hundreds_of_days_keep_few_files_open(tmp_path: Path) -> None:
    days = [MONDAY + dt.timedelta(days=i) for i in range(300)]
    archive = archive_of(tmp_path, a=[line(day) for day in [*days, *days]])
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, HARD))
    try:
        (report,) = read(archive, tmp_path / "staged")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
    assert sum(part.rows for part in report.parts) == report.lines_read == 600
    check_conservation([report], file_rows([report], days), days)


def test_a_second_ingest_with_nothing_broken_empties_the_quarantine(tmp_path: Path) -> None:
    ingest(archive_of(tmp_path, a=[line(MONDAY), b"broken"]), tmp_path / "w")
    assert lines_of(tmp_path / "w", MONDAY, "quarantine") == [2]
    ingest(archive_of(tmp_path, a=[line(MONDAY)]), tmp_path / "w")
    assert lines_of(tmp_path / "w", MONDAY, "quarantine") == []


def test_rows_of_a_task_that_was_started_twice_count_once(tmp_path: Path) -> None:
    archive, folder = archive_of(tmp_path, a=[line(MONDAY)]), tmp_path / "w" / ".staged"
    read(archive, folder)
    reports = read(archive, folder)
    publish_parts(reports, [RunScope(tmp_path / "w", "default", MONDAY)])
    assert lines_of(tmp_path / "w", MONDAY, "requests") == [1]


def test_a_line_that_is_not_accounted_for_stops_the_ingest(tmp_path: Path) -> None:
    reports = read(archive_of(tmp_path, a=[line(MONDAY), line(MONDAY)]), tmp_path / "staged")
    (file,) = file_rows(reports, [MONDAY])
    with pytest.raises(AuditFailedError, match=r"3 lines were read, but 2 \+ 0 \+ 0 \+ 0 \+ 0 = 2"):
        check_conservation(reports, [file | {"lines_read": 3}], [MONDAY])
    (count,) = reports[0].counts
    reports[0].counts = [replace(count, rows=3)]
    with pytest.raises(AuditFailedError, match="3 lines were read for the table requests, but 2"):
        check_conservation(reports, [], [MONDAY])


def test_nothing_to_audit_says_what_was_found(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, a=[b"hello", b"world"])
    reports = read(archive, tmp_path / "staged")
    with pytest.raises(BadInputError, match=r"found 2 foreign\. Expected lines of"):
        audited_days(reports, archive, None)


def test_a_day_that_is_not_in_the_archive_is_bad_input(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, a=[line(MONDAY)])
    reports = read(archive, tmp_path / "staged")
    with pytest.raises(BadInputError, match="no request of 2026-11-17; it covers 2026-11-16"):
        audited_days(reports, archive, TUESDAY)


def test_only_quota_alterations_travel_to_the_driver(tmp_path: Path) -> None:
    entity = [{"entityType": "user", "entityName": "bob"}]
    ops = [{"key": "producer_byte_rate", "value": 1e5, "remove": False}]
    altering = message(
        "ALTER_CLIENT_QUOTAS",
        1,
        {"entries": [{"entity": entity, "ops": ops}], "validateOnly": False},
        {
            "throttleTimeMs": 0,
            "entries": [{"errorCode": 0, "errorMessage": None, "entity": entity}],
        },
    )
    lines = [line(MONDAY), log_line(altering, f"{TUESDAY} 08:00:00,000")]
    (report,) = read(archive_of(tmp_path, a=lines), tmp_path / "staged", MONDAY)
    # Also of days that are not audited: the value may still be in force.
    assert [a["source_line"] for a in report.alterations] == [2]
    assert report.alterations[0]["quota_alterations"][0]["bound"] == 1e5
