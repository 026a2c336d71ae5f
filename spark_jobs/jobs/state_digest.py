"""What a day hands on to the next, as one digest."""

from __future__ import annotations

import io

import pyarrow as pa
import xxhash

from spark_jobs.tables import TABLES
from spark_jobs.warehouse import RunScope, read_table

_ORDER = {
    "quota_state": ("broker_id", "quota_type", "quota_user", "quota_client_id", "sensor_epoch"),
    "topic_inventory": ("topic",),
}


def state_digest(scope: RunScope) -> str:
    """Return the same for the same states and partitions, in whatever order they were written."""
    total = xxhash.xxh3_128()
    for table, order in _ORDER.items():
        rows = read_table(scope, table).sort_by([(name, "ascending") for name in order])
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, TABLES[table]) as writer:
            writer.write_table(rows.combine_chunks())
        total.update(sink.getbuffer())
    return total.hexdigest()
