"""One block of a request log, as ingest reads it → added to what is known of its file."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.check.clock import has_offsets, set_back, signs_of_block
from spark_jobs.check.looked_at import FileLook, Group
from spark_jobs.ingest.lines.chunk import ParsedChunk
from spark_jobs.ingest.lost_lines.gap_spans import FETCH, PRODUCE, SHARE_FETCH
from spark_jobs.ingest.messages.api_keys import CONTROLLER_APIS
from spark_jobs.warehouse.days import HOUR_MS

CLIENT_COLUMNS = (
    "broker_id", "listener", "user", "client_id", "is_forwarded", "connection", "software_name",
    "software_version", "correlation_id", "api_key", "log_time_ms", "total_time_us",
    "recorded_earliest_ms", "recorded_latest_ms", "throttle_time_ms", "request_bytes",
    "response_bytes", "handler_time_us",
)  # fmt: skip
"""What the search for lost lines needs of each request."""
MUTATION_COLUMNS = (
    "broker_id", "listener", "user", "client_id", "is_forwarded", "is_replica", "api_name",
    "correlation_id", "mutations", "validate_only", "recorded_estimate_us",
    "recorded_earliest_ms", "recorded_latest_ms", "log_time_ms",
)  # fmt: skip
ROWS_MAX = 200_000
"""So many mutations, and alterations of quotas, are kept of a file."""

_MARKER = b"Completed request:"
_LEVELS = ("TRACE", "DEBUG", "INFO")
_ADDRESSES_MAX, _SIGNS_MAX = 100, 1000
_JSON_PROTOCOL = re.compile(
    rb'"securityProtocol":"(\w+)","principal":"(?:[^"\\]|\\.)*","listener":"([^"]*)"'
)
_TEXT_PROTOCOL = re.compile(rb"securityProtocol:(\w+),principal:.*?,listener:([^,\s]+)")
_ADDRESS = re.compile(rb'(?:"connection":"| from connection )([^\s"]+?:\d+)-')


def take_block(
    look: FileLook,
    data: bytes,
    parsed: ParsedChunk,
    timezone: dt.tzinfo,
    alteration_columns: tuple[str, ...],
    *,
    follows: bool,
) -> None:
    """Add a block to what is known of its file; ``follows``: it begins where the last one ended."""
    look.lines += parsed.lines_read
    look.other += parsed.other
    look.unpacked_bytes += len(data)
    look.quarantined.update(parsed.quarantine["reason"].to_pylist())
    if data:
        _take_text(look, data, timezone)
    rows = parsed.requests
    if not len(rows):
        return
    times = np.asarray(rows["log_time_ms"])
    if len(look.signs) < _SIGNS_MAX:
        look.signs += set_back(times, _broker(look, rows), look.last_ms if follows else None)
    look.requests += len(rows)
    first_ms = int(times.min())
    look.first_ms = first_ms if look.first_ms is None else min(look.first_ms, first_ms)
    look.last_ms = int(times[-1])
    hours, counts = np.unique(times // HOUR_MS, return_counts=True)
    look.hours.update(dict(zip(hours.tolist(), counts.tolist(), strict=True)))
    look.groups.update(_groups(rows))
    look.versions |= _versions(rows)
    room = ROWS_MAX - len(look.mutations)
    look.mutations += _with_items(rows, "mutations", MUTATION_COLUMNS, room)
    room = ROWS_MAX - len(look.alterations)
    look.alterations += _with_items(rows, "quota_alterations", alteration_columns, room)


def client_lines(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of requests that the search for lost lines needs."""
    return rows.select(list(CLIENT_COLUMNS))


