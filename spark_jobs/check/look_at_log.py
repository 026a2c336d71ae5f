"""Reading a request log, or its beginning, middle and end, as an ingest reads lines."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from spark_jobs.check.clock import FILE_TIME, ClockSign, has_offsets, set_back, signs_of_block
from spark_jobs.check.looked_at import FileLook, Group
from spark_jobs.check.sampling import PIECES, piece_begins
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.archived_file import open_packed, open_regular
from spark_jobs.ingest.lines.chunk import (
    LINE_BYTES_MAX,
    ChunkState,
    LineSource,
    LogOptions,
    ParsedChunk,
    parse_chunk,
)
from spark_jobs.ingest.lines.request_line import MARKER
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks, read_block
from spark_jobs.ingest.lost_lines.gap_spans import FETCH, PRODUCE, SHARE_FETCH
from spark_jobs.ingest.messages.message_definition import CONTROLLER_APIS
from spark_jobs.ingest.read_logs import ALTERATION_COLUMNS, UNREADABLE_FILE
from spark_jobs.warehouse.days import HOUR_MS

BLOCK_BYTES = 1 << 20
PACKED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Looking:
    """How files are looked at; ``keeps_lines``: what the search for lost lines needs is kept."""

    options: LogOptions
    unpacked_ratio_max: int
    keeps_lines: bool


_Piece = tuple[bytes, bool]
"""Whole lines of a file, and whether lines between them and the piece before were not read."""


def look_at_log(log: LogFile, looking: Looking, share_bytes: int | None) -> FileLook:
    """Return a look at ``share_bytes`` of a file (None: all), counted as the ingest would.

    A file that cannot be read has the reason in ``refused``; one that ends early in ``cut``.
    """
    is_packed = log.path.suffix in PACKED
    modified_ms = None if log.modified_ns is None else log.modified_ns // 1_000_000
    look = FileLook(log.source_file, log.broker_id, log.size_bytes, modified_ms, is_packed)
    try:
        _read(log, looking, share_bytes, look)
    except BadInputError as error:
        look.refused = str(error)
    if look.reaches_end and not look.cut and look.last_ms is not None and modified_ms is not None:
        apart_ms = look.last_ms - modified_ms
        look.signs.append(ClockSign(FILE_TIME, look.broker_id, apart_ms, look.last_ms))
    return look


def _read(log: LogFile, looking: Looking, share_bytes: int | None, look: FileLook) -> None:
    """Read the pieces of a file into ``look``."""
    lines = _Lines(log, looking, look)
    digest = xxhash.xxh3_128()
    try:
        for data, begins_anew in _pieces(log, looking, share_bytes, look):
            digest.update(data)
            lines.take(data, begins_anew=begins_anew)
    except TruncatedFileError as error:
        look.cut = str(error)
        look.is_whole = True
        look.packed_bytes = log.size_bytes
        look.lines += 1
        look.quarantined[UNREADABLE_FILE] += 1
    if look.is_whole and not look.cut:
        lines.parse(b"", is_last=True, follows=True)
    look.reaches_end |= look.is_whole
    look.digest = digest.hexdigest() if look.is_whole else None


class _Lines:
    """Hands blocks of one file to the reader of ingest, with the state between blocks."""

    def __init__(self, log: LogFile, looking: Looking, look: FileLook) -> None:
        self._log, self._looking, self._look = log, looking, look
        self._state = ChunkState()
        self._timezone = zoneinfo.ZoneInfo(looking.options.timezone)

    def take(self, data: bytes, *, begins_anew: bool) -> None:
        """Read a piece."""
        if begins_anew:
            # A stack trace may have begun before the piece; the broker's version is still known.
            self._state = ChunkState(
                waits=self._state.waits,
                version=self._state.version,
                served=self._state.served,
                is_after_other=True,
            )
        self.parse(data, is_last=False, follows=not begins_anew)

    def parse(self, data: bytes, *, is_last: bool, follows: bool) -> None:
        """Read lines, at the file's end the begin of a line whose rest never comes."""
        look = self._look
        source = LineSource(self._log.source_file, self._log.broker_id, look.lines + 1)
        options = self._looking.options
        parsed, self._state = parse_chunk(data, source, options, self._state, is_last=is_last)
        look.served_beyond = self._state.served.beyond
        _take_block(look, data, parsed, self._timezone, follows=follows)
        if self._looking.keeps_lines and len(parsed.requests):
            rows = parsed.requests.select(list(CLIENT_COLUMNS))
            # A copy, for a slice would keep all columns in memory.
            look.client_lines.append(rows.take(pa.array(range(len(rows)), pa.int64())))


