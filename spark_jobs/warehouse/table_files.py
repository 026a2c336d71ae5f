"""Tables' rows as Parquet files beside the warehouse, one open file for rows of one kind."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.warehouse.arrow_places import parquet_writer
from spark_jobs.warehouse.made_by import file_keys
from spark_jobs.warehouse.parquet_layout import layout
from spark_jobs.warehouse.publish_table import ROWS_IN_GROUP
from spark_jobs.warehouse.tables import TABLES

# What readers of few rows look for.
SEARCHED_BY = (
    "broker_id", "quota_type", "quota_user", "quota_client_id", "recorded_at_ms", "log_time_ms",
    "second_ms", "verdict", "reason", "logged_throttle_time_ms",
)  # fmt: skip


class TableFiles:
    """Files of one worker; their names are no other attempt's."""

    def __init__(self, folder: Path) -> None:
        """Stage under ``folder``, a folder for each table."""
        self._folder = folder
        self._writers: dict[tuple[str, str], tuple[Path, pq.ParquetWriter]] = {}

    def add(self, table: str, rows: pa.Table, kind: str = "") -> None:
        """Write rows as row groups of their own, to the table's file of this kind of rows."""
        if not len(rows):
            return
        if (table, kind) not in self._writers:
            path = self._folder / table / f"part-{uuid.uuid4().hex}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = parquet_writer(path, rows.schema, **layout(rows.schema, SEARCHED_BY))
            if table in TABLES:  # else an intermediate result
                writer.add_key_value_metadata(file_keys(table))
            self._writers[table, kind] = path, writer
        self._writers[table, kind][1].write_table(rows, row_group_size=ROWS_IN_GROUP)

    def close(self) -> list[str]:
        """Return the finished files."""
        for _, writer in self._writers.values():
            writer.close()
        return [str(path) for path, _ in self._writers.values()]

    def discard(self) -> None:
        """Leave nothing behind."""
        for path, writer in self._writers.values():
            writer.close()
            path.unlink(missing_ok=True)
