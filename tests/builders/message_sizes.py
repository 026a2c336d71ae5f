"""Sizes on the wire of messages that are JSON already, by the product's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spark_jobs.ingest.messages.message_definition import API_NAMES, message_struct
from spark_jobs.ingest.messages.wire_size import body_sizer, header_size


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
