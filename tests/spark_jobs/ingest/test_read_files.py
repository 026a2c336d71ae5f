"""A file that changes between the listing of the archive and the end of reading is never silent."""

from __future__ import annotations

import gzip
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile, find_archive
from spark_jobs.ingest.file_report import FileReport, check_none_refused, warnings_of
from spark_jobs.ingest.read_logs import ReadTask, read_archived, with_changes
from tests.builders.log_lines import log_line, message
from tests.endurance.fuzz_lines import PLAIN

LINE = log_line(message()) + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> LogFile:
    path = tmp_path / "archive" / "broker=1" / "kafka-request.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE * 3)
    (listed,) = find_archive(tmp_path / "archive", "default").request_logs
    return listed


def read(log: LogFile, **options: int) -> FileReport:
    return read_archived(log, ReadTask(PLAIN, log.path.parents[2] / "staged", None, **options))


def test_a_file_that_stays_as_it_is_has_nothing_to_tell(log: LogFile) -> None:
    report = read(log)
    assert (report.lines_read, report.refused, report.warning) == (3, None, None)
    check_none_refused([report])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_millions_of_empty_lines_in_a_small_file_take_seconds(log: LogFile, end: bytes) -> None:
    read(log)  # what is compiled is compiled
    path = log.path.with_name("kafka-request.log.1.gz")
    path.write_bytes(gzip.compress(end * 4_000_000 + LINE))
    (packed,) = find_archive(log.path.parents[1], "default").request_logs[1:]
    assert packed.size_bytes < 20_000
    began_s = time.process_time()
    report = read(packed)
    assert time.process_time() - began_s < 5
    assert (report.lines_read, report.other, report.refused) == (4_000_001, 4_000_000, None)
    assert [(count.reason, count.rows) for count in report.counts] == [(None, 1)]


def test_a_file_that_grows_is_read_and_told(log: LogFile) -> None:
    with log.path.open("ab") as file:
        file.write(LINE[:100])
    report = read(log)
    assert (report.lines_read, report.refused) == (4, None)
    assert [c.reason for c in report.counts] == [None, "cut"]
    (warning,) = warnings_of([report])
    assert f"{log.path} grew from {log.size_bytes:,} to {log.size_bytes + 100:,} bytes" in warning


def test_a_file_that_grows_after_its_last_byte_was_read_is_told(log: LogFile) -> None:
    report = FileReport(log.source_file, 1, log.size_bytes)
    with log.path.open("ab") as file:
        file.write(LINE)
    assert "grew from" in str(with_changes(report, log).warning)


@pytest.mark.parametrize("data", [LINE, LINE[::-1] * 3, b""], ids=["shorter", "other", "empty"])
def test_a_file_that_is_replaced_is_refused(log: LogFile, data: bytes) -> None:
    other = log.path.with_name("new")
    other.write_bytes(data)
    os.utime(other, ns=(0, 1))
    os.replace(other, log.path)
    report = read(log)
    assert "was replaced or rewritten" in str(report.refused)
    with pytest.raises(BadInputError, match=r"kafka-request\.log was replaced .* Run again"):
        check_none_refused([report])


def test_a_file_that_is_gone_before_it_is_read_is_refused(log: LogFile) -> None:
    log.path.rename(log.path.with_name("kafka-request.log.1"))
    report = read(log)
    assert (report.lines_read, report.parts) == (0, [])
    with pytest.raises(BadInputError, match=r"kafka-request\.log is gone: it was rotated"):
        check_none_refused([report])


def test_a_file_that_is_gone_after_it_was_read_is_told(log: LogFile) -> None:
    report = read(log)
    log.path.unlink()
    assert "renamed or removed" in str(with_changes(report, log).warning)


def test_a_file_that_becomes_a_pipe_is_refused_and_not_waited_for(log: LogFile) -> None:
    log.path.unlink()
    os.mkfifo(log.path)
    assert "is no regular file" in str(read(log).refused)


def test_a_file_that_unpacks_to_too_much_is_refused_as_a_whole(log: LogFile) -> None:
    import gzip

    path = log.path.with_suffix(".gz")
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"x" * (1 << 20))
    bomb = replace(log, path=path, size_bytes=path.stat().st_size, modified_ns=None)
    assert "request logs have 20 to 40 times" in str(read(bomb).refused)
    assert read(bomb, unpacked_ratio_max=10_000).refused is None


def test_a_name_that_a_terminal_would_obey_is_shown_as_text(log: LogFile) -> None:
    path = log.path.rename(log.path.with_name("kafka-request.log.\x1b[2J\n"))
    named = replace(log, path=path, size_bytes=1)
    (warning,) = warnings_of([read(named)])
    assert r"kafka-request.log.\x1b[2J\n grew from" in warning
    with pytest.raises(BadInputError) as refused:
        check_none_refused([read(replace(named, path=path.with_name("\x1b[2J")))])
    assert str(refused.value).isprintable()


def test_of_many_files_that_are_refused_some_are_named(log: LogFile) -> None:
    reports = [FileReport(f"f{i}", 1, 1, refused=f"f{i} is bad") for i in range(8)]
    with pytest.raises(BadInputError, match=r"f0 is bad\n(.*\n)+f4 is bad\nand 3 more files"):
        check_none_refused([*reports, read(log)])
