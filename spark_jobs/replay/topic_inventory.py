"""The partitions of topics from day to day (table ``topic_inventory``)."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TOPIC_INVENTORY
from spark_jobs.warehouse.write import write_table

_AT_THE_END, _HANDED_ON = "partitions", "partitions_handed_on"


def read_inventory(scope: RunScope) -> PartitionInventory:
    """Return the partitions per topic as known at the end of a day."""
    return _read(scope, _AT_THE_END)


def handed_on_inventory(scope: RunScope) -> PartitionInventory:
    """Return the partitions per topic before the first line that the next replay reads again."""
    return _read(scope, _HANDED_ON)


def _read(scope: RunScope, column: str) -> PartitionInventory:
    rows = read_table(scope, "topic_inventory", ["topic", column]).to_pylist()
    return PartitionInventory({r["topic"]: r[column] for r in rows if r[column] is not None})


def write_inventory(
    scope: RunScope, at_the_end: PartitionInventory, handed_on: PartitionInventory
) -> None:
    """Write the table of a day."""
    rows = [
        {
            "topic": topic,
            _AT_THE_END: at_the_end.partitions.get(topic),
            _HANDED_ON: handed_on.partitions.get(topic),
        }
        for topic in sorted(at_the_end.partitions | handed_on.partitions)
    ]
    write_table(pa.Table.from_pylist(rows, schema=TOPIC_INVENTORY), "topic_inventory", scope)
