"""Amounts of one quota type on one broker, as arrays: what the replay keeps of requests.

Names stay dictionaries, and sensors are numbered, so that no row carries text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from spark_jobs.quota.repeated import joined, taken

LINE_COLUMNS = (
    "connection", "correlation_id", "api_name", "api_version", "user", "client_id",
    "log_time_ms", "source_file", "source_line",
)  # fmt: skip
"""What a decision says of its request, as in ``tables.REQUESTS``."""


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Amounts in the order of their estimates; arrays of one length."""

    lines: pa.Table  # LINE_COLUMNS of requests, these rows' among them
    line: np.ndarray  # each row's index into ``lines``
    log_time_ms: np.ndarray  # when the line was written
    sensor: np.ndarray  # code of transforms.sensor_codes
    level: np.ndarray  # code of the quota's level
    restart_ms: np.ndarray  # the start of the broker's epoch the row is of, 0: not known
    at_ms: np.ndarray  # the estimate
    earliest_ms: np.ndarray
    latest_ms: np.ndarray
    likely_from_ms: np.ndarray
    stamp_ms: np.ndarray  # the broker's own stamp of the record, NOT_STAMPED: not logged
    amount: np.ndarray  # NaN: not in the log
    bound: np.ndarray  # NaN: none in force
    logged_ms: np.ndarray  # the logged throttle time
    known_for_ms: np.ndarray
    change_distance_ms: np.ndarray
    has_request_bound: np.ndarray
    lost_requests: np.ndarray
    # Of fetches, else zeros and NaN.
    request_bytes: np.ndarray
    fetch_max_bytes: np.ndarray
    has_records: np.ndarray
    has_errors: np.ndarray
    # Of request times, else NaN: what is counted once the response was sent, at most, and what
    # requests that are missing may have added.
    unlogged_amount_max: np.ndarray
    lost_amount_max: np.ndarray

    def __len__(self) -> int:
        return len(self.sensor)

    def take(self, rows: np.ndarray) -> StreamRows:
        """Return the rows at these indices."""
        columns = (getattr(self, f.name) for f in fields(self)[1:])
        return StreamRows(self.lines, *(taken(column, rows) for column in columns))

    def own_lines(self) -> pa.Table:
        """Return LINE_COLUMNS of each row, in their order."""
        return self.lines.take(pa.array(self.line))

    def alone(self) -> StreamRows:
        """Return the same rows with no other row's lines."""
        return replace(self, lines=self.own_lines(), line=np.arange(len(self)))

    @classmethod
    def concat(cls, parts: Sequence[StreamRows]) -> StreamRows:
        """Return the rows of ``parts``, at least one, one after the other."""
        if len(parts) == 1:
            return parts[0]
        lines = pa.concat_tables([part.lines for part in parts]).unify_dictionaries()
        before = np.cumsum([0, *(len(part.lines) for part in parts[:-1])])
        line = [part.line + start for part, start in zip(parts, before, strict=True)]
        names = [f.name for f in fields(cls)[2:]]
        return cls(
            lines.combine_chunks(),
            np.concatenate(line),
            *(joined([getattr(part, name) for part in parts]) for name in names),
        )
