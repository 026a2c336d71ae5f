"""Reads the ordinary JSON lines of a block in one compiled pass; leaves every other line alone.

The tables (:mod:`line_tables`) say which fields a line and its messages
have, in Kafka's order. What is not exactly that (blanks, escapes, other fields or another order,
numbers of another form, a stamp of another layout) is a line for the reference reader. What is
read here the reference would have read the same way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from spark_jobs.ingest.fast_lines import line_layout as table
from spark_jobs.ingest.fast_lines.line_layout import LineTables
from spark_jobs.ingest.fast_lines.line_scan import (
    ABSENT,
    COLON,
    NEW_LINE,
    Bytes,
    Int64s,
    as_int,
    json_begin,
    stamp,
)
from spark_jobs.ingest.fast_lines.line_walk import DEPTH_MAX, NO_TEXT, STACK_COLUMNS, LineRoom, walk

Int32s = npt.NDArray[np.int32]

THROTTLE_US_MAX = ((1 << 31) - 1) * 1000
"""A throttle time is an int32 of milliseconds, whatever the response says of it."""
MINUTE_MS = 60_000
PROBES_MAX = 16


class LineColumns(NamedTuple):
    """What is read of a block, with room for every line; ``texts`` are numbers of ``spans``."""

    starts: Int64s  # of every line
    is_read: npt.NDArray[np.bool_]  # of every line: whether it is one of the rows
    numbers: Int64s
    texts: Int32s
    topic_texts: Int32s
    topic_bytes: Int64s
    errors: npt.NDArray[np.int16]
    spans: Int64s  # where a text begins and ends
    slots: Int32s  # the hash table of texts


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.uintp), code


@njit()
def _bare(array: Any) -> Any:
    """Return the same array without its owner: only for arrays that Python holds meanwhile.

    Else numba counts references to the owner with every call that takes the array, in atomic
    operations: 40 % of the time of a block.
    """
    return carray(_pointer(array.ctypes.data), array.shape, array.dtype)  # type: ignore[call-arg]


def read_lines(
    block: Bytes, stops: Bytes, tables: LineTables, out: LineColumns
) -> tuple[int, int, int]:
    """Fill ``out`` and return the numbers of lines, rows, and texts.

    ``block`` ends with a line end. ``stops`` is nonzero for the bytes at which a plain string
    ends, or may.
    """
    room = LineRoom(
        numbers=out.numbers,
        texts=np.empty((table.TEXTS, 2), np.int64),
        topics=np.empty((len(out.topic_texts), 2), np.int64),
        topic_bytes=out.topic_bytes,
        errors=out.errors,
        stack=np.empty((DEPTH_MAX, STACK_COLUMNS), np.int64),
        throttle=np.empty(1, np.int64),
    )
    found: tuple[int, int, int] = _read_lines(block, stops, tables, out, room)
    return found


@njit(cache=True)
def _read_lines(
    block: Bytes, block_stops: Bytes, tables: LineTables, out: LineColumns, held: LineRoom
) -> tuple[int, int, int]:
    data, stops = _bare(block), _bare(block_stops)
    known = LineTables(
        _bare(tables.names),
        _bare(tables.fields),
        _bare(tables.structs),
        _bare(tables.messages),
        _bare(tables.header_bytes),
        _bare(tables.readers),
    )
    room = LineRoom(
        _bare(held.numbers),
        _bare(held.texts),
        _bare(held.topics),
        _bare(held.topic_bytes),
        _bare(held.errors),
        _bare(held.stack),
        _bare(held.throttle),
    )
    numbers, starts, is_read = room.numbers, _bare(out.starts), _bare(out.is_read)
    texts_of, topic_texts = _bare(out.texts), _bare(out.topic_texts)
    spans, slots = _bare(out.spans), _bare(out.slots)
    lines, rows, texts, topics, errors = 0, 0, 0, 0, 0
    at = 0
    while at < len(data):
        starts[lines] = at
        end, topics_end, errors_end = -1, topics, errors
        digits, p = stamp(data, at)
        if p > 0:
            p = json_begin(data, p)
        if p > 0:
            _clear(room, rows)
            numbers[rows, table.MINUTE] = digits // 100_000
            numbers[rows, table.WITHIN_MS] = digits % 100_000
            end, topics_end, errors_end = walk(data, p, stops, known, room, rows, topics, errors)
        is_read[lines] = end >= 0 and _fits(numbers, rows)
        if is_read[lines]:
            _add_header(numbers, rows, known.header_bytes, room.texts)
            _find_user(data, room.texts)
            for i in range(table.TEXTS):
                texts_of[rows, i] = NO_TEXT
                if room.texts[i, 0] >= 0:
                    number = _text_number(data, room.texts[i], texts, spans, slots)
                    texts += number == texts
                    texts_of[rows, i] = number
            for i in range(topics, topics_end):
                topic_texts[i] = NO_TEXT
                if room.topics[i, 1] > room.topics[i, 0]:
                    number = _text_number(data, room.topics[i], texts, spans, slots)
                    texts += number == texts
                    topic_texts[i] = number
            topics, errors = topics_end, errors_end
            numbers[rows, table.LINE] = lines
            numbers[rows, table.TOPICS_END], numbers[rows, table.ERRORS_END] = topics, errors
            rows += 1
            at = end
        else:
            while data[at] != NEW_LINE:
                at += 1
        at += 1
        lines += 1
    return lines, rows, texts


@njit()
def _clear(room: LineRoom, row: int) -> None:
    for i in range(table.NUMBERS):
        room.numbers[row, i] = ABSENT
    room.numbers[row, table.IS_FORWARDED] = 0
    room.numbers[row, table.IS_ANSWERED] = 0
    for i in range(table.TEXTS):
        room.texts[i, 0] = NO_TEXT
        room.texts[i, 1] = NO_TEXT
    room.throttle[0] = ABSENT


@njit()
def _fits(numbers: Int64s, row: int) -> bool:
    if numbers[row, table.WITHIN_MS] >= MINUTE_MS:
        return False
    return not numbers[row, table.THROTTLE_US] > THROTTLE_US_MAX


@njit()
def _add_header(numbers: Int64s, row: int, header_bytes: Int32s, texts: Int64s) -> None:
    if numbers[row, table.REQUEST_BYTES] != ABSENT:
        key, version = numbers[row, table.API_KEY], numbers[row, table.API_VERSION]
        client_id = texts[table.CLIENT_ID, 1] - texts[table.CLIENT_ID, 0]
        numbers[row, table.REQUEST_BYTES] += header_bytes[key, version] + client_id


@njit()
def _find_user(data: Bytes, texts: Int64s) -> None:
    """Set where the name of the principal is: behind its type, empty where it has none."""
    begin, end = texts[table.PRINCIPAL, 0], texts[table.PRINCIPAL, 1]
    while begin < end and data[begin] != COLON:
        begin += 1
    texts[table.USER, 0] = min(begin + 1, end)
    texts[table.USER, 1] = end


@njit()
def _text_number(data: Bytes, span: Int64s, known: int, spans: Int64s, slots: Int32s) -> int:
    """Return the number of a text; one that is known gets its number again, in nearly all cases."""
    begin, end = as_int(span[0]), as_int(span[1])
    mask = len(slots) - 1
    hashed = np.uint64(end - begin)
    for i in range(begin, end):
        hashed = (hashed ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    slot = as_int((hashed ^ (hashed >> np.uint64(29))) & np.uint64(mask))
    for _ in range(PROBES_MAX):
        number = as_int(slots[slot])
        if number == NO_TEXT:
            slots[slot] = known
            break
        first = as_int(spans[number, 0])
        if spans[number, 1] - first == end - begin:
            i = 0
            while i < end - begin and data[first + i] == data[begin + i]:
                i += 1
            if i == end - begin:
                return number
        slot = (slot + 1) & mask
    spans[known, 0] = begin
    spans[known, 1] = end
    return known


@njit(cache=True)
def gather(data: Bytes, spans: Int64s, ends: Int32s) -> Bytes:
    """Return the bytes of ``spans`` one after the other, and set where each ends."""
    size = 0
    for i in range(len(spans)):
        size += spans[i, 1] - spans[i, 0]
        ends[i + 1] = size
    found = np.empty(size, np.uint8)
    at = 0
    for i in range(len(spans)):
        for j in range(spans[i, 0], spans[i, 1]):
            found[at] = data[j]
            at += 1
    return found
