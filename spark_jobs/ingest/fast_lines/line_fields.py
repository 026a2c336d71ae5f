"""Single fields of a message: their names, values, and what they add to the size on the wire."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.ingest.fast_lines import line_layout as table
from spark_jobs.ingest.fast_lines.line_scan import (
    CLOSE_LIST,
    COMMA,
    FALSE,
    OPEN_LIST,
    QUOTE,
    TRUE,
    Bytes,
    as_int,
    integer,
    is_at,
    microseconds,
    text_end,
    varint_bytes,
)

Fields = npt.NDArray[np.int32]


@njit()
def lacks_one(fields: Fields, field: int, end: int) -> bool:
    """Return True if one of the fields from ``field`` on must be there."""
    while field < end:
        if not fields[field, table.MAY_LACK]:
            return True
        field += 1
    return False


@njit()
def named(data: Bytes, p: int, names: Bytes, fields: Fields, field: int, end: int) -> int:
    """Return the field whose name stands there: ``field``, or a later one if those may lack."""
    while field < end:
        name = as_int(fields[field, table.NAME])
        length = fields[field, table.NAME_END] - name
        i = 0
        while i < length and data[p + i] == names[name + i]:
            i += 1
        if i == length:
            return field
        if not fields[field, table.MAY_LACK]:
            return -1
        field += 1
    return -1


@njit()
def number_at(data: Bytes, p: int, fields: Fields, one: int) -> tuple[int, int]:
    """Return the value of a field that is a number, or a truth as 0 or 1, and its end."""
    kind = fields[one, table.KIND]
    if kind == table.MILLISECONDS:
        return microseconds(data, p)
    if kind == table.BOOLEAN:
        if is_at(data, p, TRUE):
            return 1, p + 4
        return (0, p + 5) if is_at(data, p, FALSE) else (0, -1)
    value, p = integer(data, p)
    unused = 64 - fields[one, table.BITS]
    if p < 0 or value << unused >> unused != value or (kind == table.RECORDS and value < 0):
        return 0, -1
    return value, p


@njit()
def scalars(data: Bytes, p: int, stops: Bytes, fields: Fields, one: int) -> tuple[int, int]:
    """Return the end of an array of numbers or strings, and its size on the wire (bytes)."""
    if data[p] != OPEN_LIST:
        return -1, 0
    p += 1
    count, size = 0, 0
    while data[p] != CLOSE_LIST:
        if count:
            if data[p] != COMMA:
                return -1, 0
            p += 1
        count += 1
        if fields[one, table.KIND] == table.INTEGER:
            _, p = number_at(data, p, fields, one)
            if p < 0:
                return -1, 0
            size += fields[one, table.BYTES]
        else:
            if fields[one, table.KIND] != table.STRING or data[p] != QUOTE:
                return -1, 0
            begin = p + 1
            p = text_end(data, begin, stops)
            if p < 0:
                return -1, 0
            length = p - begin
            size += length + (varint_bytes(length + 1) if fields[one, table.IS_FLEXIBLE] else 2)
            p += 1
    return p + 1, size + prefix_bytes(fields, one, count)


@njit()
def prefix_bytes(fields: Fields, one: int, length: int) -> int:
    """Return the bytes of the length that stands before a value on the wire."""
    if fields[one, table.IS_FLEXIBLE]:
        return varint_bytes(length + 1)
    return as_int(fields[one, table.PREFIX])


@njit()
def text_bytes(fields: Fields, one: int, length: int) -> int:
    """Return the size of a text or id of so many characters."""
    if fields[one, table.KIND] == table.UUID:
        return as_int(fields[one, table.BYTES])
    return length + prefix_bytes(fields, one, length)


@njit()
def whole_bytes(fields: Fields, one: int, before: int, size: int) -> int:
    """Return the size behind a field, whose value made it grow from ``before`` to ``size``."""
    if not fields[one, table.IS_COUNTED]:
        return before
    if fields[one, table.TAG]:
        return size + as_int(fields[one, table.TAG]) + varint_bytes(size - before)
    return size


@njit()
def add_error(errors: npt.NDArray[np.int16], begin: int, end: int, code: int) -> int:
    """Put ``code`` in its place among the sorted ones, once; return their new end."""
    place = end
    while place > begin and errors[place - 1] > code:
        place -= 1
    if place > begin and errors[place - 1] == code:
        return end
    for i in range(end, place, -1):
        errors[i] = errors[i - 1]
    errors[place] = code
    return end + 1