def _take_text(look: FileLook, data: bytes, timezone: dt.tzinfo) -> None:
    if not look.has_offsets:
        look.has_offsets = has_offsets(data)
    if not look.has_offsets and len(look.signs) < _SIGNS_MAX:
        look.signs += signs_of_block(data, look.broker_id, timezone)
    look.envelopes[{b"[": "plain", b"{": "docker"}.get(data[:1], _dated(data))] += 1
    text = data.replace(b'\\"', b'"') if data[:1] == b"{" else data
    for level in _LEVELS:
        for blanks in (b" ", b"  "):
            look.levels[level] += text.count(level.encode() + blanks + _MARKER)
    for name, begin in (("JSON", b"{"), ("text", b"RequestHeader(")):
        look.formats[name] += text.count(_MARKER + begin) + text.count(_MARKER + b" " + begin)
    look.levels, look.formats = +look.levels, +look.formats
    for pattern in (_JSON_PROTOCOL, _TEXT_PROTOCOL):
        look.protocols |= {
            (listener.decode("utf-8", "replace"), protocol.decode())
            for protocol, listener in set(pattern.findall(text))
        }
    if look.broker_id is None and len(look.addresses) < _ADDRESSES_MAX:
        found = sorted({a.decode("utf-8", "replace") for a in _ADDRESS.findall(text)})
        look.addresses |= set(found[: _ADDRESSES_MAX - len(look.addresses)])


def _dated(data: bytes) -> str:
    return "CRI" if re.match(rb"\d{4}-\d\d-\d\dT\S+ std(?:out|err) [FP]", data) else "plain"


def _broker(look: FileLook, rows: pa.RecordBatch) -> int:
    return int(rows["broker_id"][0].as_py()) if look.broker_id is None else look.broker_id


def _groups(rows: pa.RecordBatch) -> Counter[Group]:
    """Return the number of requests of each kind in a block."""
    api_key = np.asarray(rows["api_key"])
    is_fetch = np.isin(api_key, (FETCH, SHARE_FETCH))
    throttled = np.asarray(rows["throttle_time_ms"]) > 0
    produced = np.asarray(pc.is_valid(rows["request_bytes"]).to_numpy(zero_copy_only=False))
    fetched = np.asarray(pc.is_valid(rows["response_bytes"]).to_numpy(zero_copy_only=False))
    # A throttled fetch is answered with nothing; what it asked for comes out of its throttle.
    is_sized = np.where(is_fetch, fetched | throttled, (api_key != PRODUCE) | produced)
    acks = pc.fill_null(rows["acks"], 1)
    is_answered = (api_key != PRODUCE) | (np.asarray(acks) != 0)
    table = pa.table(
        {
            "broker_id": rows["broker_id"],
            "listener": rows["listener"],
            "user": rows["user"],
            "client_id": rows["client_id"],
            "api_name": rows["api_name"],
            "is_forwarded": rows["is_forwarded"],
            "is_replica": rows["is_replica"],
            "is_answered": is_answered,
            "is_sized": is_sized,
        }
    )
    counted = table.group_by(list(Group._fields), use_threads=False).aggregate([([], "count_all")])
    columns = [counted[name].to_pylist() for name in Group._fields]
    keys = (Group(*values) for values in zip(*columns, strict=True))
    return Counter(dict(zip(keys, counted["count_all"].to_pylist(), strict=True)))


def _versions(rows: pa.RecordBatch) -> set[str]:
    """Return the versions that brokers give of themselves when they ask each other."""
    of_broker = pc.or_(
        rows["is_replica"], pc.is_in(rows["api_name"], value_set=pa.array(CONTROLLER_APIS))
    )
    named = pc.equal(rows["software_name"], "apache-kafka-java")
    asking = rows.filter(pc.and_(of_broker, pc.fill_null(named, False)))
    return set(pc.unique(asking["software_version"]).to_pylist()) - {None}


def _with_items(
    rows: pa.RecordBatch, column: str, columns: tuple[str, ...], rows_max: int
) -> list[dict[str, object]]:
    """Return the first rows whose list ``column`` has items, no more than ``rows_max``."""
    lengths = pc.fill_null(pc.list_value_length(rows[column]), 0)
    found: list[dict[str, object]] = (
        rows.filter(pc.greater(lengths, 0)).slice(0, max(rows_max, 0)).select(list(columns))
    ).to_pylist()
    return found
