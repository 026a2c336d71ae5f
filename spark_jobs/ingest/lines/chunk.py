"""A block of whole log lines → Arrow batches of requests and quarantined lines, all lines counted.

Pure: what must outlive a block (a joined line's begin, the clock's place in the repeated hour) is
in :class:`ChunkState`, which is handed from block to block of one file.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.fast_lines.ordinary_lines import OrdinaryLines, read_ordinary
from spark_jobs.ingest.lines.api_fields import ApiFields
from spark_jobs.ingest.lines.envelope import JOINED_BYTES_MAX, EnvelopeState, unwrap
from spark_jobs.ingest.lines.line_reader import Reason, read_request
from spark_jobs.ingest.lines.line_time import STAMP, LineClock
from spark_jobs.ingest.lines.record_time import ReplicaWaits, recorded_interval
from spark_jobs.ingest.lines.request_line import RequestLine
from spark_jobs.ingest.lines.served_apis import API_VERSIONS, ServedApis, answer_in
from spark_jobs.ingest.lines.text_request import BrokerVersion, LoggedRequest
from spark_jobs.warehouse.days import CALENDAR_END_MS
from spark_jobs.warehouse.tables import QUARANTINE, REQUESTS

LINE_BYTES_MAX = JOINED_BYTES_MAX - 1
"""A longer line is not read. The log holds no record, so a request of 100 MB has a short line."""
QUARANTINED_TEXT_MAX = 500
"""So many characters of a quarantined line are kept."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How an archive's lines are to be read; the prefix is a regular expression.

    Requests from ``until_ms`` on are of the future, and go to quarantine.
    """

    timezone: str
    prefix: str | None
    listener_brokers: Mapping[str, int]
    until_ms: int = CALENDAR_END_MS


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where a block comes from: its file, its broker (None: not in the path), its first line."""

    source_file: str
    broker_id: int | None
    first_line: int


@dataclass(slots=True)
class ChunkState:
    """What one block of a file leaves to the next."""

    clock: LineClock | None = None
    envelope: EnvelopeState = field(default_factory=EnvelopeState)
    is_after_other: bool = False
    last_time_ms: int | None = None
    waits: ReplicaWaits = field(default_factory=ReplicaWaits)
    version: BrokerVersion = field(default_factory=BrokerVersion)
    served: ServedApis = field(default_factory=ServedApis)


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """What a block holds: ``lines_read`` = requests + quarantine + ``other``."""

    requests: pa.RecordBatch
    quarantine: pa.RecordBatch
    lines_read: int
    other: int


def parse_chunk(
    data: bytes, source: LineSource, options: LogOptions, state: ChunkState, *, is_last: bool
) -> tuple[ParsedChunk, ChunkState]:
    """Return the rows of ``data`` (whole lines) and the state for the next block of the file.

    ``is_last`` ends the file: what still waits for its continuation is quarantined.
    """
    reader = _reader(source, options, state)
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    found = None
    if options.prefix is None and whole:
        found = read_ordinary(
            whole, source.broker_id, options.listener_brokers, reader.clock, state.waits
        )
    # One byte more is the line's end.
    if found is None or np.diff(found.starts).max(initial=0) > LINE_BYTES_MAX + 1:
        return parse_line_by_line(data, source, options, state, is_last=is_last)
    row = 0
    begins, ends = found.starts[found.left_lines], found.starts[found.left_lines + 1] - 1
    is_empty = begins == ends
    # All at once: one after the other, the millions that a small file packs would take a minute.
    reader.count_blank(int(np.count_nonzero(is_empty)))
    left = (found.left_lines, begins, ends)
    for line, begin, end in zip(*(of[~is_empty].tolist() for of in left), strict=True):
        text = whole[begin:end]
        if text.isspace():
            reader.count_blank(1)
            continue
        row = _pass_by(found, row, line, state, reader.clock)
        reader.read(text, source.first_line + line)
    lines_read = len(found.starts) - 1
    _pass_by(found, row, lines_read, state, reader.clock)
    for broker_id, text in found.of_api(API_VERSIONS):
        state.served.take_answer(broker_id, answer_in(text))
    if is_last:
        reader.end()
    ordinary = found.batch(source.source_file, source.first_line)
    return reader.parsed(lines_read, ordinary), state


def parse_line_by_line(
    data: bytes, source: LineSource, options: LogOptions, state: ChunkState, *, is_last: bool
) -> tuple[ParsedChunk, ChunkState]:
    """Return the result of :func:`parse_chunk`, whose reference this is: every line read alone."""
    reader = _reader(source, options, state)
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, start=source.first_line):
        if raw:
            reader.read(raw, number)
        else:
            reader.count_blank(1)
    if is_last:
        reader.end()
    return reader.parsed(len(lines)), state


def first_times_ms(data: bytes, timezone: dt.tzinfo, prefix: str | None) -> list[int]:
    """Return the times of the lines at a file's begin that have one; the last line may be cut."""
    clock, envelope = LineClock(timezone), EnvelopeState()
    pattern = re.compile(prefix.encode()) if prefix else None
    texts = (unwrap(raw, envelope, pattern) for raw in data.split(b"\n"))
    stamps = (STAMP.match(text) for text in texts if text is not None)
    times_ms = (clock.epoch_ms(stamp[1]) for stamp in stamps if stamp is not None)
    return [ms for ms in times_ms if ms is not None]


