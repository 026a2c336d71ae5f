"""Pieces of a log line as compiled functions: its stamp, its marker, and plain JSON values.

Every function takes the bytes of a block, which end with a line end, and an index into them. It
returns the index at which what it looks for ends, -1 where that is not of the plain form it knows.
No piece goes beyond its line: none has a line end in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
as_int = cast(Callable[[Any], int], np.int64)
"""An element of an array as a signed integer of 64 bits."""

NEW_LINE, BLANK, QUOTE, COMMA, COLON, DOT, MINUS, ZERO, NINE, C = b'\n ",:.-09C'
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, T, F, N = b"{}[]tfn"

ABSENT = -(1 << 63)
"""Of a number that is not in the line."""
DIGITS_MAX = 18
MICROSECONDS_MAX = 10**14
LEAD_MAX = 200
"""So many bytes may stand between the stamp and the marker (level, thread, logger)."""
ANY_DEPTH_MAX = 60

MARKER = np.frombuffer(b"Completed request:", np.uint8)
MARKER_BLANK = 9
STAMP = np.frombuffer(b"[dddd-dd-ddTdd:dd:dd,ddd]", np.uint8)
DIGIT, DATE_END, SECOND_END = b"dT,"
TRUE = np.frombuffer(b"true", np.uint8)
FALSE = np.frombuffer(b"false", np.uint8)
NULL = np.frombuffer(b"null", np.uint8)
THROTTLE = np.frombuffer(b'"throttleTimeMs":', np.uint8)


@njit()
def is_at(data: Bytes, p: int, what: Bytes) -> bool:
    """Return True if ``what`` stands at ``p``."""
    for i in range(len(what)):
        if data[p + i] != what[i]:
            return False
    return True


@njit()
def integer(data: Bytes, p: int) -> tuple[int, int]:
    """Return an integer of up to DIGITS_MAX digits, and its end."""
    is_negative = data[p] == MINUS
    if is_negative:
        p += 1
    begin = p
    value = 0
    while ZERO <= data[p] <= NINE:
        value = value * 10 + (as_int(data[p]) - ZERO)
        p += 1
        if p - begin > DIGITS_MAX:
            return 0, -1
    if p == begin or (data[begin] == ZERO and (p - begin > 1 or is_negative)):
        return 0, -1
    return (-value if is_negative else value), p


@njit()
def microseconds(data: Bytes, p: int) -> tuple[int, int]:
    """Return milliseconds with up to three decimals as microseconds, and their end."""
    if data[p] == MINUS:
        return 0, -1
    value, p = integer(data, p)
    if p < 0 or value > MICROSECONDS_MAX:
        return 0, -1
    decimals = 0
    if data[p] == DOT:
        p += 1
        while decimals < 3 and ZERO <= data[p] <= NINE:
            value = value * 10 + (as_int(data[p]) - ZERO)
            decimals += 1
            p += 1
        if decimals == 0:
            return 0, -1
    while decimals < 3:
        value *= 10
        decimals += 1
    return (value, p) if value <= MICROSECONDS_MAX else (0, -1)


@njit()
def text_end(data: Bytes, p: int, stops: Bytes) -> int:
    """Return the end (its quote) of the string that begins at ``p``.

    ``stops`` is nonzero for the bytes at which a plain string ends, or may.
    """
    while True:
        while stops[data[p]] == 0:
            p += 1
        if data[p] == QUOTE:
            return p
        if data[p] != BLANK or is_at(data, p - MARKER_BLANK, MARKER):
            return -1
        p += 1


@njit()
def scalar(data: Bytes, p: int, stops: Bytes) -> int:
    """Return the end of a string, number or word."""
    byte = data[p]
    if byte == QUOTE:
        p = text_end(data, p + 1, stops)
        return -1 if p < 0 else p + 1
    if byte == T:
        return p + 4 if is_at(data, p, TRUE) else -1
    if byte == F:
        return p + 5 if is_at(data, p, FALSE) else -1
    if byte == N:
        return p + 4 if is_at(data, p, NULL) else -1
    _, p = integer(data, p)
    if p > 0 and data[p] == DOT:
        begin = p + 1
        p = begin
        while ZERO <= data[p] <= NINE and p - begin <= DIGITS_MAX:
            p += 1
        if p == begin:
            return -1
    return p


@njit()
def any_value(data: Bytes, p: int, stops: Bytes, throttle: Int64s) -> int:
    """Return the end of a value of any form.

    ``throttle[0]`` becomes the ``throttleTimeMs`` of the outermost object, where it has one.
    """
    objects = as_int(0)  # a bit for each depth: whether an object, else an array
    depth = 0
    while True:
        is_opening = data[p] == OPEN or data[p] == OPEN_LIST
        if is_opening:
            depth += 1
            if depth > ANY_DEPTH_MAX:
                return -1
            objects = objects << 1 | (1 if data[p] == OPEN else 0)
            p += 1
        else:
            p = scalar(data, p, stops)
            if p < 0:
                return -1
        while depth and data[p] == (CLOSE if objects & 1 else CLOSE_LIST):
            p += 1
            depth -= 1
            objects >>= 1
            is_opening = False
        if depth == 0:
            return p
        if not is_opening:
            if data[p] != COMMA:
                return -1
            p += 1
        if objects & 1:
            p = _any_name(data, p, stops, throttle, depth)
            if p < 0:
                return -1


@njit()
def _any_name(data: Bytes, p: int, stops: Bytes, throttle: Int64s, depth: int) -> int:
    if data[p] != QUOTE:
        return -1
    if depth == 1 and is_at(data, p, THROTTLE):
        value, end = integer(data, p + len(THROTTLE))
        if end < 0 or throttle[0] != ABSENT or value != value << 32 >> 32:
            return -1
        throttle[0] = value
    p = text_end(data, p + 1, stops) + 1
    return p + 1 if p > 0 and data[p] == COLON else -1


@njit()
def stamp(data: Bytes, p: int) -> tuple[int, int]:
    """Return the digits of the stamp that a line begins with as one number, and its end."""
    number = 0
    for i in range(len(STAMP)):
        byte, want = data[p + i], STAMP[i]
        if want == DIGIT:
            if byte < ZERO or byte > NINE:
                return 0, -1
            number = number * 10 + (as_int(byte) - ZERO)
        elif byte != want and not (
            (want == DATE_END and byte == BLANK) or (want == SECOND_END and byte == DOT)
        ):
            return 0, -1
    return number, p + len(STAMP)


@njit()
def json_begin(data: Bytes, p: int) -> int:
    """Return the begin of the JSON behind the marker, -1 where none is there."""
    end = p + LEAD_MAX
    while p < end:
        if data[p] == NEW_LINE:
            return -1
        if data[p] == C and is_at(data, p, MARKER):
            p += len(MARKER)
            if data[p] == BLANK:
                p += 1
            return p if data[p] == OPEN else -1
        p += 1
    return -1


@njit()
def line_end(data: Bytes, p: int) -> int:
    """Return the end of the line, -1 if something of a request is before it."""
    while data[p] != NEW_LINE:
        if data[p] == CLOSE or (data[p] == C and is_at(data, p, MARKER)):
            return -1
        p += 1
    return p


@njit()
def varint_bytes(value: int) -> int:
    """Return the size (bytes) of Kafka's unsigned varint of ``value``."""
    count = 1
    while value >= 128:
        value >>= 7
        count += 1
    return count
