"""What a run records of each file of its tables, and how the files differ from that.

The checksums of pages tell of damaged rows; what is recorded tells of a file that is missing, cut,
added, or damaged outside of its pages, as in the footer that says where and what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import xxhash

from spark_jobs.warehouse.parquet import on_arrow
from spark_jobs.warehouse.storage import is_in_bucket

_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # the length of the footer, and the magic
_BLOCK_BYTES = 1 << 20
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file as it was written; ``footer`` and ``digest`` (of all of it) are XXH3 in hex.

    ``digest`` is None in a bucket, whose service verifies its objects itself.
    """

    rows: int
    bytes: int
    footer: str
    digest: str | None


class Difference(StrEnum):
    """How a file is not as its run recorded it."""

    MISSING = "missing_file"
    CHANGED = "changed_file"
    UNKNOWN = "unknown_file"


HOW_DIFFERENT = {
    Difference.MISSING: "is missing",
    Difference.CHANGED: "is not as it was written",
    Difference.UNKNOWN: "was added",
}


def recorded_files(folder: Path) -> dict[str, RecordedFile]:
    """Return the record of each Parquet file of a version, by name below ``folder``."""
    sizes = _sizes(folder)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda name: _record(folder / name, sizes[name]), sizes)
        return dict(zip(sizes, found, strict=True))


def differences(
    folder: Path, recorded: Mapping[str, RecordedFile], *, reads_all: bool = False
) -> Iterator[tuple[str, Difference]]:
    """Yield the names of files below ``folder`` that are not as ``recorded``, and how.

    Names and sizes are compared, and the footers of a file system. ``reads_all``: all that is
    recorded is compared, so every byte of the files is read.
    """
    there = _sizes(folder)
    for name in sorted(recorded.keys() | there):
        if name not in there:
            yield name, Difference.MISSING
        elif name not in recorded:
            yield name, Difference.UNKNOWN
        elif not _is_same(folder / name, there[name], recorded[name], reads_all=reads_all):
            yield name, Difference.CHANGED


def _is_same(path: Path, size: int, recorded: RecordedFile, *, reads_all: bool) -> bool:
    if size != recorded.bytes:
        return False
    if is_in_bucket(path) and not reads_all:
        return True
    if xxhash.xxh3_64_hexdigest(_footer(path, size)) != recorded.footer:
        return False
    return not reads_all or recorded.digest in (None, _digest(path))


def _sizes(folder: Path) -> dict[str, int]:
    """Return the size of each Parquet file below ``folder``, by one request of a bucket."""
    source, of_bucket = on_arrow(folder)
    files = of_bucket or pafs.LocalFileSystem()
    chosen = pafs.FileSelector(str(source), recursive=True, allow_not_found=True)
    below = len(str(source).rstrip("/")) + 1
    return {
        one.path[below:]: one.size
        for one in files.get_file_info(chosen)
        if one.type is pafs.FileType.File and one.extension == "parquet"
    }


def _record(path: Path, size: int) -> RecordedFile:
    footer = _footer(path, size)
    # What is before the footer is not needed to read it.
    rows = pq.read_metadata(pa.BufferReader(_MAGIC + footer)).num_rows
    digest = None if is_in_bucket(path) else _digest(path)
    return RecordedFile(rows, size, xxhash.xxh3_64_hexdigest(footer), digest)


def _footer(path: Path, size: int) -> bytes:
    """Return a Parquet file's footer with its length and magic, less where it is cut."""
    with path.open("rb") as file:
        file.seek(max(size - _TAIL_BYTES, 0))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little") + _TAIL_BYTES
        file.seek(max(size - length, 0))
        return file.read()


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
