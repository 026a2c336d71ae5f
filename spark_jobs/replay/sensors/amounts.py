"""The amounts of mutations as a table, and arrays as columns of Arrow and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.warehouse.tables import BOOL, F64, I8, I16, I32, I64, STR

AMOUNTS = pa.schema(
    [
        ("broker_id", I32),
        ("quota_type", STR),
        ("quota_user", STR),
        ("quota_client_id", STR),
        ("order_us", I64),
        ("source_file", STR),
        ("source_line", I64),
        ("resource_index", I32),
        ("resource", STR),
        ("connection", STR),
        ("correlation_id", I32),
        ("api_name", STR),
        ("api_version", I16),
        ("user", STR),
        ("client_id", STR),
        ("quota_level", STR),
        ("log_time_ms", I64),
        ("recorded_at_ms", I64),
        ("earliest_ms", I64),  # the request's admissible record times
        ("latest_ms", I64),
        # Its topics are recorded in one go, and no other request's between them.
        ("is_atomic", BOOL),
        # Requests that overlap it may have been recorded before or after it, and it matters.
        ("is_order_open", BOOL),
        ("restart_ms", I64),  # the start of the broker's epoch the row is of, 0: not known
        ("amount", F64),
        ("is_strict", BOOL),
        ("bound", F64),
        ("bound_until", F64),  # until its quota was changed last
        ("has_joined", BOOL),  # that change sent its client's mutations here from another sensor
        ("bound_left", F64),  # the quota there
        ("known_for_ms", I64),
        ("since_change_ms", I64),  # of its quota, the last one before it
        ("change_distance_ms", I64),  # and from the nearest, before or after it
        ("has_request_bound", BOOL),
        ("logged_throttle_time_ms", I32),
        ("logged_admitted", BOOL),
        # When the throttle in the response was computed.
        ("response_earliest_ms", I64),
        ("response_latest_ms", I64),
        # Whether the replayed bucket is the one that decided (kernels.SAME_BUCKET and so on).
        ("bucket_gap", I8),
    ]
)
# Amounts of a sensor are recorded in this order; the rest of the key makes it total.
LINE_ORDER = ("order_us", "source_file", "source_line")
RECORD_ORDER = (*LINE_ORDER, "resource_index")


def table_of(columns: Mapping[str, object], schema: pa.Schema, n: int) -> pa.Table:
    """Return ``n`` rows of ``schema``; columns that are not given are null."""
    arrays = [
        as_column(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def as_column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return ``values`` (an Arrow array or anything ``pa.array`` takes) as an array of ``kind``."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == kind else values.cast(kind)
    return pa.array(values, kind)


def finite(values: np.ndarray) -> pa.Array:
    """Return ``values`` with a null for each NaN or infinity."""
    return pa.array(values, mask=~np.isfinite(values))


def bools(column: pa.Array) -> np.ndarray:
    """Return an Arrow column of booleans as an array."""
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


def floats(column: pa.Array) -> np.ndarray:
    """Return an Arrow column of numbers as an array of doubles, nulls as NaN."""
    return np.asarray(pc.cast(column, F64).to_numpy(zero_copy_only=False))


def encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column of text in one piece, as a dictionary and numbers."""
    whole = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def connections_in_turn(connection: np.ndarray, source_line: np.ndarray) -> np.ndarray:
    """Return the connections of rows, with a number of its own, below 0, for each out of turn.

    Its line stands before that of the row before it: the estimates of what one connection sent
    within a millisecond may be the other way round, and then they tell no order.

    >>> connections_in_turn(np.array([4, 4, 7, 4]), np.array([1, 3, 1, 2]))
    array([ 4,  4,  7, -4])
    """
    own = np.argsort(connection, kind="stable")
    connection, source_line = connection[own].astype(np.int64), source_line[own]
    is_before = np.diff(source_line, prepend=source_line[:1]) < 0
    is_before &= np.append(False, connection[1:] == connection[:-1])[: len(own)]
    in_turn = np.empty(len(own), np.int64)
    in_turn[own] = np.where(is_before, -1 - own, connection)
    return in_turn


def is_any_of(column: pa.ChunkedArray, names: Collection[str]) -> np.ndarray:
    """Return True for each value of a column of text that is one of ``names``."""
    coded = encoded(column)
    is_one = np.array([name in names for name in coded.dictionary.to_pylist()], bool)
    return is_one[coded.indices.to_numpy()] if len(is_one) else np.zeros(len(coded), bool)
