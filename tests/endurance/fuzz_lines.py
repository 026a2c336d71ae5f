"""A fuzzer of log files: ``python -m tests.endurance.fuzz_lines LINES [--seed N]``.

Bends real lines in the ways of ``line_mutations``, writes them as plain, gzip and zstd
files and reads these as an ingest does. Nothing may raise, every line must be accounted for, and
the process must not grow with the number of lines. Ends with 1 where one of it does not hold, and
prints the line and how to get it again.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import BinaryIO, cast

import pyarrow.parquet as pq
import zstandard

from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from tests.builders.line_mutations import Bent, bent_lines, real_lines

LINES_PER_FILE = 20_000
FORMS = ("", ".gz", ".zst")
PLAIN = LogOptions(timezone="UTC", prefix=None, listener_brokers={"127.0.0.1:9092": 4})
OPTIONS = (
    PLAIN,
    dataclasses.replace(PLAIN, timezone="Europe/Berlin"),
    dataclasses.replace(PLAIN, prefix=r"<\d+>\S+ kafka: "),
)


class FuzzError(AssertionError):
    """A line broke the reader, or is not accounted for."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """What was tried and what became of it."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    requests: int = 0
    other: int = 0
    kinds: Counter[str] = dataclasses.field(default_factory=Counter)
    reasons: Counter[str] = dataclasses.field(default_factory=Counter)

    def take(self, report: FileReport) -> None:
        """Add a file's report."""
        self.files += 1
        self.lines += report.lines_read
        self.other += report.other
        for count in report.counts:
            if count.reason is None:
                self.requests += count.rows
            else:
                self.reasons[count.reason] += count.rows


def fuzz(lines: int, seed: int, folder: Path, lines_per_file: int = LINES_PER_FILE) -> Outcome:
    """Return what became of ``lines`` bent lines; raises FuzzError at the first that breaks."""
    pool, outcome = real_lines(), Outcome()
    for number in range(-(-lines // lines_per_file)):
        count = min(lines_per_file, lines - number * lines_per_file)
        _one_file(number, count, f"{seed}-{number}", folder, pool, outcome)
    return outcome


def _one_file(
    number: int, count: int, seed: str, folder: Path, pool: Sequence[bytes], outcome: Outcome
) -> None:
    path = folder / f"kafka-request.log{FORMS[number % len(FORMS)]}"
    expected = _written(path, bent_lines(Random(seed), count, pool), outcome)
    options = OPTIONS[number % len(OPTIONS)]
    broker_id = None if number % 5 == 4 else 1
    log = LogFile(path, path.name, broker_id, path.stat().st_size)
    staged = folder / "staged"
    try:
        report = read_log_file(log, ReadTask(options, staged, None))
        check(report, expected)
    except Exception as error:
        culprit = _culprit(bent_lines(Random(seed), count, pool), options, broker_id)
        raise FuzzError(f"seed {seed}, {count} lines: {error!r}\n{culprit}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        path.unlink()
    outcome.take(report)


def _written(path: Path, lines: Sequence[Bent] | object, outcome: Outcome) -> int:
    """Write lines, the last without a line end; return how many lines a reader must count."""
    ends, last = 0, b""
    with _opened(path) as file:
        for i, bent in enumerate(cast("Sequence[Bent]", lines)):
            piece = (b"\n" if i else b"") + bent.line
            file.write(piece)
            ends += piece.count(b"\n")
            last = piece or last
            outcome.bytes += len(piece)
            outcome.kinds.update(bent.kinds)
    return ends + (not last.endswith(b"\n"))


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "wb", compresslevel=1))
    if path.suffix == ".zst":
        return cast(BinaryIO, zstandard.open(path, "wb"))
    return path.open("wb")


def check(report: FileReport, lines: int) -> None:
    """Raise FuzzError unless every one of ``lines`` lines is counted, and written, once."""
    counted = sum(count.rows for count in report.counts)
    if not lines == report.lines_read == counted + report.other:
        raise FuzzError(
            f"{lines} lines in the file, {report.lines_read} read, {counted} in tables, "
            f"{report.other} other"
        )
    written = sum(pq.read_metadata(part.path).num_rows for part in report.parts)
    if written != counted:
        raise FuzzError(f"{counted} rows counted, {written} written")


def _culprit(lines: object, options: LogOptions, broker_id: int | None) -> str:
    """Return the first line that breaks the reader by itself, in words."""
    for bent in cast("Sequence[Bent]", lines):
        source = LineSource("kafka-request.log", broker_id, 1)
        try:
            parse_chunk(bent.line + b"\n", source, options, ChunkState(), is_last=True)
        except Exception as error:
            shown = bent.line if len(bent.line) < 4000 else bent.line[:2000] + b" ... "
            return f"{', '.join(bent.kinds)}: {error!r}\n{shown!r}"
    return "no line by itself does it: it takes those before"


def peak_mb() -> float:
    """Return the most memory that this process ever held, in MB (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Fuzz as the command line says, in ten parts, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m tests.endurance.fuzz_lines"
    )
    parser.add_argument("lines", type=int, help="how many bent lines to read")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds, equal lines [default: 1]")
    asked = parser.parse_args()
    total, started, rates = Outcome(), time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="fuzz-lines-") as folder:
        for part in range(10):
            count = asked.lines // 10 + (asked.lines % 10 if part == 0 else 0)
            try:
                found = fuzz(count, 10 * asked.seed + part, Path(folder))
            except FuzzError as error:
                sys.exit(f"part {part}: {error}")
            for field in ("files", "lines", "bytes", "requests", "other", "kinds", "reasons"):
                setattr(total, field, getattr(total, field) + getattr(found, field))
            rates.append(peak_mb())
            print(f"{total.lines:>12,} lines, peak {rates[-1]:,.0f} MB", flush=True)
    _print(total, time.monotonic() - started, rates)


def _print(total: Outcome, seconds: float, peaks: list[float]) -> None:
    for title, counts in (("damage", total.kinds), ("quarantine", total.reasons)):
        for name, count in counts.most_common():
            print(f"{title:>12}  {name:<32} {count:>10,}")
    quarantined = sum(total.reasons.values())
    print(
        f"{total.lines:,} lines ({total.bytes / 1e6:,.0f} MB) in {total.files} files, "
        f"{seconds:,.0f} s\n{total.requests:,} requests + {quarantined:,} quarantined + "
        f"{total.other:,} other = {total.requests + quarantined + total.other:,}\n"
        f"peak memory {peaks[0]:,.0f} MB after a tenth, {peaks[-1]:,.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
