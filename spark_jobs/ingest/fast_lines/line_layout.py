"""The columns of the tables that the compiled reader walks, and of what it keeps of a line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# What a value is.
INTEGER, BOOLEAN, STRING, UUID, STRUCT, RECORDS, MILLISECONDS, REQUEST, RESPONSE, ANY = range(10)
# What is kept of it.
NOTHING, KEEP_NUMBER, KEEP_TEXT, BEGIN_TOPIC, ADD_RECORDS, ADD_ERROR = range(6)
# Columns of ``fields``.
(
    NAME, NAME_END, KIND, IS_ARRAY, MAY_LACK, NULL_BYTES, IS_FLEXIBLE, PREFIX, BYTES, TAG, CHILD,
    KEEP, COLUMN, IS_COUNTED, BITS, FIELD_COLUMNS,
) = range(16)  # fmt: skip
# Columns of ``structs``.
FIRST, END, CONSTANT, LACKS_ERROR = range(4)

# Columns of the numbers kept of a line.
(
    LINE, MINUTE, WITHIN_MS, API_KEY, API_VERSION, CORRELATION_ID, IS_FORWARDED, ACKS, REPLICA_ID,
    FETCH_MAX_BYTES, REQUEST_BYTES, RESPONSE_BYTES, TOTAL_US, QUEUE_US, HANDLER_US, REMOTE_US,
    RESPONSE_QUEUE_US, SEND_US, THROTTLE_US, RESPONSE_THROTTLE_MS, TOPICS_END, ERRORS_END,
    IS_ANSWERED, NUMBERS,
) = range(24)  # fmt: skip
# Columns of the texts kept of a line.
(
    CONNECTION, API_NAME, PRINCIPAL, USER, CLIENT_ID, LISTENER, SOFTWARE, SOFTWARE_VERSION, TEXTS,
) = range(9)  # fmt: skip

# How the messages of an api key are read.
ANY_MESSAGE, BY_TABLE, BY_REFERENCE = range(3)
TABLED_APIS = (0, 1, 78)
"""Produce, Fetch and ShareFetch: nearly all lines of a busy broker."""
API_KEYS, API_VERSIONS = 128, 64
LINE_STRUCT = 0
NO_NULL = -1


class LineTables(NamedTuple):
    """What the compiled reader is given.

    ``messages[api key, version]`` are the structs of request and response, -1 where unknown;
    ``header_bytes`` the size of the request's header without the client id's characters;
    ``readers`` how the messages of an api key are read.
    """

    names: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.int32]
    structs: npt.NDArray[np.int32]
    messages: npt.NDArray[np.int32]
    header_bytes: npt.NDArray[np.int32]
    readers: npt.NDArray[np.int32]
