"""Reading exports of brokers' metrics: plain JSON, or packed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from zstandard import ZstdError

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archived_file import open_packed, open_regular
from spark_jobs.judge.metrics.metric_export import read_export
from spark_jobs.judge.metrics.quota_metrics import QuotaSeries, quota_series

EXPORT_BYTES_MAX = 512 << 20
_PIECE_BYTES = 1 << 20


def read_exports(
    paths: Iterable[Path], instances: Mapping[str, int], brokers: Iterable[int]
) -> tuple[list[QuotaSeries], int]:
    """Return the series of all files, and how many series are no rate or throttle of bytes.

    Raises BadInputError where a file cannot be read or understood; see :func:`quota_series`.
    """
    found: list[QuotaSeries] = []
    others = 0
    for path in paths:
        series, other = quota_series(
            read_export(_text_of(path), str(path)), str(path), instances, brokers
        )
        found += series
        others += other
    return found, others


def _text_of(path: Path) -> bytes:
    pieces, size = [], 0
    try:
        with open_regular(path) as raw:
            source = open_packed(raw, path.suffix)
            while piece := source.read1(_PIECE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > EXPORT_BYTES_MAX:
                    raise BadInputError(
                        f"{path} has more than {EXPORT_BYTES_MAX:,} bytes unpacked. Export fewer "
                        "hours or brokers to a file."
                    )
    except (OSError, EOFError, ZstdError, zlib.error) as error:
        raise BadInputError(f"{path} cannot be unpacked: {error}. Export it again.") from error
    return b"".join(pieces)
