"""The ordinary lines of a block, read in one pass, as Arrow columns of ``tables.REQUESTS``.

Ordinary is what :mod:`line_kernel` reads, at a minute that clocks showed
once, of a broker that is known. The rest is left to the reader of single lines, in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.ingest.fast_lines import line_layout as at
from spark_jobs.ingest.fast_lines.line_kernel import Int32s, LineColumns, gather, read_lines
from spark_jobs.ingest.fast_lines.line_scan import ABSENT, Bytes, Int64s
from spark_jobs.ingest.fast_lines.line_tables import line_tables
from spark_jobs.ingest.fast_lines.line_walk import NO_TEXT
from spark_jobs.ingest.lines.line_time import LineClock
from spark_jobs.ingest.lines.record_time import (
    BY_REMOTE_TIME,
    Int8s,
    ReplicaWaits,
    WaitingProduces,
    recorded_intervals,
)
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
    # The larger of both, as ``api_fields`` says; ABSENT is less than all.
    own_ms = number(at.THROTTLE_US) // 1000
    plain["throttle_time_ms"] = np.maximum(own_ms, number(at.RESPONSE_THROTTLE_MS))
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


_ALL_REPLICAS = -1
_ITEM_BYTES_MIN = 8
"""A topic and an error code take more of their line than that."""
_LINE_END = ord("\n")
_SLOTS = 1 << 15


@dataclass(frozen=True, slots=True)
class OrdinaryLines:
    """The rows read of a block, in the order of its lines, and the lines that were not read.

    ``starts`` says where each line begins, and at last where the block ends.
    """

    starts: Int64s
    left_lines: Int64s
    log_time_ms: Int64s
    produces: WaitingProduces
    _numbers: Int64s
    _broker_ids: Int32s
    _columns: LineColumns
    _texts: pa.StringArray
    _data: bytes

    @property
    def lines(self) -> Int64s:
        """Return the number of each row's line, counted from 0."""
        return self._numbers[:, at.LINE]

    def of_api(self, api_key: int) -> list[tuple[int, bytes]]:
        """Return broker and text of each line with a request of this key."""
        rows = np.flatnonzero(self._numbers[:, at.API_KEY] == api_key)
        begins, ends = (self.starts[self.lines[rows] + after].tolist() for after in (0, 1))
        spans = zip(self._broker_ids[rows].tolist(), begins, ends, strict=True)
        return [(broker_id, self._data[begin:end]) for broker_id, begin, end in spans]

    def batch(self, source_file: str, first_line: int) -> pa.RecordBatch:
        """Return the rows, once ``produces`` has been learned from."""
        numbers, texts, found = self._numbers, self._texts, self._columns
        rows = len(numbers)
        columns = {
            **from_numbers(numbers, self.log_time_ms, self.produces.waited),
            **from_texts(texts, found.texts[:rows]),
            **from_messages(numbers, texts, found.topic_texts, found.topic_bytes, found.errors),
            "log_time_ms": array(self.log_time_ms, pa.int64()),
            "broker_id": array(self._broker_ids, pa.int32()),
            "source_file": pa.repeat(source_file, rows),
            "source_line": array(self.lines + first_line, pa.int64()),
        }
        return pa.RecordBatch.from_arrays([columns[f.name] for f in REQUESTS], schema=REQUESTS)


