"""What a day hands on to the next, as one digest."""

from __future__ import annotations

import io
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.replay.day_edges import handed_on, is_read_again, open_requests
from spark_jobs.replay.mutations_of_day import open_mutations
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

_AT_THE_END = (
    "sensor_epoch", "sensor_seq", "sample_index", "samples", "tokens", "last_update_ms",
    "intervals",
)  # fmt: skip
# Not the file and line, which are others when a file was rotated.
_RESUMED = ("at_ms", "sensor_epoch", "sensor_seq", "sample_index", "samples", "bucket")
# Numbers only, which tell requests apart.
_READ_AGAIN = (
    "recorded_estimate_us", "correlation_id", "api_key", "throttle_time_ms", "request_bytes",
    "response_bytes",
)  # fmt: skip
_OF_MUTATIONS = (
    "recorded_estimate_us", "correlation_id", "broker_id", "recorded_earliest_ms",
    "recorded_latest_ms", "throttle_time_ms", "mutations",
)  # fmt: skip


def state_digest(scope: RunScope) -> str:
    """Return a digest of the states and partitions, whatever order they were written in.

    Requests that the states lack, and the next day's replay reads, are part of it.
    """
    total = xxhash.xxh3_128()
    requests = ((rows, _READ_AGAIN) for rows in open_requests(scope, _READ_AGAIN))
    states = (_states(scope), SENSOR_COLUMNS), (_inventory(scope), ("topic",))
    for rows, order in chain(states, _mutations(scope), requests):
        in_order = rows.sort_by([(name, "ascending") for name in order])
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(in_order.combine_chunks())
        total.update(sink.getbuffer())
    return total.hexdigest()


def _inventory(scope: RunScope) -> pa.Table:
    column = "partitions_handed_on" if is_read_again(scope) else "partitions"
    return read_table(scope, "topic_inventory", ["topic", column])


def _mutations(scope: RunScope) -> list[tuple[pa.Table, tuple[str, ...]]]:
    """Return the mutations to be read again, and their order."""
    if not is_read_again(scope):
        return []
    rows = open_mutations(scope, handed_on(scope)).select(list(_OF_MUTATIONS))
    return [(rows, _OF_MUTATIONS[:-1])]


def _states(scope: RunScope) -> pa.Table:
    """Return the sensors as they are handed on: those at the end only where nothing else is."""
    rows = read_table(scope, "quota_state").combine_chunks()
    resumed = rows["resumes_from"].combine_chunks()
    columns = {name: rows[name] for name in SENSOR_COLUMNS}
    columns |= {f"resumed_{name}": pc.struct_field(resumed, name) for name in _RESUMED}
    is_ended = resumed.is_null()
    for name in _AT_THE_END:
        whole = rows[name].combine_chunks()
        columns[name] = pc.if_else(is_ended, whole, pa.scalar(None, whole.type))
    return pa.table(columns)
