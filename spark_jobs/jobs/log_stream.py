"""Reading a log file as blocks of whole lines, through its decompressor."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

BLOCK_BYTES = 4 << 20


class TruncatedFileError(Exception):
    """A compressed file ended early; every whole line before that point was yielded."""


def open_log(path: Path) -> BinaryIO:
    """Return ``path`` opened for reading bytes, decompressed by its suffix (.gz, .zst)."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(BinaryIO, zstandard.open(path, "rb"))
    return path.open("rb")


def line_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield blocks of whole lines; the last one may lack its final newline.

    Raises TruncatedFileError after the last readable line of a broken compressed file.
    """
    rest = b""
    failure: Exception | None = None
    with open_log(path) as stream:
        while failure is None:
            block, failure, ended = _block(stream, block_bytes)
            block = rest + block
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            if cut:
                yield block[:cut]
            if ended:
                break
    if rest:
        yield rest
    if failure is not None:
        raise TruncatedFileError(str(failure) or type(failure).__name__)


def _block(stream: BinaryIO, block_bytes: int) -> tuple[bytes, Exception | None, bool]:
    """Return the next bytes, why no more can be read, and whether the file ended."""
    pieces: list[bytes] = []
    size = 0
    try:
        while size < block_bytes:
            # read() of a broken file would lose all of the block before the broken place.
            piece = stream.read1(block_bytes - size)  # type: ignore[attr-defined]
            if not piece:
                return b"".join(pieces), None, True
            pieces.append(piece)
            size += len(piece)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        return b"".join(pieces), error, True
    return b"".join(pieces), None, False