def read_ordinary(
    data: bytes,
    broker_id: int | None,
    listener_brokers: Mapping[str, int],
    clock: LineClock,
    waits: ReplicaWaits,
) -> OrdinaryLines | None:
    """Return the ordinary lines of ``data``, which ends with a line end.

    None where a minute is no plain one or a broker is not known: then every line is one for the
    reader of single lines. Neither ``clock`` nor ``waits`` has learned from a line yet.
    """
    block = np.frombuffer(data, np.uint8)
    columns = _room(block)
    lines, rows, n_texts = read_lines(block, _stops(_is_utf8(data)), line_tables(), columns)
    assert lines == len(columns.is_read), (lines, len(columns.is_read))
    columns.starts[lines] = len(data)
    numbers = np.asfortranarray(columns.numbers[:rows])
    log_time_ms = _times_ms(numbers, clock)
    texts = texts_of(block, columns.spans[:n_texts])
    broker_ids = _broker_ids(broker_id, listener_brokers, texts, columns.texts[:rows])
    if log_time_ms is None or broker_ids is None:
        return None
    ends = numbers[:, at.TOPICS_END]
    is_asked = numbers[:, at.ACKS] == _ALL_REPLICAS
    named = columns.topic_texts[: last(ends)]
    produces = WaitingProduces(
        is_asked,
        numbers[:, at.REMOTE_US],
        _topic_numbers(named, is_asked, ends, texts, waits),
        ends,
        np.full(rows, BY_REMOTE_TIME, np.int8),
    )
    return OrdinaryLines(
        columns.starts,
        np.flatnonzero(~columns.is_read),
        log_time_ms,
        produces,
        numbers,
        broker_ids,
        columns,
        texts,
        data,
    )


def _room(block: Bytes) -> LineColumns:
    lines = int(np.count_nonzero(block == _LINE_END))
    items = len(block) // _ITEM_BYTES_MIN + 1
    return LineColumns(
        starts=np.empty(lines + 1, np.int64),
        is_read=np.zeros(lines, np.bool_),
        numbers=np.empty((lines, at.NUMBERS), np.int64),
        texts=np.empty((lines, at.TEXTS), np.int32),
        topic_texts=np.empty(items, np.int32),
        topic_bytes=np.empty(items, np.int64),
        errors=np.empty(items, np.int16),
        spans=np.empty((lines * at.TEXTS + items, 2), np.int64),
        slots=np.full(_SLOTS, NO_TEXT, np.int32),
    )


@cache
def _stops(is_utf8: bool) -> Bytes:
    """Return 256 flags: 1 for a byte that ends a plain string, or may: the marker has a blank."""
    stops = np.zeros(256, np.uint8)
    stops[:0x21] = stops[[ord('"'), ord("\\")]] = 1
    if not is_utf8:
        stops[0x80:] = 1
    return stops


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _times_ms(numbers: Int64s, clock: LineClock) -> Int64s | None:
    minutes = numbers[:, at.MINUTE]
    begins = np.flatnonzero(np.diff(minutes, prepend=-1))
    moments = [clock.plain_minute_ms(minute) for minute in minutes[begins].tolist()]
    if None in moments:
        return None
    runs = np.diff(begins, append=len(minutes))
    found: Int64s = np.repeat(np.array(moments, np.int64), runs) + numbers[:, at.WITHIN_MS]
    return found


def _broker_ids(
    broker_id: int | None,
    listener_brokers: Mapping[str, int],
    texts: pa.StringArray,
    columns: Int32s,
) -> Int32s | None:
    if broker_id is not None:
        return np.full(len(columns), broker_id, np.int32)
    connections, rows = np.unique(columns[:, at.CONNECTION], return_inverse=True)
    addresses = [
        c.partition("-")[0] for c in texts.take(array(connections, pa.int32())).to_pylist()
    ]
    if not listener_brokers.keys() >= set(addresses):
        return None
    known: Int32s = np.array([listener_brokers[a] for a in addresses], np.int32)[rows]
    return known


def _topic_numbers(
    named: Int32s,
    is_asked: Bools,
    ends: Int64s,
    texts: pa.StringArray,
    waits: ReplicaWaits,
) -> Int64s:
    """Return the number in ``waits`` of each topic of an acks=-1 produce, -1 for any other."""
    found = np.full(len(named), NO_TEXT, np.int64)
    asked = np.repeat(is_asked, np.diff(ends, prepend=0)) & (named != NO_TEXT)
    known = np.zeros(len(texts), np.int64)
    used = np.zeros(len(texts), np.bool_)
    used[named[asked]] = True
    numbers = np.flatnonzero(used)
    known[numbers] = [waits.number(t) for t in texts.take(array(numbers, pa.int64())).to_pylist()]
    found[asked] = known[named[asked]]
    return found
