"""What makes rows of an older schema version rows of the next: values that mean "not known".

A migration computes nothing that only the logs can tell; who has them may audit the day again.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from spark_jobs.upkeep.columns import with_columns_of
from spark_jobs.warehouse.tables import FILES, QUOTA_STATE, SCHEMA_VERSIONS, TOPIC_INVENTORY

Migration = Callable[[pa.Table], pa.Table]


def _files_2(rows: pa.Table) -> pa.Table:
    """``modified_ns``, ``day_digest``, ``days``: null, so `due` looks at the file again."""
    return with_columns_of(rows, FILES)


def _quota_state_2(rows: pa.Table) -> pa.Table:
    """``resumes_from``: null, the next day begins with the sensor as it was at the day's end.

    Also where it lacks ``bucket``, which bandwidth quotas have not; ``intervals``: null, nothing
    is known of what a request quota's samples hold.
    """
    return with_columns_of(rows, QUOTA_STATE)


def _topic_inventory_2(rows: pa.Table) -> pa.Table:
    """``partitions_handed_on``: those at the day's end, which is what an older version handed on.

    Mutations of the last hour are read again: each sets what it says, so their end is the same.
    """
    handed_on = "partitions_handed_on"
    if handed_on not in rows.schema.names:
        rows = rows.append_column(handed_on, rows["partitions"])
    return with_columns_of(rows, TOPIC_INVENTORY)


MIGRATIONS: dict[tuple[str, int], Migration] = {
    ("files", 1): _files_2,
    ("quota_state", 1): _quota_state_2,
    ("topic_inventory", 1): _topic_inventory_2,
}
"""By table and the version that it makes the next of."""


def migrated(rows: pa.Table, table: str, version: int) -> pa.Table:
    """Return ``rows`` of ``table`` in this ``version`` of its schema as rows of the current one.

    Raises BadInputError where they are older than can be migrated.
    """
    for older in range(version, SCHEMA_VERSIONS[table]):
        rows = MIGRATIONS[table, older](rows)
    return rows
