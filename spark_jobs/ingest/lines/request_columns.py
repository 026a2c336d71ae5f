"""Rows of requests gathered into Arrow columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.lines.api_fields import ApiFields
from spark_jobs.ingest.lines.record_time import ReplicaWaits, recorded_interval
from spark_jobs.ingest.lines.request_line import RequestLine
from spark_jobs.warehouse.tables import QUARANTINE, REQUESTS


def request_row(
    line: RequestLine,
    fields: ApiFields,
    broker_id: int,
    log_time_ms: int,
    source_file: str,
    source_line: int,
    waits: ReplicaWaits,
) -> tuple[object, ...]:
    """Return one row of ``tables.REQUESTS``, in the order of its columns.

    ``waits`` learns from the produces of the file, line by line.
    """
    header, client = line.requestHeader, line.clientInformation
    handler_us, remote_us = _us(line.localTimeMs), _us(line.remoteTimeMs)
    response_queue_us, send_us = _us(line.responseQueueTimeMs), _us(line.sendTimeMs)
    recorded = recorded_interval(
        header.requestApiKey,
        log_time_ms,
        handler_us,
        remote_us,
        response_queue_us,
        send_us,
        fields.acks,
        _has_waited(fields, remote_us, waits),
    )
    throttle_ms = fields.throttle_time_ms
    return (
        broker_id,
        log_time_ms,
        *recorded,
        line.connection,
        header.correlationId,
        header.requestApiKey,
        header.requestApiKeyName,
        header.requestApiVersion,
        line.principal,
        line.user,
        header.clientId,
        line.listener,
        line.isForwarded,
        fields.acks,
        fields.is_replica,
        fields.fetch_max_bytes,
        fields.request_bytes,
        fields.request_bytes is not None,
        fields.response_bytes,
        _us(line.totalTimeMs),
        _us(line.requestQueueTimeMs),
        handler_us,
        remote_us,
        response_queue_us,
        send_us,
        int(line.throttleTimeMs) if throttle_ms is None else throttle_ms,
        client.softwareName if client else None,
        client.softwareVersion if client else None,
        fields.error_codes,
        fields.topics,
        fields.mutations,
        fields.validate_only,
        fields.quota_alterations,
        source_file,
        source_line,
    )


def request_batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    """Return rows of :func:`request_row` as a batch with the schema REQUESTS.

    Raises pa.ArrowInvalid or OverflowError where a value does not fit its column.
    """
    return _batch(rows, REQUESTS)


def in_order(some: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of both in the order of their lines, in which those of each are already."""
    if not len(some) or not len(others):
        return some if len(some) else others
    both = pa.concat_batches([some, others])
    return both.take(pc.sort_indices(both["source_line"]))


def quarantine_batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    """Return rows in the order of the columns of QUARANTINE as a batch."""
    return _batch(rows, QUARANTINE)


def _batch(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _has_waited(fields: ApiFields, remote_time_us: int, waits: ReplicaWaits) -> bool | None:
    if fields.acks != -1:
        return None
    topics = [topic["topic"] for topic in fields.topics or () if topic["topic"] is not None]
    return waits.has_waited(topics, remote_time_us) if topics else None


def _us(milliseconds: float) -> int:
    return round(milliseconds * 1000)
