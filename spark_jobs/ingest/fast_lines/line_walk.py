"""Walks the JSON of one line along the tables of its messages, as compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.ingest.fast_lines import line_layout as table
from spark_jobs.ingest.fast_lines.line_layout import LineTables
from spark_jobs.ingest.fast_lines.line_scan import (
    ABSENT,
    CLOSE,
    CLOSE_LIST,
    COMMA,
    FALSE,
    NULL,
    OPEN,
    OPEN_LIST,
    QUOTE,
    TRUE,
    Bytes,
    Int64s,
    N,
    any_value,
    as_int,
    integer,
    is_at,
    line_end,
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


NO_TEXT = -1
DEPTH_MAX = 16
# Columns of ``stack``: the struct that is open, its next field, the field it is the value of, the
# size before that field, and how many of its array were before it (ALONE: it is in none).
STRUCT, NEXT, OPENER, BEFORE, PLACE, STACK_COLUMNS = range(6)
ALONE = -1
# What to do with a message.
REFUSED, PASSED_OVER, WALKED = range(3)


class LineRoom(NamedTuple):
    """What a walk keeps of a line: numbers, and where its texts begin and end."""

    numbers: Int64s
    texts: Int64s
    topics: Int64s
    topic_bytes: Int64s
    errors: npt.NDArray[np.int16]
    stack: Int64s
    throttle: Int64s


@njit()
def walk(
    data: Bytes,
    p: int,
    stops: Bytes,
    tables: LineTables,
    room: LineRoom,
    row: int,
    topics: int,
    errors: int,
) -> tuple[int, int, int]:
    """Return the end of the line whose JSON begins at ``p``, and the new ends of the lists.

    The line's end is -1 where the line is no ordinary one.
    """
    names, fields, structs = tables.names, tables.fields, tables.structs
    numbers, stack, throttle = room.numbers, room.stack, room.throttle
    errors_begin = errors
    size, depth = 0, 0
    struct = table.LINE_STRUCT
    field = as_int(structs[struct, table.FIRST])
    p += 1
    is_first = True
    while True:
        if data[p] == CLOSE:
            if lacks_one(fields, field, structs[struct, table.END]):
                return -1, topics, errors
            p += 1
            if depth == 0:
                return line_end(data, p), topics, errors
            opener = as_int(stack[depth, OPENER])
            if stack[depth, PLACE] != ALONE:
                stack[depth, PLACE] += 1
                if data[p] == COMMA and data[p + 1] == OPEN:  # the next of the array
                    p += 2
                    field = as_int(structs[struct, table.FIRST])
                    size += structs[struct, table.CONSTANT]
                    is_first = True
                    continue
                if data[p] != CLOSE_LIST:
                    return -1, topics, errors
                p += 1
                size += prefix_bytes(fields, opener, stack[depth, PLACE])
            if fields[opener, table.KIND] == table.RESPONSE:
                numbers[row, table.RESPONSE_BYTES] = size
                if structs[struct, table.LACKS_ERROR]:
                    errors = add_error(room.errors, errors_begin, errors, 0)
            elif fields[opener, table.KIND] == table.REQUEST:
                numbers[row, table.REQUEST_BYTES] = size
            else:
                size = whole_bytes(fields, opener, stack[depth, BEFORE], size)
            depth -= 1
            struct, field = as_int(stack[depth, STRUCT]), as_int(stack[depth, NEXT])
            is_first = False
            continue
        if not is_first:
            if data[p] != COMMA:
                return -1, topics, errors
            p += 1
        is_first = False
        one = named(data, p, names, fields, field, structs[struct, table.END])
        if one < 0:
            return -1, topics, errors
        p += fields[one, table.NAME_END] - fields[one, table.NAME]
        field = one + 1
        kind = fields[one, table.KIND]
        before = size
        if fields[one, table.NULL_BYTES] != table.NO_NULL and data[p] == N:
            if not is_at(data, p, NULL):
                return -1, topics, errors
            p += 4
            size += fields[one, table.NULL_BYTES]
        elif kind == table.STRUCT or kind == table.REQUEST or kind == table.RESPONSE:
            child = as_int(fields[one, table.CHILD])
            if kind != table.STRUCT:
                todo, child, p = _message(data, p, stops, tables, numbers, throttle, row, kind)
                if todo == REFUSED:
                    return -1, topics, errors
                if todo == PASSED_OVER:
                    continue
                size = 0
            place = ALONE
            if fields[one, table.IS_ARRAY]:
                if data[p] != OPEN_LIST:
                    return -1, topics, errors
                p += 1
                place = 0
            if place == 0 and data[p] == CLOSE_LIST:
                p += 1
                size += prefix_bytes(fields, one, 0)
            else:
                if data[p] != OPEN or depth + 1 >= DEPTH_MAX:
                    return -1, topics, errors
                p += 1
                stack[depth, STRUCT], stack[depth, NEXT] = struct, field
                depth += 1
                stack[depth, OPENER], stack[depth, BEFORE] = one, before
                stack[depth, PLACE] = place
                struct = child
                field = as_int(structs[struct, table.FIRST])
                size += structs[struct, table.CONSTANT]
                is_first = True
                continue
        elif fields[one, table.IS_ARRAY]:
            p, added = scalars(data, p, stops, fields, one)
            if p < 0:
                return -1, topics, errors
            size += added
        elif kind == table.STRING or kind == table.UUID:
            if data[p] != QUOTE:
                return -1, topics, errors
            begin = p + 1
            p = text_end(data, begin, stops)
            if p < 0:
                return -1, topics, errors
            size += text_bytes(fields, one, p - begin)
            if fields[one, table.KEEP] == table.KEEP_TEXT:
                room.texts[fields[one, table.COLUMN], 0] = begin
                room.texts[fields[one, table.COLUMN], 1] = p
            elif fields[one, table.KEEP] == table.BEGIN_TOPIC:
                room.topics[topics, 0], room.topics[topics, 1] = begin, p
                room.topic_bytes[topics] = 0
                topics += 1
            p += 1
        elif kind == table.ANY:
            p = any_value(data, p, stops, throttle)
            if p < 0:
                return -1, topics, errors
        else:
            value, p = number_at(data, p, fields, one)
            if p < 0:
                return -1, topics, errors
            size += fields[one, table.BYTES]
            if kind == table.RECORDS:
                size += value + prefix_bytes(fields, one, value)
            keep = fields[one, table.KEEP]
            if keep == table.KEEP_NUMBER:
                numbers[row, fields[one, table.COLUMN]] = value
            elif keep == table.ADD_RECORDS:
                room.topic_bytes[topics - 1] += value
            elif keep == table.ADD_ERROR:
                errors = add_error(room.errors, errors_begin, errors, value)
        size = whole_bytes(fields, one, before, size)


@njit()
def _message(
    data: Bytes,
    p: int,
    stops: Bytes,
    tables: LineTables,
    numbers: Int64s,
    throttle: Int64s,
    row: int,
    kind: int,
) -> tuple[int, int, int]:
    """Return the way to treat the message at ``p``, its struct, and the index to go on from."""
    key, version = numbers[row, table.API_KEY], numbers[row, table.API_VERSION]
    reader = table.ANY_MESSAGE
    if 0 <= key < table.API_KEYS:
        reader = tables.readers[key]
    if reader == table.BY_REFERENCE:
        return REFUSED, -1, p
    if kind == table.RESPONSE:
        if data[p] == QUOTE and data[p + 1] == QUOTE:
            return PASSED_OVER, -1, p + 2
        if is_at(data, p, NULL):
            return PASSED_OVER, -1, p + 4
        if data[p] != OPEN:
            return REFUSED, -1, p
        numbers[row, table.IS_ANSWERED] = 1
    if reader == table.ANY_MESSAGE:
        throttle[0] = ABSENT
        p = any_value(data, p, stops, throttle)
        if kind == table.RESPONSE:
            numbers[row, table.RESPONSE_THROTTLE_MS] = throttle[0]
        return (PASSED_OVER if p > 0 else REFUSED), -1, p
    if version < 0 or version >= table.API_VERSIONS:
        return REFUSED, -1, p
    child = as_int(tables.messages[key, version, 1 if kind == table.RESPONSE else 0])
    return (WALKED if child >= 0 else REFUSED), child, p
