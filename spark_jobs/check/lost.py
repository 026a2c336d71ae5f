"""Requests that are missing from the log, found as an ingest finds them, of a log read whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.lost_lines.gap_spans import (
    API_VERSIONS,
    JAVA,
    JAVA_WITH_TELEMETRY,
    OTHER_SOFTWARE,
    ClientLines,
)
from spark_jobs.ingest.lost_lines.lost_lines import gaps_of
from spark_jobs.ingest.quota_sources.restarts import ConnectionSpan, inferred_starts, restart_spans

LINES_MAX = 1_000_000
"""Of more requests the lost ones are not looked for: they take half a GB of memory."""

_HOST = re.compile(r"-([^-]+):\d+(?:-\d+)+$")
_RELEASE = re.compile(r"^(\d+)\.(\d+)")
_FIRST_WITH_TELEMETRY = (3, 7)


def lost_requests(
    batches: Sequence[pa.RecordBatch], controller_listeners: Collection[str]
) -> Counter[str]:
    """Return the number of missing requests by cause (``lost_lines.LOST_LINES`` and others).

    ``batches`` have CLIENT_COLUMNS of all requests of the archive.
    """
    losses: Counter[str] = Counter()
    if not batches:
        return losses
    rows = pa.Table.from_batches(batches)
    of_controllers = pc.is_in(
        rows["listener"], value_set=pa.array(list(controller_listeners), pa.string())
    )
    clients = rows.filter(pc.invert(pc.or_(rows["is_forwarded"], of_controllers)))
    if not len(clients):
        return losses
    name = pc.binary_join_element_wise(
        clients["user"], pc.fill_null(clients["client_id"], "\x00"), "\x01"
    )
    code = np.asarray(name.combine_chunks().dictionary_encode().indices)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    down = restart_spans(inferred_starts(_connection_spans(rows)))
    lines = _lines(clients)
    for of_client in np.split(order, starts[1:]):
        for gap in gaps_of(lines.take(of_client), down):
            losses[gap.cause] += gap.missing
    return losses


def _connection_spans(rows: pa.Table) -> list[ConnectionSpan]:
    opens = pc.or_(pc.equal(rows["api_key"], API_VERSIONS), pc.equal(rows["correlation_id"], 0))
    in_order = rows.append_column("opens", opens).sort_by(
        [("log_time_ms", "ascending"), ("correlation_id", "ascending")]
    )
    found = in_order.group_by(["broker_id", "connection"], use_threads=False).aggregate(
        [("recorded_earliest_ms", "min"), ("log_time_ms", "max"), ("opens", "first")]
    )
    names = ["broker_id", "connection", "first_ms", "last_ms", "is_opened"]
    return [ConnectionSpan(**row) for row in found.rename_columns(names).to_pylist()]


def _lines(rows: pa.Table) -> ClientLines:
    connection = _codes(rows["connection"])
    hosts = [(m[1] if (m := _HOST.search(text)) else "") for text in connection[1]]
    _, host_of = np.unique(np.array(hosts, object).astype(str), return_inverse=True)
    broker = _numbers(rows["broker_id"])
    names = pc.fill_null(rows["software_name"], "unknown")
    versions = pc.fill_null(rows["software_version"], "")
    software = _codes(pc.binary_join_element_wise(names, versions, "\x00"))
    said = [text.split("\x00", 1) for text in software[1]]
    known = np.array([name != "unknown" for name, _ in said])
    java = np.array([_java(name, version) for name, version in said])
    at_ms = _numbers(rows["log_time_ms"])
    return ClientLines(
        broker_id=broker,
        connection=broker.astype(np.int64) * len(hosts) + connection[0],
        host=host_of.ravel()[connection[0]],
        software=np.where(known[software[0]], software[0] + 1, 0),
        java=java[software[0]],
        correlation_id=_numbers(rows["correlation_id"]),
        api_key=_numbers(rows["api_key"]),
        is_answered=_numbers(pc.fill_null(rows["acks"], 1)) != 0,
        received_ms=at_ms - _numbers(rows["total_time_us"]) // 1000,
        recorded_earliest_ms=_numbers(rows["recorded_earliest_ms"]),
        recorded_latest_ms=_numbers(rows["recorded_latest_ms"]),
        free_at_ms=at_ms + _numbers(rows["throttle_time_ms"]),
        request_bytes=_numbers(rows["request_bytes"].cast(pa.float64())),
        response_bytes=_numbers(rows["response_bytes"].cast(pa.float64())),
        handler_time_us=_numbers(rows["handler_time_us"]),
    )


def _java(name: str, version: str) -> int:
    if name != "apache-kafka-java":
        return OTHER_SOFTWARE
    found = _RELEASE.match(version)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    return JAVA_WITH_TELEMETRY if release >= _FIRST_WITH_TELEMETRY else JAVA


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    coded = column.combine_chunks().dictionary_encode()
    return np.asarray(coded.indices).astype(np.int64), coded.dictionary.to_pylist()


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))
