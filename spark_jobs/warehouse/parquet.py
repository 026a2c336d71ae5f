"""Parquet files in folders and buckets: opened, and what each says of who wrote it.

It is which version of a table's schema its rows have, and which version of this program wrote
them. A run's file says it of each of its tables, so that nobody has to open them; a Parquet file
says it too, for files that are on their own. Files that say nothing have schema version 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from spark_jobs.errors import WHAT_OF_DAMAGE, BadInputError
from spark_jobs.version import VERSION
from spark_jobs.warehouse.storage import is_in_bucket, is_irregular, storage_path
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS

SCHEMA_KEY, PROGRAM_KEY = "quota-audit.schema", "quota-audit.version"
# Spark writes no keys of ours; what columns carry is part of this one.
_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"


# Pages of files of earlier versions have no checksum: they are read as they are.
_VERIFIED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def on_arrow(path: Path) -> tuple[str | Path, pafs.FileSystem | None]:
    """Return ``path`` as Arrow takes it, and its file system (None: the machine's)."""
    if not is_in_bucket(path):
        return path, None
    of_bucket = cast(Any, path)
    return of_bucket.path, of_bucket.fs.fs


def parquet_file(path: str | Path, **options: Any) -> pq.ParquetFile:
    """Return an opened Parquet file; of a bucket, what is near in it is read by one request.

    Raises BadInputError where it is none, or not all of one.
    """
    found = storage_path(path)
    source, filesystem = on_arrow(found)
    of_bucket = {} if filesystem is None else {"filesystem": filesystem, "pre_buffer": True}
    if is_irregular(found):
        raise BadInputError(f"{path} is damaged: it is no regular file. {WHAT_OF_DAMAGE}")
    try:
        return pq.ParquetFile(source, page_checksum_verification=True, **of_bucket, **options)
    except pa.ArrowInvalid as error:
        raise BadInputError(f"{path} is damaged: {error} {WHAT_OF_DAMAGE}") from error


def parquet_dataset(folder: Path, schema: pa.Schema | None = None) -> ds.Dataset:
    """Return the rows of a folder's files, of all of them; None: with the first file's schema."""
    source, filesystem = on_arrow(folder)
    return ds.dataset(
        source, schema=schema, format=_VERIFIED, filesystem=filesystem, exclude_invalid_files=False
    )


@contextmanager
def damage_told(what: str) -> Iterator[None]:
    """Raise BadInputError, which names ``what``, where rows that are read in it are damaged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BadInputError(f"{what} is damaged: {error} {WHAT_OF_DAMAGE}") from error


def write_parquet(rows: pa.Table, table: str, path: Path, rows_in_group: int | None = None) -> None:
    """Write a file of ``table`` with row groups of ``rows_in_group`` (None: Arrow's default)."""
    file, filesystem = on_arrow(path)
    pq.write_table(
        stamped(rows, table),
        file,
        compression="zstd",
        row_group_size=rows_in_group,
        write_page_checksum=True,
        filesystem=filesystem,
    )


def parquet_writer(path: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Return an opened Parquet file to be written; of a bucket it is there when it is closed."""
    source, filesystem = on_arrow(path)
    return pq.ParquetWriter(
        source, schema, filesystem=filesystem, write_page_checksum=True, **options
    )


@dataclass(frozen=True, slots=True)
class MadeBy:
    """``schema``: version of the table's schema; ``program``: None where nobody has said."""

    schema: int = 1
    program: str | None = None


def made_by_now(table: str) -> MadeBy:
    """Return the version of ``table`` that is written now, by this program."""
    return MadeBy(SCHEMA_VERSIONS[table], VERSION)


def file_keys(table: str) -> dict[str, str]:
    """Return the keys of a Parquet file of ``table`` written now."""
    now = made_by_now(table)
    return {SCHEMA_KEY: str(now.schema), PROGRAM_KEY: VERSION}


def stamped(rows: pa.Table, table: str) -> pa.Table:
    """Return ``rows`` with :func:`file_keys`, which ``pq.write_table`` writes."""
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **file_keys(table)})


def made_by_of_file(footer: pq.FileMetaData) -> MadeBy:
    """Return the version and program that a Parquet file's footer gives."""
    keys = footer.metadata or {}
    if (said := keys.get(SCHEMA_KEY.encode())) is not None:
        program = keys.get(PROGRAM_KEY.encode())
        return MadeBy(int(said), program.decode() if program else None)
    for column in json.loads(keys.get(_SPARK_KEY, b"{}")).get("fields", ()):
        carried = column["metadata"]
        if SCHEMA_KEY in carried:
            return MadeBy(int(carried[SCHEMA_KEY]), carried.get(PROGRAM_KEY))
    return MadeBy()


def other_version(what: str, made: MadeBy, expected: int, warehouse: str = "WAREHOUSE") -> str:
    """Return the sentence and remedy for a table or file with another version of its schema."""
    by = f"quota-audit {made.program}" if made.program else "a version that left no note of itself"
    remedy = (
        f"run 'quota-audit migrate {warehouse}', or audit the day again"
        if made.schema < expected
        else "upgrade this program, or audit the day again with this one"
    )
    return (
        f"{what} has version {made.schema} of its schema, written by {by}; quota-audit {VERSION} "
        f"reads version {expected}: {remedy}."
    )


def check_file(footer: pq.FileMetaData, table: str, path: Path) -> None:
    """Raise BadInputError where a Parquet file of ``table`` has another version of its schema."""
    made, expected = made_by_of_file(footer), SCHEMA_VERSIONS[table]
    if made.schema != expected:
        raise BadInputError(other_version(str(path), made, expected))