def _pieces(
    log: LogFile, looking: Looking, share_bytes: int | None, look: FileLook
) -> Iterator[_Piece]:
    """Yield all of a file, its beginning, or three pieces of it."""
    if share_bytes is None:
        for block in line_blocks(log.path, BLOCK_BYTES, looking.unpacked_ratio_max):
            yield block, False
        look.packed_bytes, look.is_whole = log.size_bytes, True
    elif look.is_packed or log.size_bytes <= share_bytes:
        for block in _beginning(log, share_bytes, look):
            yield block, False
    else:
        yield from _pieces_of_plain(log, share_bytes, look)
        look.reaches_end = True


def _beginning(log: LogFile, share_bytes: int, look: FileLook) -> Iterator[bytes]:
    """Yield whole lines from the beginning on, up to ``share_bytes`` or the end.

    Raises TruncatedFileError as :func:`line_blocks`.
    """
    rest, read = b"", 0
    with open_regular(log.path) as raw:
        stream = open_packed(raw, log.path.suffix)
        while read < share_bytes:
            block, failure, ended = read_block(stream, min(BLOCK_BYTES, share_bytes))
            read += len(block)
            look.packed_bytes = raw.tell()
            cut = block.rfind(b"\n") + 1
            if cut:
                yield rest + block[:cut]
                rest = block[cut:]
            else:
                rest += block
            if ended:
                look.is_whole = failure is None
                if rest:
                    yield rest
                if failure is not None:
                    raise TruncatedFileError(str(failure) or type(failure).__name__)
                return


def _pieces_of_plain(log: LogFile, share_bytes: int, look: FileLook) -> Iterator[_Piece]:
    """Yield whole lines of the beginning, the middle and the end of a plain file."""
    size = share_bytes // PIECES
    begins = piece_begins(log.size_bytes, share_bytes)
    with open_regular(log.path) as raw:
        for index, begin in enumerate(begins):
            raw.seek(begin)
            is_end = index == len(begins) - 1
            left = log.size_bytes - begin if is_end else size
            is_new = begin > 0
            rest = b""
            if is_new:
                left -= len(raw.readline(LINE_BYTES_MAX))  # the end of a line
            while left > 0 and (block := raw.read(min(BLOCK_BYTES, left))):
                left -= len(block)
                block = rest + block
                cut = len(block) if is_end and left <= 0 else block.rfind(b"\n") + 1
                rest = block[cut:]
                look.packed_bytes += cut
                if cut:
                    yield block[:cut], is_new
                    is_new = False


CLIENT_COLUMNS = (
    "broker_id", "listener", "user", "client_id", "is_forwarded", "connection", "software_name",
    "software_version", "correlation_id", "api_key", "acks", "log_time_ms", "total_time_us",
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

_LEVELS = ("TRACE", "DEBUG", "INFO")
_ADDRESSES_MAX, _SIGNS_MAX = 100, 1000
_JSON_PROTOCOL = re.compile(
    rb'"securityProtocol":"(\w+)","principal":"(?:[^"\\]|\\.)*","listener":"([^"]*)"'
)
_TEXT_PROTOCOL = re.compile(rb"securityProtocol:(\w+),principal:.*?,listener:([^,\s]+)")
_ADDRESS = re.compile(rb'(?:"connection":"| from connection )([^\s"]+?:\d+)-')


def _take_block(
    look: FileLook, data: bytes, parsed: ParsedChunk, timezone: dt.tzinfo, *, follows: bool
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
    look.alterations += _with_items(rows, "quota_alterations", ALTERATION_COLUMNS, room)


def _take_text(look: FileLook, data: bytes, timezone: dt.tzinfo) -> None:
    if not look.has_offsets:
        look.has_offsets = has_offsets(data)
    if not look.has_offsets and len(look.signs) < _SIGNS_MAX:
        look.signs += signs_of_block(data, look.broker_id, timezone)
    look.envelopes[{b"[": "plain", b"{": "docker"}.get(data[:1], _dated(data))] += 1
    text = data.replace(b'\\"', b'"') if data[:1] == b"{" else data
    for level in _LEVELS:
        for blanks in (b" ", b"  "):
            look.levels[level] += text.count(level.encode() + blanks + MARKER)
    for name, begin in (("JSON", b"{"), ("text", b"RequestHeader(")):
        look.formats[name] += text.count(MARKER + begin) + text.count(MARKER + b" " + begin)
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
