"""Lines that lie in an archive twice count once, whatever the files are called and packed as."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.file_report import FileReport, counted_once, same_lines_sentences
from spark_jobs.ingest.ingested_files import (
    audited_days,
    check_conservation,
    file_rows,
    publish_parts,
)
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.log_lines import log_line, message

MONDAY = dt.date(2026, 11, 16)
OPTIONS = LogOptions(timezone="UTC", prefix=None, listener_brokers={})


def lines(*seconds: int) -> bytes:
    stamps = (f"{MONDAY} 12:00:{second:02d},000" for second in seconds)
    return b"".join(log_line(message(), stamp) + b"\n" for stamp in stamps)


def read(archive: Path, folder: Path) -> list[FileReport]:
    found = find_archive(archive, "default")
    reports = [read_log_file(log, ReadTask(OPTIONS, folder, None)) for log in found.request_logs]
    return counted_once(reports)


def write(archive: Path, **files: bytes) -> Path:
    """Write files named like ``b1_a``: broker 1's log with the ending ``a``."""
    for name, data in files.items():
        broker, _, ending = name.partition("_")
        path = archive / f"broker={broker[1:]}" / f"kafka-request.log.{ending.replace('_', '.')}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return archive


def test_a_copy_counts_once_and_is_told_of_though_it_is_packed(tmp_path: Path) -> None:
    archive = write(tmp_path / "archive", b1_a=lines(1, 2), b1_b=lines(3),
                    b1_c_gz=gzip.compress(lines(1, 2)))  # fmt: skip
    warehouse, staged = tmp_path / "w", tmp_path / "w" / ".staged"
    reports = read(archive, staged)
    days = audited_days(reports, find_archive(archive, "default"), None)
    files = file_rows(reports, days)
    check_conservation(reports, files, days)
    publish_parts(reports, [RunScope(warehouse, "default", day) for day in days])
    rows = read_table(RunScope(warehouse, "default", MONDAY), "requests")
    assert sorted(rows["log_time_ms"].to_pylist()) == sorted(set(rows["log_time_ms"].to_pylist()))
    assert rows.num_rows == 3
    told = {f["source_file"][-4:]: (f["requests"], f["duplicated"]) for f in files}
    assert told == {"og.a": (2, 0), "og.b": (1, 0), "c.gz": (0, 2)}
    (copy,) = [f for f in files if f["duplicate_of"]]
    assert copy["duplicate_of"] == "broker=1/kafka-request.log.a"
    assert same_lines_sentences(reports) == [
        "1 file holds the lines of another and counts only once: "
        "broker=1/kafka-request.log.c.gz (as broker=1/kafka-request.log.a)"
    ]


def test_which_file_counts_does_not_depend_on_the_order_they_were_read_in(tmp_path: Path) -> None:
    archive = write(tmp_path / "archive", b1_a=lines(1), b1_b=lines(1), b1_c=lines(1))
    found = find_archive(archive, "default")
    task = ReadTask(OPTIONS, tmp_path / "w", None)
    reports = [read_log_file(log, task) for log in found.request_logs]
    for order in (reports, reports[::-1]):
        counting = [r.source_file[-1] for r in counted_once(order) if r.duplicate_of is None]
        assert counting == ["a"]


def test_files_of_other_lines_and_empty_files_are_nobodys_copies(tmp_path: Path) -> None:
    archive = write(tmp_path / "archive", b1_a=lines(1, 2), b1_b=lines(2, 1), b1_c=b"", b1_d=b"")
    reports = read(archive, tmp_path / "w")
    assert [r.duplicate_of for r in reports] == [None] * 4
    assert same_lines_sentences(reports) == []


def test_the_same_lines_in_two_brokers_folders_are_pointed_out(tmp_path: Path) -> None:
    archive = write(tmp_path / "archive", b1_a=lines(1), b2_a=lines(1))
    reports = read(archive, tmp_path / "w")
    assert sum(r.rows("requests", None) or sum(c.rows for c in r.counts) for r in reports) == 2
    (said,) = same_lines_sentences(reports)
    assert "broker=1/kafka-request.log.a, broker=2/kafka-request.log.a" in said
