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
        while True:
            try:
                block = stream.read(block_bytes)
            except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
                block, failure = b"", error
            if not block:
                break
            block = rest + block
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            if cut:
                yield block[:cut]
    if rest:
        yield rest
    if failure is not None:
        raise TruncatedFileError(str(failure) or type(failure).__name__)
