"""Writing a worker's rows as Parquet files beside the warehouse, a file for each table and day."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.jobs.file_report import Part
from spark_jobs.tables import TABLES

ROW_GROUP_ROWS = 65_536
UNDATED = "undated"


def part_folder(folder: Path, table: str, day: int | None) -> Path:
    """Return where the files of a table and UTC day number are staged."""
    return folder / table / (UNDATED if day is None else f"day={day}")


class PartWriter:
    """Collects batches into row groups; the files have names no other task attempt has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[tuple[str, int | None], list[pa.RecordBatch]] = {}
        self._writers: dict[tuple[str, int | None], tuple[Path, pq.ParquetWriter]] = {}
        self._rows: dict[tuple[str, int | None], int] = {}

    def add(self, table: str, day: int | None, rows: pa.RecordBatch) -> None:
        """Take rows of ``table`` that belong to ``day``."""
        key = (table, day)
        batches = self._waiting.setdefault(key, [])
        batches.append(rows)
        self._rows[key] = self._rows.get(key, 0) + len(rows)
        if sum(map(len, batches)) >= ROW_GROUP_ROWS:
            self._flush(key)

    def close(self) -> list[Part]:
        """Write what waits and return the files."""
        for key in self._waiting:
            self._flush(key)
        for _, writer in self._writers.values():
            writer.close()
        return [
            Part(table, day, str(path), self._rows[table, day])
            for (table, day), (path, _) in self._writers.items()
        ]

    def _flush(self, key: tuple[str, int | None]) -> None:
        batches = self._waiting[key]
        if not batches:
            return
        schema = TABLES[key[0]]
        if key not in self._writers:
            folder = part_folder(self._folder, *key)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"part-{uuid.uuid4().hex}.parquet"
            self._writers[key] = path, pq.ParquetWriter(path, schema, compression="zstd")
        self._writers[key][1].write_table(pa.Table.from_batches(batches, schema))
        batches.clear()