def _pass_by(found: OrdinaryLines, row: int, line: int, state: ChunkState, clock: LineClock) -> int:
    """Update ``state`` by the rows from ``row`` to before ``line``; return the row after them."""
    end = int(np.searchsorted(found.lines, line))
    if end > row:
        state.waits.learn(found.produces, row, end)
        clock.pass_by(int(found.log_time_ms[end - 1]))
        state.is_after_other = False
    return end


def _reader(source: LineSource, options: LogOptions, state: ChunkState) -> _Reader:
    if state.clock is None:
        zone = zoneinfo.ZoneInfo(options.timezone)
        state.clock = LineClock(zone, until_ms=options.until_ms)
    return _Reader(source, options, state, state.clock)


class _Reader:
    """Gathers the rows of one block."""

    def __init__(
        self, source: LineSource, options: LogOptions, state: ChunkState, clock: LineClock
    ) -> None:
        self._source, self._options, self._state = source, options, state
        self._prefix = re.compile(options.prefix.encode()) if options.prefix else None
        self._requests: list[tuple[object, ...]] = []
        self._quarantine: list[tuple[object, ...]] = []
        self._other = 0
        self.clock = clock

    def read(self, raw: bytes, number: int) -> None:
        """Take one line of the file into account."""
        text = unwrap(raw, self._state.envelope, self._prefix)
        if text is None:  # its end is on a later line, which then counts as the request
            self._other += 1
            return
        if len(text) > LINE_BYTES_MAX:
            self._too_long(text, number)
            return
        stamp = STAMP.match(text)
        if stamp is None:
            self._without_stamp(text, number)
            return
        time_ms = self.clock.epoch_ms(stamp[1])
        found = read_request(text) if time_ms is not None else Reason.BAD_TIME
        if time_ms is not None and self.clock.is_future(time_ms):
            # Without a time it is told of on the day of the lines around it.
            time_ms = None
            found = Reason.FUTURE if isinstance(found, LoggedRequest) else found
        if isinstance(found, LoggedRequest) and found.clue is not None:
            self._state.version.take(found.clue)
            if self._state.version.is_before_2_0:
                found = Reason.BEFORE_2_0
        if isinstance(found, LoggedRequest):
            assert time_ms is not None
            self._request(found, time_ms, text, number)
        elif found is None:
            self._other += 1
        else:
            self._set_aside(found, text, number, time_ms)
        self._state.is_after_other = found is None

    def count_blank(self, lines: int) -> None:
        """Count lines of nothing but white space: they change nothing that others are read by."""
        self._other += lines

    def end(self) -> None:
        """Quarantine the joined line whose end never came; its parts were counted as other."""
        for text in self._state.envelope.unfinished():
            self._other -= 1
            self._set_aside(Reason.CUT, text, self._source.first_line, None)

    def parsed(self, lines_read: int, ordinary: pa.RecordBatch | None = None) -> ParsedChunk:
        """Return everything read, ``ordinary`` requests among it."""
        requests = request_batch(self._requests)
        return ParsedChunk(
            requests=requests if ordinary is None else in_order(ordinary, requests),
            quarantine=quarantine_batch(self._quarantine),
            lines_read=lines_read,
            other=self._other,
        )

    def _too_long(self, text: bytes, number: int) -> None:
        stamp = STAMP.match(text)
        time_ms = self.clock.epoch_ms(stamp[1]) if stamp else None
        is_known = time_ms is not None and not self.clock.is_future(time_ms)
        self._set_aside(Reason.TOO_LONG, text, number, time_ms if is_known else None)
        self._state.is_after_other = False

    def _without_stamp(self, text: bytes, number: int) -> None:
        # A stack trace follows the line of another logger that it belongs to.
        if not text.strip() or self._state.is_after_other:
            self._other += 1
        else:
            self._set_aside(Reason.FOREIGN, text, number, None)

    def _request(self, found: LoggedRequest, time_ms: int, text: bytes, number: int) -> None:
        broker_id = self._source.broker_id
        if broker_id is None:
            broker_id = self._options.listener_brokers.get(found.line.local_address)
        if broker_id is None:
            self._set_aside(Reason.UNKNOWN_BROKER, text, number, time_ms)
            return
        if found.line.requestHeader.requestApiKey == API_VERSIONS:
            self._state.served.take_answer(broker_id, bytes(found.line.response))
        file = self._source.source_file
        self._requests.append(
            request_row(
                found.line, found.fields, broker_id, time_ms, file, number, self._state.waits
            )
        )

    def _set_aside(self, reason: Reason, text: bytes, number: int, time_ms: int | None) -> None:
        kept = text[: 4 * QUARANTINED_TEXT_MAX].decode("utf-8", "replace")[:QUARANTINED_TEXT_MAX]
        source = self._source
        self._quarantine.append(
            (source.broker_id, time_ms, source.source_file, number, str(reason), kept)
        )


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
