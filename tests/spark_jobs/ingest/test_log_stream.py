"""Files of strangers: read in bounded memory, whole, or refused with a sentence."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.lines.chunk import LINE_BYTES_MAX
from spark_jobs.ingest.log_stream import (
    BLOCK_BYTES,
    BLOCK_LINES,
    LINE_BYTES_COUNTED,
    UNPACKED_FREE_BYTES,
    TruncatedFileError,
    line_blocks,
    log_lines,
)

MB = 1 << 20
NEVER = 1 << 40
LINES = b"".join(b"%d a line of the log that packs a little\n" % i for i in range(90_000))


def packed(path: Path, pieces: Iterator[bytes]) -> Path:
    """Write ``pieces`` as the suffix of ``path`` says, without holding them."""
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.writelines(pieces)
    elif path.suffix == ".zst":
        with zstandard.open(path, "wb") as file:
            for piece in pieces:
                file.write(piece)
    else:
        with path.open("wb") as file:
            file.writelines(pieces)
    return path


def bytes_at_most() -> int:
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_line_without_an_end_takes_no_more_memory_than_the_longest_that_is_read(
    tmp_path: Path, suffix: str
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"before\n"
        yield from (b"x" * MB for _ in range(200))
        yield b"\nbehind\n"

    path = packed(tmp_path / f"kafka-request.log{suffix}", pieces())
    tracemalloc.start()
    lengths = [len(line) for line in log_lines(path, ratio_max=NEVER)]
    assert bytes_at_most() < 5 * (LINE_BYTES_MAX + BLOCK_BYTES)
    assert lengths == [len("before"), LINE_BYTES_MAX + 1, len("behind")]


@pytest.mark.parametrize("ending", [b"", b"\n"])
@pytest.mark.parametrize("length", [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1])
def test_a_line_of_just_the_longest_length_is_whole(
    tmp_path: Path, length: int, ending: bytes
) -> None:
    path = packed(tmp_path / "kafka-request.log", iter([b"a\n", b"x" * length, ending]))
    assert [len(line) for line in log_lines(path)] == [1, length]


def test_a_block_of_nothing_but_line_ends_is_yielded_in_pieces(tmp_path: Path) -> None:
    data = b"\n" * (BLOCK_LINES * 2 + 5) + b"x" * (2 * BLOCK_LINES) + b"\n" + b"y\n" * BLOCK_LINES
    path = packed(tmp_path / "kafka-request.log", iter([data]))
    blocks = list(line_blocks(path))
    assert b"".join(blocks) == data
    assert max(block.count(b"\n") for block in blocks) <= BLOCK_LINES
    assert all(block.endswith(b"\n") for block in blocks)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_that_unpacks_to_an_absurd_size_is_refused_with_what_to_do(
    tmp_path: Path, suffix: str
) -> None:
    bomb = (b"\n" * MB for _ in range(600))
    path = packed(tmp_path / f"kafka-request.log{suffix}", bomb)
    tracemalloc.start()
    lengths: list[int] = []
    with pytest.raises(BadInputError) as refused:
        lengths.extend(map(len, line_blocks(path)))
    assert bytes_at_most() < 100 * MB
    assert sum(lengths) < UNPACKED_FREE_BYTES + 64 * MB
    message = str(refused.value)
    for said in (str(path), "request logs have 20 to 40", "UNPACKED_RATIO_MAX", "Above 200 times"):
        assert said in message
    assert sum(map(len, line_blocks(path, ratio_max=NEVER))) == 600 * MB


def test_a_small_file_may_be_packed_to_nothing(tmp_path: Path) -> None:
    path = packed(tmp_path / "kafka-request.log.zst", (b"\n" * MB for _ in range(200)))
    assert path.stat().st_size * 1000 < 200 * MB
    assert sum(map(len, line_blocks(path))) == 200 * MB


def test_a_small_file_of_millions_of_short_lines_is_refused(tmp_path: Path) -> None:
    """Each would be a row in quarantine: what takes minutes are lines and not bytes."""
    path = packed(tmp_path / "kafka-request.log.zst", (b"x\n" * MB for _ in range(20)))
    lines: list[int] = []
    with pytest.raises(BadInputError, match="a line counts as 128 or more"):
        lines.extend(block.count(b"\n") for block in line_blocks(path))
    assert sum(lines) * LINE_BYTES_COUNTED <= UNPACKED_FREE_BYTES
    plain = packed(tmp_path / "kafka-request.log", (b"x\n" * MB for _ in range(20)))
    assert sum(map(len, line_blocks(plain))) == 40 * MB


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_files_packed_one_behind_the_other_are_read_as_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"kafka-request.log{suffix}"
    one = packed(path, iter([LINES])).read_bytes()
    path.write_bytes(one * 3)
    assert b"".join(line_blocks(path)) == LINES * 3


@pytest.mark.parametrize("kept", [2, 1000, -3, -1])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_file_that_is_cut_gives_its_lines_and_then_says_so(
    tmp_path: Path, suffix: str, before: int, kept: int
) -> None:
    path = tmp_path / f"kafka-request.log{suffix}"
    one = packed(path, iter([LINES])).read_bytes()
    path.write_bytes(one * before + one[:kept])
    read: list[bytes] = []
    with pytest.raises(TruncatedFileError):
        read.extend(line_blocks(path))
    assert (LINES * 2).startswith(b"".join(read))
    assert len(b"".join(read)) >= len(LINES) * before


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_is_no_packed_file_or_goes_on_with_other_bytes_is_told(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"kafka-request.log{suffix}"
    one = packed(path, iter([LINES])).read_bytes()
    for data, whole in ((b"no packed file", b""), (one + b"no packed file", LINES)):
        path.write_bytes(data)
        read: list[bytes] = []
        with pytest.raises(TruncatedFileError):
            read.extend(line_blocks(path))
        assert b"".join(read) == whole


def test_a_zstd_file_that_needs_gigabytes_to_be_unpacked_is_not(tmp_path: Path) -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path = tmp_path / "kafka-request.log.zst"
    path.write_bytes(packer.compress(LINES) + packer.flush())
    with pytest.raises(TruncatedFileError, match="too much memory"):
        list(line_blocks(path))


def test_what_is_no_file_does_not_hang_and_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "kafka-request.log"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(BadInputError, match=f"{path} is no regular file"):
            next(line_blocks(path))


def test_a_file_that_is_gone_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"kafka-request\.log\.1 is gone: .* run again"):
        next(line_blocks(tmp_path / "kafka-request.log.1"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "may not be read by this user"),
        (OSError(5, "Input/output error"), "cannot be opened: Input/output error"),
    ],
)
def test_a_file_that_cannot_be_opened_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def refuse(*_: object) -> int:
        raise error

    # The user of a test may be root, who may read everything.
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BadInputError, match=f"kafka-request.log {said}"):
        next(line_blocks(tmp_path / "kafka-request.log"))
