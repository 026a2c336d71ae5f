"""Writing small tables without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.warehouse.parquet import on_arrow, stamped
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import remove_folder
from spark_jobs.warehouse.table_versions import new_version, take_version
from spark_jobs.warehouse.tables import TABLES


def write_local(rows: pa.Table, table: str, scope: RunScope) -> None:
    """Replace this scope's partition of ``table`` by ``rows``; no rows leave an empty partition.

    The new files are complete beside the old ones before they take their place, so a reader sees
    the old partition or the new one.
    """
    write_local_parts([(rows, None)], table, scope)


def write_local_parts(
    parts: Sequence[tuple[pa.Table, int | None]], table: str, scope: RunScope
) -> None:
    """Replace this scope's partition of ``table`` by a file for each of ``parts``.

    A part is rows and the most of them that a row group has (None: Arrow's default), which is the
    least that a reader of few has to read.
    """
    contracts = [(rows.cast(TABLES[table]), in_group) for rows, in_group in parts]
    folder = new_version(table, scope)
    folder.mkdir(parents=True)
    try:
        for number, (rows, in_group) in enumerate(contracts):
            file, filesystem = on_arrow(folder / f"part-{number}.parquet")
            pq.write_table(
                stamped(rows, table),
                file,
                compression="zstd",
                row_group_size=in_group,
                filesystem=filesystem,
            )
        take_version(folder, table, scope)
    except BaseException:
        remove_folder(folder)
        raise
