"""Whatever stands in a log file: nothing raises, and every line is counted once."""

from __future__ import annotations

import gzip
import zoneinfo
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, ParsedChunk, parse_chunk
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.ingest.quota_sources.server_log import read_server_log
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from spark_jobs.warehouse.tables import QUOTA_EVENTS, THROTTLE_RECORDS
from tests.builders.line_mutations import GOLDEN, LONG_BYTES, MUTATIONS, bent_lines, real_lines
from tests.builders.log_lines import log_line, message
from tests.endurance.fuzz_lines import PLAIN, FuzzError, check, fuzz

POOL = real_lines()
GOOD = log_line(message())
SOURCE = LineSource("broker=1/kafka-request.log", 1, 1)


def parse(data: bytes, first_line: int = 1, state: ChunkState | None = None) -> ParsedChunk:
    source = LineSource(SOURCE.source_file, 1, first_line)
    parsed, _ = parse_chunk(data, source, PLAIN, state or ChunkState(), is_last=True)
    assert parsed.lines_read == len(parsed.requests) + len(parsed.quarantine) + parsed.other
    return parsed


def test_thousands_of_bent_lines_are_all_accounted_for(tmp_path: Path) -> None:
    found = fuzz(6000, 20, tmp_path, lines_per_file=600)
    assert found.lines == found.requests + sum(found.reasons.values()) + found.other
    assert found.files == 10
    assert found.requests > 1000, "what is whole is still read"
    assert set(found.kinds) >= set(MUTATIONS) - {"line of 10 MB"}
    assert set(found.reasons) >= set(Reason) - {
        Reason.UNKNOWN_BROKER, Reason.TOO_LONG, Reason.FUTURE,
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_equal_seeds_bend_equal_lines() -> None:
    first, second = (list(bent_lines(Random(3), 500, POOL)) for _ in range(2))
    assert first == second
    assert first != list(bent_lines(Random(4), 500, POOL))


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_bent_line_leaves_the_lines_around_it_as_they_were(kind: str) -> None:
    rng, bend = Random(kind), MUTATIONS[kind][0]
    for _ in range(2 if "MB" in kind else 40):
        bent = bend(rng, rng.choice(POOL), POOL)
        data = b"\n".join((GOOD, bent, b"", GOOD))
        lines = data.count(b"\n") + 1
        parsed = parse(data)
        assert parsed.lines_read == lines
        whole = parsed.requests["source_line"].to_pylist()
        assert {1, lines} <= set(whole)
        assert parsed.quarantine["reason"].null_count == 0


def test_a_line_of_10_mb_is_kept_as_its_begin() -> None:
    long = MUTATIONS["line of 10 MB"][0](Random(1), GOOD, POOL)
    assert len(long) > LONG_BYTES
    parsed = parse(b"\n".join((GOOD, long[:-100], GOOD)))
    (row,) = parsed.quarantine.to_pylist()
    assert (row["source_line"], len(row["text"])) == (2, 500)


@given(data=st.binary(max_size=2000) | st.text(max_size=500).map(lambda text: text.encode("utf-8")))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    assert parse(data).lines_read == lines


@given(
    begin=st.integers(0, len(GOOD)),
    end=st.integers(0, len(GOOD)),
    inserted=st.binary(max_size=30) | st.sampled_from([b"NaN", b"1e999", b"[" * 2000, b"\x00"]),
)
def test_any_part_of_a_line_may_be_any_bytes(begin: int, end: int, inserted: bytes) -> None:
    bent = GOOD[: min(begin, end)] + inserted + GOOD[max(begin, end) :]
    assert parse(bent + b"\n").lines_read == bent.count(b"\n") + 1


@given(seed=st.integers(0, 1 << 32), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_where_bent_lines_are_cut_into_blocks_changes_nothing(seed: int, cuts: list[int]) -> None:
    bent = [b.line for b in bent_lines(Random(seed), 40, POOL) if len(b.line) < 1 << 20]
    lines = b"\n".join(bent).split(b"\n")
    whole = parse(b"".join(line + b"\n" for line in lines))
    state, begin, requests, quarantine, other = ChunkState(), 0, [], [], 0
    for end in [*sorted(min(cut, len(lines)) for cut in cuts), len(lines)]:
        data = b"".join(line + b"\n" for line in lines[begin:end])
        source = LineSource(SOURCE.source_file, 1, begin + 1)
        parsed, state = parse_chunk(data, source, PLAIN, state, is_last=end == len(lines))
        requests += parsed.requests.to_pylist()
        quarantine += [(r["reason"], r["text"]) for r in parsed.quarantine.to_pylist()]
        other, begin = other + parsed.other, end
    assert requests == whole.requests.to_pylist()
    assert quarantine == [(r["reason"], r["text"]) for r in whole.quarantine.to_pylist()]
    assert other == whole.other


def test_a_line_that_is_not_accounted_for_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "kafka-request.log"
    path.write_bytes(GOOD + b"\n?\n")
    log = LogFile(path, path.name, 1, path.stat().st_size)
    report = read_log_file(log, ReadTask(PLAIN, tmp_path / "staged", None))
    check(report, 2)
    with pytest.raises(FuzzError, match="3 lines in the file, 2 read"):
        check(report, 3)
    Path(report.parts[0].path).unlink()
    with pytest.raises(FileNotFoundError):
        check(report, 2)


def test_bent_lines_of_a_server_log_are_read_without_an_error() -> None:
    path = GOLDEN / "captures" / "kafka-3.7.2" / "broker=1" / "server.log.gz"
    lines = [line for line in gzip.decompress(path.read_bytes()).split(b"\n") if b"quota" in line]
    bent = [b.line for b in bent_lines(Random(9), 4000, lines)]
    texts = (piece.decode("utf-8", "replace") for line in bent for piece in line.split(b"\n"))
    found = read_server_log(texts, 1, "server.log", zoneinfo.ZoneInfo("Europe/Berlin"))
    assert len(found.quota_events) > 10
    events = pa.Table.from_pylist([event.row() for event in found.quota_events], QUOTA_EVENTS)
    throttles = pa.Table.from_pylist([t.row() for t in found.throttles], THROTTLE_RECORDS)
    assert (len(events), len(throttles)) == (len(found.quota_events), len(found.throttles))
