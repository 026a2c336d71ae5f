"""Arrow columns of ``tables.REQUESTS`` made of the arrays that ordinary lines were read into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.ingest.fast_lines import line_layout as at
from spark_jobs.ingest.fast_lines.line_kernel import Int32s, gather
from spark_jobs.ingest.fast_lines.line_scan import ABSENT, Bytes, Int64s
from spark_jobs.ingest.fast_lines.line_walk import NO_TEXT
from spark_jobs.ingest.lines.record_time import Int8s, recorded_intervals
from spark_jobs.ingest.messages.wire_size import FETCH_APIS, RESPONSE_HEADER_BYTES
from spark_jobs.warehouse.tables import REQUESTS, TOPIC_BYTES

Bools = npt.NDArray[np.bool_]
Columns = dict[str, pa.Array]

_PRODUCE = 0
_TEXT_COLUMNS = {
    "connection": at.CONNECTION,
    "api_name": at.API_NAME,
    "principal": at.PRINCIPAL,
    "user": at.USER,
    "client_id": at.CLIENT_ID,
    "listener": at.LISTENER,
    "software_name": at.SOFTWARE,
    "software_version": at.SOFTWARE_VERSION,
}
_NUMBER_COLUMNS = {
    "correlation_id": at.CORRELATION_ID,
    "api_key": at.API_KEY,
    "api_version": at.API_VERSION,
    "total_time_us": at.TOTAL_US,
    "request_queue_time_us": at.QUEUE_US,
    "handler_time_us": at.HANDLER_US,
    "remote_time_us": at.REMOTE_US,
    "response_queue_time_us": at.RESPONSE_QUEUE_US,
    "send_time_us": at.SEND_US,
}
_NULLABLE_COLUMNS = {
    "acks": at.ACKS,
    "fetch_max_bytes": at.FETCH_MAX_BYTES,
    "request_bytes": at.REQUEST_BYTES,
}


def array(values: npt.NDArray[Any], kind: pa.DataType, is_null: Bools | None = None) -> pa.Array:
    """Return a column of numbers or truths, which nobody looks at one by one."""
    if pa.types.is_boolean(kind):
        held = np.packbits(values, bitorder="little")
    else:
        held = np.ascontiguousarray(values, kind.to_pandas_dtype())
    nulls = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(held)])


def texts_of(block: Bytes, spans: Int64s) -> pa.StringArray:
    """Return the texts between the begins and ends in ``spans``."""
    ends = np.zeros(len(spans) + 1, np.int32)
    held = gather(block, spans, ends)
    return pa.StringArray.from_buffers(len(spans), pa.py_buffer(ends), pa.py_buffer(held))


def from_numbers(numbers: Int64s, log_time_ms: Int64s, waited: Int8s) -> Columns:
    """Return the columns that are numbers; ``numbers`` has a column for each of line_tables'."""
    number: Callable[[int], Int64s] = lambda column: numbers[:, column]  # noqa: E731
    plain = {name: number(column) for name, column in _NUMBER_COLUMNS.items()}
    recorded = ("recorded_earliest_ms", "recorded_latest_ms", "recorded_estimate_us")
    found = recorded_intervals(
        number(at.API_KEY),
        log_time_ms,
        number(at.HANDLER_US),
        number(at.REMOTE_US),
        number(at.RESPONSE_QUEUE_US),
        number(at.SEND_US),
        number(at.ACKS),
        waited,
    )
    plain |= dict(zip(recorded, found, strict=True))
    throttle_ms = number(at.RESPONSE_THROTTLE_MS)
    is_unsaid = throttle_ms == ABSENT
    plain["throttle_time_ms"] = np.where(is_unsaid, number(at.THROTTLE_US) // 1000, throttle_ms)
    is_replica = number(at.REPLICA_ID) >= 0
    truths = {
        "is_forwarded": number(at.IS_FORWARDED) == 1,
        "is_replica": is_replica,
        "request_bytes_known": number(at.REQUEST_BYTES) != ABSENT,
    }
    columns = {name: array(values, _kind(name)) for name, values in (plain | truths).items()}
    for name, column in _NULLABLE_COLUMNS.items():
        columns[name] = array(number(column), _kind(name), number(column) == ABSENT)
    body = number(at.RESPONSE_BYTES)
    is_weighed = (body != ABSENT) & _is_fetch(numbers) & ~is_replica
    columns["response_bytes"] = array(body + RESPONSE_HEADER_BYTES, pa.int64(), ~is_weighed)
    return columns


def from_texts(texts: pa.StringArray, numbers: Int32s) -> Columns:
    """Return the columns that are texts; ``numbers`` says which of ``texts``."""
    return {name: _text(texts, numbers[:, column]) for name, column in _TEXT_COLUMNS.items()}


def from_messages(
    numbers: Int64s,
    texts: pa.StringArray,
    topic_texts: Int32s,
    topic_bytes: Int64s,
    errors: npt.NDArray[np.int16],
) -> Columns:
    """Return the columns that are lists; those of mutations and alterations are null."""
    is_produce, is_fetch = numbers[:, at.API_KEY] == _PRODUCE, _is_fetch(numbers)
    is_answered = numbers[:, at.IS_ANSWERED] == 1
    topic_ends, error_ends = numbers[:, at.TOPICS_END], numbers[:, at.ERRORS_END]
    topics = pa.StructArray.from_arrays(
        [
            _text(texts, topic_texts[: last(topic_ends)]),
            array(topic_bytes[: last(topic_ends)], pa.int64()),
        ],
        fields=list(TOPIC_BYTES),
    )
    codes = array(errors[: last(error_ends)], pa.int16())
    columns = {
        "topics": _lists(topics, topic_ends, is_produce | (is_fetch & is_answered), "topics"),
        "error_codes": _lists(
            codes, error_ends, (is_produce | is_fetch) & is_answered, "error_codes"
        ),
    }
    for name in ("mutations", "validate_only", "quota_alterations"):
        columns[name] = pa.nulls(len(numbers), _kind(name))
    return columns


def last(ends: Int64s) -> int:
    """Return the end of the last row's items, 0 without rows."""
    return int(ends[-1]) if len(ends) else 0


def _kind(column: str) -> pa.DataType:
    return REQUESTS.field(column).type


def _is_fetch(numbers: Int64s) -> Bools:
    is_fetch = np.zeros(len(numbers), np.bool_)
    for api_key in FETCH_APIS:
        is_fetch |= numbers[:, at.API_KEY] == api_key
    return is_fetch


def _text(texts: pa.StringArray, numbers: Int32s) -> pa.Array:
    return texts.take(array(numbers, pa.int32(), numbers == NO_TEXT))


def _lists(values: pa.Array, ends: Int64s, is_there: Bools, column: str) -> pa.ListArray:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    nulls = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    kind, buffers = _kind(column), [nulls, pa.py_buffer(offsets)]
    return pa.ListArray.from_buffers(kind, len(ends), buffers, children=[values])
