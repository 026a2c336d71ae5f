"""Places as Arrow takes them: reading and writing Parquet in folders and in buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from spark_jobs.places import is_in_bucket, place


def on_arrow(path: Path) -> tuple[str | Path, pafs.FileSystem | None]:
    """Return ``path`` as Arrow is told of it, and of which file system."""
    if not is_in_bucket(path):
        return path, None
    of_bucket = cast(Any, path)
    return of_bucket.path, of_bucket.fs.fs


def parquet_file(path: str | Path, **options: Any) -> pq.ParquetFile:
    """Return an opened Parquet file; of a bucket, what is near in it is read by one request."""
    found = place(path)
    source, filesystem = on_arrow(found)
    if filesystem is None:
        return pq.ParquetFile(source, **options)
    return pq.ParquetFile(source, filesystem=filesystem, pre_buffer=True, **options)


def parquet_writer(path: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Return an opened Parquet file to be written; of a bucket it is there when it is closed."""
    source, filesystem = on_arrow(path)
    return pq.ParquetWriter(source, schema, filesystem=filesystem, **options)
