"""What a file says of each day: the same requests have the same digest, in whichever file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from spark_jobs.warehouse.days import DAY_MS

# They tell a logged request from every other one, and all but never change with the reader.
_COLUMNS = ("log_time_ms", "correlation_id", "api_key", "total_time_us")


def rows_by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield number of day and rows of a block of requests, in their order."""
    if not len(rows):
        return
    days = np.asarray(rows["log_time_ms"]) // DAY_MS
    if days.min() == days.max():
        yield int(days[0]), rows
        return
    for day in np.unique(days).tolist():
        yield day, rows.filter(pa.array(days == day))


class DayDigests:
    """Digests that grow with the requests of a file, however it is cut into blocks."""

    def __init__(self) -> None:
        self._digests: dict[int, list[xxhash.xxh3_128]] = {}

    def take(self, day: int, rows: pa.RecordBatch) -> None:
        """Take the next requests of a day."""
        digests = self._digests.setdefault(day, [xxhash.xxh3_128() for _ in _COLUMNS])
        for digest, name in zip(digests, _COLUMNS, strict=True):
            digest.update(_numbers(rows[name]))

    def found(self) -> dict[int, str]:
        """Return the digest of each day, in hex."""
        return {
            day: xxhash.xxh3_128_hexdigest(b"".join(digest.digest() for digest in digests))
            for day, digests in self._digests.items()
        }


def _numbers(column: pa.Array) -> memoryview:
    return np.ascontiguousarray(pc.fill_null(column.cast(pa.int64()), -1)).data
