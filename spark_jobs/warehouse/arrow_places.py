"""Places as Arrow takes them: reading and writing Parquet in folders and in buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from spark_jobs.errors import WHAT_OF_DAMAGE, BadInputError
from spark_jobs.warehouse.storage import is_in_bucket, place


def on_arrow(path: Path) -> tuple[str | Path, pafs.FileSystem | None]:
    """Return ``path`` as Arrow is told of it, and of which file system."""
    if not is_in_bucket(path):
        return path, None
    of_bucket = cast(Any, path)
    return of_bucket.path, of_bucket.fs.fs


def parquet_file(path: str | Path, **options: Any) -> pq.ParquetFile:
    """Return an opened Parquet file; of a bucket, what is near in it is read by one request.

    Raises BadInputError where it is none, or not all of one.
    """
    found = place(path)
    source, filesystem = on_arrow(found)
    of_bucket = {} if filesystem is None else {"filesystem": filesystem, "pre_buffer": True}
    try:
        return pq.ParquetFile(source, **of_bucket, **options)
    except pa.ArrowInvalid as error:
        raise BadInputError(f"{path} is damaged: {error} {WHAT_OF_DAMAGE}") from error


def parquet_writer(path: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Return an opened Parquet file to be written; of a bucket it is there when it is closed."""
    source, filesystem = on_arrow(path)
    return pq.ParquetWriter(source, schema, filesystem=filesystem, **options)
