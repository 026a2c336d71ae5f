"""A file of an archive, which somebody else owns: opened, unpacked or packed, its text read."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import is_in_bucket, said_of_storage

TEXT_BYTES_MAX = 64 << 20


# The most that zstd makes of a few bytes is a block of 128 kB, so this is unpacked to 32 MB.
_ZSTD_PIECE_BYTES = 1 << 10
# Each is a request.
_OBJECT_PIECE_BYTES = 8 << 20


# The checksum and length at the end of gzip's member, the checksum at the end of zstd's frame.
_END_BYTES = {".gz": 8, ".zst": 4}


class ByteSource(Protocol):
    """What blocks are read from."""

    def read1(self, size: int, /) -> bytes:
        """Return some bytes, at the end none; raises where they do not unpack."""


def open_regular(path: Path) -> BinaryIO:
    """Return ``path`` opened for reading bytes.

    Raises BadInputError where it is gone, may not be read, or is no regular file: a pipe would
    wait for a writer, a device may never end.
    """
    if is_in_bucket(path):
        return _of_bucket(path)
    try:
        # Opening a pipe without a writer would else wait for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise BadInputError(f"{path} is no regular file. Take it out of the archive.")
    except OSError as error:
        raise BadInputError(_why(path, error)) from error
    return io.BufferedReader(io.FileIO(descriptor))


def _of_bucket(path: Path) -> BinaryIO:
    try:
        return io.BufferedReader(_Object(path), _OBJECT_PIECE_BYTES)
    except OSError as error:
        raise BadInputError(_why(path, error)) from error


def open_packed(raw: BinaryIO, suffix: str) -> ByteSource:
    """Return the bytes of ``raw`` unpacked as its ``suffix`` says (.gz, .zst, else not at all).

    Members or frames one behind the other are read as one.
    """
    if suffix == ".gz":
        return cast(ByteSource, gzip.GzipFile(fileobj=raw, mode="rb"))
    if suffix == ".zst":
        return _ZstdFrames(raw)
    return cast(ByteSource, raw)


def _why(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ESTALE):
        return (
            f"{path} is gone: it was rotated or removed after the archive was listed. Copy files "
            "into the archive when they are closed, and run again."
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{path} may not be read by this user ({error.strerror}). Correct its permissions."
    return f"{path} cannot be opened: {_reason(error)}"


def _reason(error: OSError) -> str:
    return f"{error.strerror}." if error.strerror else said_of_storage(error) or f"{error}."


class _Object(io.RawIOBase):
    """An object of a bucket, of which a part that cannot be had is no end of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = path.open("rb")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``; BadInputError, which nobody takes for a broken file, where that fails.

        An OSError would be read as the end of a damaged log.
        """
        try:
            return cast(Any, self._opened).readinto(buffer) or 0
        except OSError as error:
            raise BadInputError(f"{self._path} was read to a part: {_reason(error)}") from error

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go on reading from there."""
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._opened.tell()

    def close(self) -> None:
        """End the reading."""
        self._opened.close()
        super().close()


class _ZstdFrames:
    """Frames of zstd, one behind the other.

    zstandard's own reader ends without a word where a frame is cut off, and after the first frame.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._unpacker = zstandard.ZstdDecompressor()
        self._frame = self._unpacker.decompressobj()
        self._is_within = False

    def read1(self, _size: int, /) -> bytes:
        """Return the unpacked bytes of the next piece of the file, at the end none.

        Raises EOFError where the file ends within a frame, ZstdError where it is broken or needs
        more than 128 MB to be unpacked.
        """
        while True:
            packed = self._next_piece()
            if not packed:
                if self._is_within:
                    raise EOFError("the last zstd frame is cut off")
                return b""
            self._is_within = True
            unpacked: bytes = self._frame.decompress(packed)
            if unpacked:
                return unpacked

    def _next_piece(self) -> bytes:
        if not self._frame.eof:
            return self._raw.read(_ZSTD_PIECE_BYTES)
        rest: bytes = self._frame.unused_data
        self._frame = self._unpacker.decompressobj()
        self._is_within = False
        return rest or self._raw.read(_ZSTD_PIECE_BYTES)


@contextmanager
def packed_writer(path: Path) -> Iterator[BinaryIO]:
    """Yield a writer of the file ``path``, which packs as the file's suffix says."""
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


def read_small_text(path: Path, errors: str = "strict") -> str:
    """Return the text of ``path``, without a byte order mark; ``errors`` as of bytes.decode.

    Raises BadInputError where it is no regular file, above 64 MB, or no UTF-8.
    """
    with open_regular(path) as file:
        data = file.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise BadInputError(
            f"{path} has more than {TEXT_BYTES_MAX:,} bytes, expected a small text file. Take it "
            "out of the archive, or cut it."
        )
    return text_of(data, path, errors)


def text_of(data: bytes, path: Path, errors: str = "strict") -> str:
    """Return ``data``, read from ``path``, as text; raises BadInputError where it is no UTF-8."""
    try:
        return data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{path} is no UTF-8: found {data[error.start : error.start + 4]!r} at byte "
            f"{error.start}. Save it as UTF-8."
        ) from error
