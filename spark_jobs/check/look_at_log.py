"""Reading a request log, or its beginning, middle and end, as an ingest reads lines."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from spark_jobs.check.block_facts import client_lines, take_block
from spark_jobs.check.clock import FILE_TIME, ClockSign
from spark_jobs.check.looked_at import FileLook
from spark_jobs.check.sampling import PIECES, piece_begins
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.archived_file import open_packed, open_regular
from spark_jobs.ingest.lines.chunk import (
    LINE_BYTES_MAX,
    ChunkState,
    LineSource,
    LogOptions,
    parse_chunk,
)
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks, read_block
from spark_jobs.ingest.read_logs import ALTERATION_COLUMNS

BLOCK_BYTES = 1 << 20
PACKED = (".gz", ".zst")
UNREADABLE_FILE = "unreadable_file"


@dataclass(frozen=True, slots=True)
class Looking:
    """How files are looked at; ``keeps_lines``: what the search for lost lines needs is kept."""

    options: LogOptions
    unpacked_ratio_max: int
    keeps_lines: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole lines of a file, in the order of the file."""

    data: bytes
    begins_anew: bool  # lines between this and the piece before were not read


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
    is_in_pieces = share_bytes is not None and not look.is_packed and log.size_bytes > share_bytes
    digest = xxhash.xxh3_128()
    try:
        if share_bytes is None:
            for block in line_blocks(log.path, BLOCK_BYTES, looking.unpacked_ratio_max):
                digest.update(block)
                lines.take(_Piece(block, False))
            look.packed_bytes, look.is_whole = log.size_bytes, True
        elif is_in_pieces:
            for piece in _pieces(log, share_bytes, look):
                lines.take(piece)
        else:
            for block in _beginning(log, share_bytes, look):
                digest.update(block)
                lines.take(_Piece(block, False))
    except TruncatedFileError as error:
        look.cut = str(error)
        look.is_whole = True
        look.packed_bytes = log.size_bytes
        look.lines += 1
        look.quarantined[UNREADABLE_FILE] += 1
    lines.end(is_last=look.is_whole and not look.cut)
    look.reaches_end = look.is_whole or is_in_pieces
    look.digest = digest.hexdigest() if look.is_whole else None


class _Lines:
    """Hands blocks of one file to the reader of ingest, with the state between blocks."""

    def __init__(self, log: LogFile, looking: Looking, look: FileLook) -> None:
        self._log, self._looking, self._look = log, looking, look
        self._state = ChunkState()
        self._timezone = zoneinfo.ZoneInfo(looking.options.timezone)

    def take(self, piece: _Piece) -> None:
        """Read a piece."""
        if piece.begins_anew:
            # A stack trace may have begun before the piece; the broker's version is still known.
            self._state = ChunkState(
                waits=self._state.waits, version=self._state.version, is_after_other=True
            )
        self._parse(piece.data, is_last=False, follows=not piece.begins_anew)

    def end(self, *, is_last: bool) -> None:
        """Read the begin of a line whose rest never comes."""
        if is_last:
            self._parse(b"", is_last=True, follows=True)

    def _parse(self, data: bytes, *, is_last: bool, follows: bool) -> None:
        look = self._look
        source = LineSource(self._log.source_file, self._log.broker_id, look.lines + 1)
        options = self._looking.options
        parsed, self._state = parse_chunk(data, source, options, self._state, is_last=is_last)
        take_block(look, data, parsed, self._timezone, ALTERATION_COLUMNS, follows=follows)
        if self._looking.keeps_lines and len(parsed.requests):
            # A copy, for a slice would keep all columns in memory.
            look.client_lines.append(_copied(client_lines(parsed.requests)))


def _copied(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array(range(len(rows)), pa.int64()))


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


def _pieces(log: LogFile, share_bytes: int, look: FileLook) -> Iterator[_Piece]:
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
                    yield _Piece(block[:cut], is_new)
                    is_new = False
