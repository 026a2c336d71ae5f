"""Writing a file packed as its name says, or cut off as one that was."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

# The checksum and length at the end of gzip's member, the checksum at the end of zstd's frame.
_END_BYTES = {".gz": 8, ".zst": 4}


@contextmanager
def packed_writer(path: Path) -> Iterator[BinaryIO]:
    """Yield what takes the bytes of ``path``, which is packed as its suffix says."""
    with path.open("xb") as raw:
        if path.suffix == ".gz":
            # No name and no time of writing: equal bytes give equal files.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        elif path.suffix == ".zst":
            packer: Any = zstandard.ZstdCompressor(write_checksum=True)
            with packer.stream_writer(raw, closefd=False) as stream:
                yield cast(BinaryIO, stream)
        else:
            yield raw


def cut_off(path: Path) -> None:
    """Cut the end of a packed file, so that all its bytes are read and its end is missed."""
    if path.suffix in _END_BYTES:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - _END_BYTES[path.suffix])
