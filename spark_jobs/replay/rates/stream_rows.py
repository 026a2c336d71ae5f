"""Amounts of one quota type on one broker as arrays: as they came, in order, and decided.

Names stay dictionaries, and sensors are numbered, so that no row carries text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from spark_jobs.quota.repeated import joined, taken
from spark_jobs.replay.sensors.amounts import connections_in_turn, encoded

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
    sensor: np.ndarray  # a number of SensorCodes
    level: np.ndarray  # code of the quota's level
    restart_ms: np.ndarray  # the start of the broker's epoch the row is of, 0: not known
    at_ms: np.ndarray  # the estimate
    earliest_ms: np.ndarray
    latest_ms: np.ndarray
    likely_from_ms: np.ndarray
    line_lag_max_ms: np.ndarray  # of LineLags
    stamp_ms: np.ndarray  # the broker's own stamp of the record, NOT_STAMPED: not logged
    amount: np.ndarray  # NaN: not in the log
    bound: np.ndarray  # NaN: none in force
    logged_ms: np.ndarray  # the logged throttle time
    known_for_ms: np.ndarray
    change_distance_ms: np.ndarray
    bound_beside: np.ndarray  # on the other side of that change, NaN: not known
    has_request_bound: np.ndarray
    lost_requests: np.ndarray
    joined_ms: np.ndarray  # since when the client's amounts go to the sensor
    may_precede: np.ndarray  # bool: recorded before they did, then on another sensor or on none
    # Of fetches, else zeros and NaN.
    request_bytes: np.ndarray
    fetch_max_bytes: np.ndarray
    has_records: np.ndarray
    has_errors: np.ndarray
    # Of request times, else NaN: what is counted once the response was sent, at most, and likely
    # but for the read; what a short send took; and what missing requests may have added.
    unlogged_amount_max: np.ndarray
    unlogged_likely: np.ndarray
    short_send_us: np.ndarray
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

    def connections(self) -> np.ndarray:
        """Return the number of each row's connection, such as 3: the same where it is the same."""
        return np.asarray(encoded(self.lines["connection"]).indices.to_numpy()[self.line])

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


@dataclass(frozen=True, slots=True)
class SensorRows:
    """One epoch of one sensor, in the order of the estimates; arrays of one length."""

    log_time_ms: np.ndarray
    at_ms: np.ndarray
    earliest_ms: np.ndarray
    latest_ms: np.ndarray
    likely_from_ms: np.ndarray
    line_lag_max_ms: np.ndarray
    stamp_ms: np.ndarray
    amount: np.ndarray
    bound: np.ndarray
    logged_ms: np.ndarray
    known_for_ms: np.ndarray
    change_distance_ms: np.ndarray
    bound_beside: np.ndarray
    has_request_bound: np.ndarray
    lost_requests: np.ndarray
    may_precede: np.ndarray
    connection: np.ndarray  # a number each


_SENSOR_ROWS = tuple(f.name for f in fields(SensorRows)[:-1])


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """``rows`` in an order, with what every step looks at as columns in it."""

    rows: StreamRows
    order: np.ndarray
    sensor: np.ndarray
    restart_ms: np.ndarray
    at_ms: np.ndarray
    amount: np.ndarray
    bound: np.ndarray
    logged_ms: np.ndarray
    connection: np.ndarray  # a number each

    @classmethod
    def of(cls, rows: StreamRows, order: np.ndarray) -> OrderedRows:
        """Return ``rows`` in this order."""
        names = [f.name for f in fields(cls)[2:-1]]
        columns = [taken(getattr(rows, name), order) for name in names]
        return cls(rows, order, *[*columns, rows.connections()[order]])

    def __len__(self) -> int:
        return len(self.order)

    def take(self, places: np.ndarray) -> StreamRows:
        """Return the rows at these indices of the order."""
        return self.rows.take(self.order[places])

    def stretch(self, start: int, stop: int) -> SensorRows:
        """Return the rows of one epoch of a sensor, which lie from ``start`` to ``stop``."""
        places = self.order[start:stop]
        columns = [getattr(self.rows, name)[places] for name in _SENSOR_ROWS]
        source_line = taken(self.rows.lines["source_line"].to_numpy(), self.rows.line[places])
        connection = connections_in_turn(self.connection[start:stop], source_line)
        return SensorRows(*[*columns, connection])


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions, each sensor's together and in recording order; arrays of one length."""

    rows: StreamRows  # ``amount`` is what was recorded, or given back by the throttle
    epoch: np.ndarray
    seq: np.ndarray
    recorded_at_ms: np.ndarray
    is_unrecorded: np.ndarray
    answered: np.ndarray  # bytes that a throttled fetch was given in the end, NaN: not in the log
    rate: np.ndarray
    window_size_ms: np.ndarray
    throttle_ms: np.ndarray
    # Between these lies what a request quota asked for; UNKNOWN_MS: another quota, or nobody knows.
    throttle_min_ms: np.ndarray
    throttle_max_ms: np.ndarray
    throttle_likely_min_ms: np.ndarray
    throttle_likely_max_ms: np.ndarray
    is_proven: np.ndarray
    verdict: np.ndarray  # an index into RATE_VERDICTS (replay.verdicts)
    # The same if the request's other quota, the one on its time, asked for nothing.
    verdict_alone: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: np.ndarray) -> Decided:
        """Return the decisions at these indices."""
        columns = (getattr(self, f.name)[places] for f in fields(self)[1:])
        return Decided(self.rows.take(places), *columns)
