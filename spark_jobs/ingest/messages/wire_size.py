"""The bytes of a logged request or response on the wire, from the schema of its version.

The log prints what a message says, not how long it was. These functions give the sizes that a
broker records on its quotas: of a produce ``Request.sizeInBytes`` (header and body, without the
4-byte length in front), of a fetch or share fetch ``FetchResponse.sizeOf`` (4 + body).

Once per line, in a hot loop, with the messages decoded into their types (1 to 2 µs a request)::

    produce = msgspec.json.Decoder(message_struct("ProduceRequest")).decode(raw_request_json)
    body = body_sizer(api_key, api_version, "Request")(produce)
    request_bytes = body + header_size(api_key, api_version, client_id)

    fetch = msgspec.json.Decoder(message_struct("FetchResponse")).decode(raw_response_json)
    response_bytes = body_sizer(1, api_version, "Response")(fetch) + RESPONSE_HEADER_BYTES

``request_size`` and ``response_body_size`` do the same with JSON that is already a dict.

``body_sizer`` is None for a kind of request or a version without definition here (known: API_NAMES,
Kafka 2.8 to 4.2), and its function returns None where a field that decides the size is absent: the
size is then unknown, never guessed.

Not in the log, so not counted: tagged fields unknown to the broker, and values a client wrote in
more bytes than Kafka's own serializer needs. A fetch of version 0 to 3 that was down-converted is
recorded with the size before the conversion, and the log has the size after it. A share fetch is
recorded before acknowledgement results are merged into its response, and the log has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

from spark_jobs.ingest.messages.message_definition import (
    API_NAMES,
    Message,
    message_definitions,
    message_struct,
)
from spark_jobs.ingest.messages.size_source import size_function

Sizer = Callable[[Any], int | None]

# FetchResponse.sizeOf and ShareFetchResponse.sizeOf build the message without these.
NOT_IN_SIZE_OF = frozenset({"nodeEndpoints", "errorMessage"})
FETCH_APIS = frozenset({1, 78})
"""Api keys whose response is weighed by the consumer quota: Fetch and ShareFetch."""
_HELD_CLIENT_ID_MAX = 1000
"""Sizes of longer ones are not held: thousands of names of megabytes would fill the memory."""
RESPONSE_HEADER_BYTES = 4
"""What ``sizeOf`` adds to the body of a fetch response."""


def request_size(
    api_key: int, api_version: int, client_id: str | None, request_json: Mapping[str, Any]
) -> int | None:
    """Return the bytes of a request (header and body) whose body was logged as ``request_json``.

    None where this (api key, version) has no definition here, or the JSON lacks a field of it.
    Raises msgspec.ValidationError where a field has the wrong type.
    """
    sizer = body_sizer(api_key, api_version, "Request")
    if sizer is None:
        return None
    body = sizer(msgspec.convert(request_json, message_struct(f"{API_NAMES[api_key]}Request")))
    return None if body is None else body + header_size(api_key, api_version, client_id)


def response_body_size(
    api_key: int, api_version: int, response_json: Mapping[str, Any]
) -> int | None:
    """Return the bytes of a response body logged as ``response_json``; None as in request_size.

    For Fetch and ShareFetch this is the body that ``sizeOf`` weighs: without node endpoints and
    top-level error message. The broker records that plus RESPONSE_HEADER_BYTES.
    """
    sizer = body_sizer(api_key, api_version, "Response")
    if sizer is None:
        return None
    return sizer(msgspec.convert(response_json, message_struct(f"{API_NAMES[api_key]}Response")))


def header_size(api_key: int, api_version: int, client_id: str | None) -> int:
    """Return the bytes of a request header: version 2 where the request is flexible, else 1.

    Kafka: ``ApiMessageType.requestHeaderVersion``, ``RequestHeader.size``.
    """
    if client_id is None or len(client_id) <= _HELD_CLIENT_ID_MAX:
        return _held_header_size(api_key, api_version, client_id)
    return _header_size(api_key, api_version, client_id)


def _header_size(api_key: int, api_version: int, client_id: str | None) -> int:
    request = _definition(f"{API_NAMES[api_key]}Request", api_version)
    assert request is not None, (api_key, api_version)
    header_version = 2 if api_version in request.flexible else 1
    header = message_struct("RequestHeader")(clientId=client_id)
    return _header_sizer(header_version)(header)


_held_header_size = lru_cache(maxsize=4096)(_header_size)


@cache
def _header_sizer(header_version: int) -> Callable[[Any], int]:
    return size_function(message_definitions("RequestHeader")[0], header_version)


@cache
def body_sizer(api_key: int, api_version: int, side: str) -> Sizer | None:
    """Return the size of a decoded body as a function; None where no definition is known.

    ``side`` is ``Request`` or ``Response``. The function takes a ``message_struct`` and returns
    bytes, or None where a field that the version must have is absent.
    """
    if api_key not in API_NAMES:
        return None
    name = f"{API_NAMES[api_key]}{side}"
    is_fetched = api_key in FETCH_APIS and side == "Response"
    blank = NOT_IN_SIZE_OF if is_fetched else frozenset[str]()
    known = [m for m in message_definitions(name) if api_version in m.versions]
    # Later ones have the same bytes; only field names can differ between releases.
    sizes = [size_function(m, api_version, blank) for m in known]
    return _first_that_fits(sizes) if sizes else None


def _first_that_fits(sizes: list[Callable[[Any], int]]) -> Sizer:
    def size(message: Any) -> int | None:
        for size_of in sizes:
            try:
                return size_of(message)
            except (TypeError, AttributeError):  # a field of this definition is UNSET
                continue
        return None

    return size


def _definition(name: str, version: int) -> Message | None:
    return next((m for m in message_definitions(name) if version in m.versions), None)
