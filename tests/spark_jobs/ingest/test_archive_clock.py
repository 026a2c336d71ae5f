"""A clock that is wrong makes no day: lines of the future are set aside, stray ones are told."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, find_archive
from spark_jobs.ingest.archive_clock import FILES_MAX, clock_sentences, lines_until_ms
from spark_jobs.ingest.archive_days import archive_days, day_options
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.ingest.ingested_files import audited_days
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from spark_jobs.warehouse.days import CALENDAR_END_MS, since_epoch_ms, stray_days
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.log_lines import log_line, message
from tests.builders.tables_builder import write_day
from tests.spark_jobs.ingest.lines.both_readers import CAPTURES, assert_same, capture

NOW = dt.datetime(2026, 11, 21, 13, tzinfo=dt.UTC)
UNTIL_MS = since_epoch_ms(NOW + dt.timedelta(days=1))
DAY = NOW.date()
WRONG = ("2030-01-01 00:00:00,000", "9999-12-30 23:59:59,999", "2026-11-23 13:00:00,000")


@pytest.fixture(autouse=True)
def one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX")


def line(stamp: str = f"{DAY} 12:00:00,000") -> bytes:
    return log_line(message(), stamp) + b"\n"


def archive_of(folder: Path, *files: bytes) -> Archive:
    for number, data in enumerate(files):
        path = folder / "archive" / f"broker={number}" / "kafka-request.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return find_archive(folder / "archive", "default")


@pytest.mark.parametrize("stamp", WRONG)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_both_readers_set_a_line_of_the_future_aside(stamp: str, zone: str) -> None:
    options = LogOptions(zone, None, {}, UNTIL_MS)
    found = assert_same(line() * 3 + line(stamp) + line() * 3, (2, 5), options)
    assert len(found.quarantine) + len(found.requests) == 2
    whole = assert_same(line() * 3 + line(stamp) + line() * 3, (), options)
    (row,) = whole.quarantine.to_pylist()
    assert (row["reason"], row["source_line"], row["log_time_ms"]) == ("future", 4, None)
    assert len(whole.requests) == 6


def test_what_is_up_to_a_day_ahead_is_read() -> None:
    data = line("2026-11-22 12:59:59,999") + line("2026-11-22 13:00:00,000")
    found = assert_same(data, (), LogOptions("UTC", None, {}, UNTIL_MS))
    assert found.requests["source_line"].to_pylist() == [1]
    assert found.quarantine["source_line"].to_pylist() == [2]


@pytest.mark.parametrize("stamp", ["1969-12-31 23:59:59,999", "0001-01-01 00:00:00,000"])
def test_a_line_before_1970_is_of_no_time(stamp: str) -> None:
    found = assert_same(line() + line(stamp))
    assert [row["reason"] for row in found.quarantine.to_pylist()] == ["bad_time"]


def test_a_line_of_the_future_says_nothing_of_the_repeated_hour() -> None:
    first = b"".join(line(f"2026-10-25 02:{m:02d}:00,000") for m in (10, 30))
    options = LogOptions("Europe/Berlin", None, {}, UNTIL_MS)
    found = assert_same(first + line(WRONG[0]) + line("2026-10-25 02:50:00,000"), (), options)
    times_ms = found.requests["log_time_ms"].to_pylist()
    assert times_ms[-1] - times_ms[0] == 40 * 60_000


@pytest.mark.parametrize("path", CAPTURES[:2], ids=str)
def test_captured_lines_around_one_of_the_future_stay_as_they_were(path: Path) -> None:
    lines = capture(path).splitlines(keepends=True)[:400]
    whole = assert_same(b"".join(lines))
    at = next(i for i, each in enumerate(lines) if i > 100 and b"Completed request" in each)
    bent = lines[at].replace(lines[at][1:5], b"2031", 1)
    options = LogOptions("UTC", None, {}, since_epoch_ms(dt.datetime(2030, 1, 1, tzinfo=dt.UTC)))
    found = assert_same(b"".join([*lines[:at], bent, *lines[at + 1 :]]), (), options)
    assert [row["reason"] for row in found.quarantine.to_pylist()] == ["future"]
    expected = [row for row in whole.requests.to_pylist() if row["source_line"] != at + 1]
    assert found.requests.to_pylist() == expected


def test_one_line_of_the_future_makes_no_day(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, line(WRONG[1]) + line() * 3 + line(WRONG[0]), line(WRONG[1]))
    assert archive_days(archive, "UTC", None, NOW) == [DAY]


def test_a_line_of_the_future_is_told_on_the_day_around_it(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, line() + line(WRONG[0]))
    until_ms = lines_until_ms(archive, "UTC", None, now=NOW)
    options = LogOptions("UTC", None, {}, until_ms)
    report = read_log_file(archive.request_logs[0], ReadTask(options, tmp_path / "s", None))
    (aside,) = (count for count in report.counts if count.table == "quarantine")
    assert (aside.reason, aside.day) == ("future", since_epoch_ms(NOW) // 86_400_000)
    (said,) = clock_sentences([report], until_ms, NOW)
    assert "1 requests are later than this machine's clock (2026-11-21 13:00 UTC)" in said
    assert "QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX" in said


@pytest.mark.parametrize("prefix", [None, r"<\d+> "])
def test_where_all_lines_are_later_this_machines_clock_is_behind(
    tmp_path: Path, prefix: str | None
) -> None:
    written = b"<1> " if prefix else b""
    files = [b"".join([written + line()] * 3)] * (FILES_MAX + 4)
    archive = archive_of(tmp_path, *files)
    then = NOW - dt.timedelta(days=300)
    assert lines_until_ms(archive, "UTC", prefix, now=then) == CALENDAR_END_MS
    assert archive_days(archive, "UTC", prefix, then) == [DAY]
    (said,) = clock_sentences([FileReport("a", 1, 1)], CALENDAR_END_MS, then)
    assert "this machine's clock (2026-01-25 13:00 UTC), which is taken to be behind" in said


def test_a_line_before_the_clock_shows_that_it_is_a_brokers_that_is_ahead(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, line(WRONG[0]) * 50, line(WRONG[0]) * 50 + line())
    assert lines_until_ms(archive, "UTC", None, now=NOW) == UNTIL_MS
    assert archive_days(archive, "UTC", None, NOW) == [DAY]


def test_an_audited_day_shows_it_too_and_where_all_is_set_aside_a_sentence_says_why(
    tmp_path: Path,
) -> None:
    archive, warehouse = archive_of(tmp_path, line(WRONG[0])), tmp_path / "w"
    write_day(RunScope(warehouse, "default", NOW.date() + dt.timedelta(days=2)))
    assert lines_until_ms(archive, "UTC", None, warehouse, NOW) == CALENDAR_END_MS
    write_day(RunScope(warehouse, "default", DAY))
    assert lines_until_ms(archive, "UTC", None, warehouse, NOW) == UNTIL_MS
    options = day_options(archive, "UTC", None, warehouse, NOW)
    report = read_log_file(archive.request_logs[0], ReadTask(options, tmp_path / "s", None))
    with pytest.raises(BadInputError, match=r"1 future.* later than this machine's clock: set it"):
        audited_days([report], archive, None)


def test_the_setting_moves_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path, line() * 3 + line("2026-11-25 00:00:00,000"))
    assert archive_days(archive, "UTC", None, NOW) == [DAY]
    monkeypatch.setenv("QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX", "5")
    assert archive_days(archive, "UTC", None, NOW) == [DAY, dt.date(2026, 11, 25)]


def test_files_that_cannot_be_read_say_nothing_of_the_clock(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, line(), line())
    archive.request_logs[0].path.unlink()
    archive.request_logs[1].path.write_bytes(b"no line of a log")
    assert lines_until_ms(archive, "UTC", None, now=NOW) == UNTIL_MS


def test_a_day_of_few_lines_far_from_its_neighbours_is_stray() -> None:
    days = {DAY: 5_000, DAY - dt.timedelta(days=1): 4}
    assert stray_days(days) == []
    odd = {dt.date(1970, 1, 1): 3, dt.date(1970, 1, 2): 2, dt.date(2019, 5, 6): 50}
    assert stray_days(days | odd) == sorted(odd)
    assert stray_days(days | {dt.date(2019, 5, 6): 51}) == []
    assert stray_days({}) == stray_days({DAY: 1}) == []


@pytest.mark.spark
def test_an_ingest_publishes_no_day_of_the_future_and_tells_a_stray_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = line("2019-05-06 12:00:00,000") + line() * 150 + line(WRONG[1])
    archive = archive_of(tmp_path, data)
    options = IngestOptions.of(broker_version="3.7.2")
    report = ingest_requests(spark, archive, tmp_path / "w", None, options, now=NOW)
    assert report.days == (dt.date(2019, 5, 6), DAY)
    told = "\n".join(report.warnings)
    assert "quarantine, reason future), in broker=0/kafka-request.log" in told
    assert "2019-05-06 has few requests (1) and is far from the archive's other days" in told
    rows = read_table(RunScope(tmp_path / "w", "default", DAY), "quarantine").to_pylist()
    assert [(row["reason"], row["log_time_ms"]) for row in rows] == [("future", None)]
