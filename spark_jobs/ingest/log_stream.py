"""Reading a log file as blocks of whole lines, through its decompressor, in bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import zstandard

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archived_file import ByteSource, open_packed, open_regular
from spark_jobs.ingest.lines.chunk import LINE_BYTES_MAX

BLOCK_BYTES = 4 << 20
BLOCK_LINES = 1 << 16
"""A block of empty lines would else hold millions, each with its row."""
UNPACKED_RATIO_MAX = 200
"""Request logs are packed to a 20th or 40th, by nothing known to a 200th."""
UNPACKED_FREE_BYTES = 256 << 20
"""So much is read of every file before its ratio is looked at."""
LINE_BYTES_COUNTED = 128
"""So much a line that is not empty counts at least: reading one costs time however short it is."""
_NEWLINE, _RETURN = b"\n\r"
_PIECE_BYTES = 1 << 20


class TruncatedFileError(Exception):
    """A compressed file ended early; every whole line before that point was yielded."""


def line_blocks(
    path: Path, block_bytes: int = BLOCK_BYTES, ratio_max: int = UNPACKED_RATIO_MAX
) -> Iterator[bytes]:
    """Yield blocks of whole lines; the last one may lack its final newline.

    Of a line of more than LINE_BYTES_MAX bytes one byte more than that is yielded, and its newline.
    Raises TruncatedFileError after the last readable line of a broken compressed file, and
    BadInputError where the file is gone, is no file, may not be read, or unpacks to more than
    ``ratio_max`` times its size.
    """
    rest = b""
    failure: Exception | None = None
    with open_regular(path) as raw:
        stream = open_packed(raw, path.suffix)
        unpacked, ended = 0, False
        while not ended:
            block, failure, ended = read_block(stream, block_bytes)
            unpacked += _bytes_counted(block)
            _check_ratio(path, raw, unpacked, ratio_max)
            if len(rest) > LINE_BYTES_MAX:  # the begin of a line of which enough is kept
                end = block.find(b"\n")
                block = b"" if end < 0 else block[end:]
            block = rest + block
            cut = block.rfind(b"\n") + 1
            rest = block[cut : cut + LINE_BYTES_MAX + 1]
            yield from _pieces(block[:cut])
    if rest:
        yield rest
    if failure is not None:
        raise TruncatedFileError(str(failure) or type(failure).__name__)


def log_lines(path: Path, ratio_max: int = UNPACKED_RATIO_MAX) -> Iterator[bytes]:
    """Yield each line without its line end; raises as :func:`line_blocks`."""
    for block in line_blocks(path, ratio_max=ratio_max):
        yield from lines_of(block)


def lines_of(block: bytes) -> list[bytes]:
    """Return the lines of a block without their line ends; the last one may lack it."""
    lines = block.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _pieces(block: bytes) -> Iterator[bytes]:
    """Yield ``block`` in pieces of whole lines and no more than BLOCK_LINES of them."""
    # A third of the time of bytes.count.
    if np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE) <= BLOCK_LINES:
        if block:
            yield block
        return
    begin = 0
    while begin < len(block):
        cut = block.rfind(b"\n", begin, begin + BLOCK_LINES) + 1
        cut = cut or block.index(b"\n", begin) + 1
        yield block[begin:cut]
        begin = cut


def _bytes_counted(block: bytes) -> int:
    """Return the size of a block whose lines, unless empty, count as LINE_BYTES_COUNTED each."""
    data = np.frombuffer(block, np.uint8)
    # Piece by piece: a packed block may be large, and what is found of each byte is as large.
    return sum(_of_piece(data[at : at + _PIECE_BYTES]) for at in range(0, len(data), _PIECE_BYTES))


def _of_piece(data: npt.NDArray[np.uint8]) -> int:
    is_end = data == _NEWLINE
    if np.count_nonzero(is_end) * LINE_BYTES_COUNTED <= len(data):
        return len(data)
    is_return = data == _RETURN
    is_empty = is_end[1:] & is_end[:-1]
    is_empty[1:] |= is_end[2:] & is_return[1:-1] & is_end[:-2]
    lines = np.count_nonzero(is_end) - np.count_nonzero(is_empty)
    return max(len(data), int(lines) * LINE_BYTES_COUNTED)


def _check_ratio(path: Path, raw: BinaryIO, unpacked: int, ratio_max: int) -> None:
    packed = raw.tell()
    if unpacked > UNPACKED_FREE_BYTES and unpacked > ratio_max * packed:
        raise BadInputError(
            f"{path} unpacks to more than {unpacked:,} bytes from its first {packed:,} (a line "
            f"counts as {LINE_BYTES_COUNTED} or more): "
            f"{unpacked // max(packed, 1):,} times as many, and request logs have 20 to 40 times. "
            f"Above {ratio_max:,} times it is not read. Take the file out of the archive, or, if "
            "it is a log, set QUOTA_AUDIT_INGEST_UNPACKED_RATIO_MAX."
        )


def read_block(stream: ByteSource, block_bytes: int) -> tuple[bytes, Exception | None, bool]:
    """Return the next bytes, the error that ended the reading, and True if the file ended."""
    pieces: list[bytes] = []
    size = 0
    try:
        while size < block_bytes:
            # read() of a broken file would lose all of the block before the broken place.
            piece = stream.read1(block_bytes - size)
            if not piece:
                return b"".join(pieces), None, True
            pieces.append(piece)
            size += len(piece)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        return b"".join(pieces), error, True
    return b"".join(pieces), None, False
