"""What one client did with one quota, for a chart of any length.

Its rate or tokens by broker, when the samples of a rate began, and when its quota changed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds

from quota_pages.kept_tables import read_kept
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.numbers import rate

POINTS_MAX = 1500
"""Of one broker: more than a screen has pixels for helps nobody."""
SECONDS_RANGE_MAX_MS = 7_200_000
_MINUTE_MS, _HOUR_MS, DAY_MS = ROLLUP_SPANS_MS
MINUTES_RANGE_MAX_MS = 3 * DAY_MS
_STEPS_MS = tuple(
    1000 * s for s in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
)
SAMPLES_RANGE_MAX_MS = 120_000
"""A longer stretch has more samples than can be told apart."""
_LOOK_BACK_MS = 600_000
_SAMPLE_ROWS_MAX = 200_000
MARKS_MAX = 200
_CHANGE_COLUMNS = ["quota_user", "quota_client_id", "bound", "broker_id", "valid_from_ms",
                   "valid_until_ms"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Series:
    """One broker's steps with traffic, in order; arrays of one length, NaN where unknown."""

    broker_id: int
    start_ms: Int64s
    value: Floats  # the highest rate of a step; of mutations the lowest tokens
    bound: Floats  # the highest of the step
    amount: Floats
    throttled_requests: Int64s
    throttle_time_ms: Int64s


@dataclass(frozen=True, slots=True)
class History:
    """The series of some brokers; each point stands for ``step_ms``."""

    step_ms: int
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose history, of which brokers (None: all), from when until when (epoch ms)."""

    quota_type: str
    quota_user: str
    quota_client_id: str
    from_ms: int
    until_ms: int
    broker_ids: tuple[int, ...] | None = None

    @property
    def is_tokens(self) -> bool:
        """Return True if a token bucket decides."""
        return self.quota_type == "controller_mutation_rate"

    @property
    def is_client(self) -> ds.Expression:
        """Return the condition that rows of a table with a sensor key are of the client."""
        return (
            (ds.field("quota_type") == self.quota_type)
            & (ds.field("quota_user") == self.quota_user)
            & (ds.field("quota_client_id") == self.quota_client_id)
        )

    def is_row(self, time_column: str) -> ds.Expression:
        """Return the condition that rows with ``time_column`` (epoch ms) are wanted."""
        time_ms = ds.field(time_column)
        chosen = self.is_client & (time_ms >= self.from_ms) & (time_ms < self.until_ms)
        if self.broker_ids is not None:
            chosen &= ds.field("broker_id").isin(self.broker_ids)
        return chosen


def read_history(scope: RunScope, wanted: Wanted) -> History:
    """Return the history of ``wanted``, from the days of the cluster of ``scope``.

    As fine as its length allows: seconds up to two hours (where the table of the day has them),
    minutes up to three days, else hours; never more than POINTS_MAX steps of a broker.
    """
    length_ms = wanted.until_ms - wanted.from_ms
    minutes = _rows(scope, wanted, _MINUTE_MS if length_ms <= MINUTES_RANGE_MAX_MS else _HOUR_MS)
    rows = minutes
    if length_ms <= SECONDS_RANGE_MAX_MS:
        seconds = _seconds(scope, wanted, minutes)
        rows = seconds if seconds.num_rows else minutes
    finest_ms = _MINUTE_MS if rows is minutes else 1000
    finest_ms = finest_ms if length_ms <= MINUTES_RANGE_MAX_MS else _HOUR_MS
    step_ms = next(
        (s for s in _STEPS_MS if s >= finest_ms and length_ms / s <= POINTS_MAX), _STEPS_MS[-1]
    )
    return History(step_ms, tuple(_by_broker(rows, wanted, step_ms)))


def _days(scope: RunScope, wanted: Wanted, table: str) -> Iterator[RunScope]:
    for day in days_of(scope.warehouse, scope.cluster, table):
        begin_ms = day_begin_ms(day)
        if wanted.from_ms < begin_ms + DAY_MS and begin_ms < wanted.until_ms:
            yield scope if day == scope.day else scope.on(day)


def day_begin_ms(day: dt.date) -> int:
    """Return the first millisecond of a UTC day."""
    return (day - dt.date(1970, 1, 1)).days * DAY_MS


def _rows(scope: RunScope, wanted: Wanted, span_ms: int) -> pa.Table:
    # A step that began before the range and reaches into it is shown whole.
    whole = replace(wanted, from_ms=wanted.from_ms // span_ms * span_ms)
    where = whole.is_row("from_ms") & (ds.field("span_ms") == span_ms)
    return _read(scope, whole, "rate_rollups", ("from_ms", "bound_max"), where)


def _seconds(scope: RunScope, wanted: Wanted, minutes: pa.Table) -> pa.Table:
    rows = _read(scope, wanted, "rates", ("second_ms", "bound"), wanted.is_row("second_ms"))
    # A request is in the seconds of every sensor that it was recorded on; the minutes know which
    # of them throttled it.
    own = minutes.filter(ds.field("throttled_requests") > 0)
    of_own = {(b, t) for b, t in zip(_ints(own, "broker_id"), _ints(own, "start_ms"), strict=True)}
    minute = _ints(rows, "start_ms") // _MINUTE_MS * _MINUTE_MS
    pairs = zip(_ints(rows, "broker_id"), minute, strict=True)
    is_own = np.fromiter((pair in of_own for pair in pairs), bool, rows.num_rows)
    for name in ("throttled_requests", "throttle_time_ms"):
        place = rows.column_names.index(name)
        kept = pa.array(np.where(is_own, _ints(rows, name), 0))
        rows = rows.set_column(place, name, kept)
    return rows


def _read(
    scope: RunScope, wanted: Wanted, table: str, called: tuple[str, str], where: ds.Expression
) -> pa.Table:
    """Return rows of ``table``, in which the begin of a step and its bound are ``called`` so."""
    start, bound = called
    value = "tokens" if wanted.is_tokens else "rate"
    sums = ["amount", "throttled_requests", "throttle_time_ms"]
    columns = ["broker_id", start, value, bound, *sums]
    rows = read_kept(list(_days(scope, wanted, table)), table, columns, where)
    return rows.rename_columns(["broker_id", "start_ms", "value", "bound", *sums])


def _by_broker(rows: pa.Table, wanted: Wanted, step_ms: int) -> Iterator[Series]:
    broker_id, at_ms = _ints(rows, "broker_id"), _ints(rows, "start_ms")
    order = np.lexsort((at_ms, broker_id))
    broker_id, starts = broker_id[order], at_ms[order] // step_ms * step_ms
    if not len(order):
        return
    is_first = np.append(True, (np.diff(starts) != 0) | (np.diff(broker_id) != 0))
    first = np.flatnonzero(is_first)
    highest = np.fmin if wanted.is_tokens else np.fmax
    found = {
        "value": highest.reduceat(_floats(rows, "value")[order], first),
        "bound": np.fmax.reduceat(_floats(rows, "bound")[order], first),
        "amount": np.add.reduceat(_floats(rows, "amount")[order], first),
        "throttled_requests": np.add.reduceat(_ints(rows, "throttled_requests")[order], first),
        "throttle_time_ms": np.add.reduceat(_ints(rows, "throttle_time_ms")[order], first),
    }
    of_step, starts = broker_id[first], starts[first]
    for broker in np.unique(of_step).tolist():
        own = of_step == broker
        yield Series(broker, starts[own], **{name: kept[own] for name, kept in found.items()})


def _ints(rows: pa.Table, name: str) -> Int64s:
    return np.asarray(rows[name].to_numpy(), dtype=np.int64)


def _floats(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows[name].to_numpy(), dtype=np.float64)


def sample_starts_of(
    scope: RunScope, wanted: Wanted, window_ms: Mapping[int, int]
) -> dict[int, list[int]]:
    """Return the starts of samples in the range of ``wanted`` by broker, epoch ms; none if unknown.

    ``window_ms`` has the length of a sample of each broker that is asked about.
    """
    earlier = replace(wanted, from_ms=wanted.from_ms - _LOOK_BACK_MS, broker_ids=tuple(window_ms))
    columns = ["broker_id", "sensor_epoch", "sensor_seq", "recorded_at_ms"]
    rows = read_kept([scope], "decisions", columns, earlier.is_row("recorded_at_ms"))
    if rows.num_rows > _SAMPLE_ROWS_MAX:
        return {}
    rows = rows.sort_by([(name, "ascending") for name in columns[:3]])
    broker_ids, epochs, seqs, times = (rows[name].to_numpy() for name in columns)
    found: dict[int, list[int]] = {broker_id: [] for broker_id in window_ms}
    for broker_id, epoch in sorted(set(zip(broker_ids.tolist(), epochs.tolist(), strict=True))):
        own = np.flatnonzero((broker_ids == broker_id) & (epochs == epoch))
        is_begin = bool(seqs[own[0]] == 0)
        starts = sample_starts(times[own], window_ms[broker_id], is_begin)
        known = [] if starts is None else starts[starts >= wanted.from_ms].tolist()
        found[broker_id] += known
    return found


def sample_starts(recorded_at_ms: Int64s, window_ms: int, is_epoch_begin: bool) -> Int64s | None:
    """Return the starts of samples, epoch ms in order; None where they cannot be known.

    The first amount that is recorded a window's length or more after a sample began begins the
    next one (Kafka: ``SampledStat.record``, ``Sample.isComplete``), so each start depends on the
    one before. Starts are known from the sensor's first record on (``is_epoch_begin``), or from
    the first record after a pause as long as a window: a sample began then, whatever came before.
    """
    if not len(recorded_at_ms):
        return None
    first = 0
    if not is_epoch_begin:
        pauses = np.flatnonzero(np.diff(recorded_at_ms) >= window_ms)
        if not len(pauses):
            return None
        first = int(pauses[0]) + 1
    starts = []
    while first < len(recorded_at_ms):
        starts.append(int(recorded_at_ms[first]))
        first = int(np.searchsorted(recorded_at_ms, starts[-1] + window_ms, side="left"))
    return np.array(starts, np.int64)


@dataclass(frozen=True, slots=True)
class QuotaMark:
    """One moment at which a value was set or removed; ``broker_id`` None: on every broker."""

    at_ms: int
    broker_id: int | None
    text: str


def quota_marks(scope: RunScope, wanted: Wanted) -> list[QuotaMark]:
    """Return the changes in the range, in order, of every entity that may limit the sensor.

    Those are the client's own and the defaults at its levels (Kafka:
    ``ClientQuotaManager.quotaEntity``).
    """
    where = (
        (ds.field("quota_type") == wanted.quota_type)
        & _is_own_or_default("quota_user", wanted.quota_user)
        & _is_own_or_default("quota_client_id", wanted.quota_client_id)
    )
    rows = read_kept([scope], "quota_changes", _CHANGE_COLUMNS, where).to_pylist()
    key = itemgetter("quota_user", "quota_client_id", "broker_id")
    begun = {(key(row), row["valid_from_ms"]) for row in rows}
    marks = []
    for row in rows:
        user, client_id, broker_id = key(row)
        name, until_ms = entity_name(user, client_id), row["valid_until_ms"]
        value = rate(row["bound"], wanted.quota_type)
        marks.append(QuotaMark(row["valid_from_ms"], broker_id, f"{name}: {value}"))
        if until_ms is not None and (key(row), until_ms) not in begun:
            marks.append(QuotaMark(until_ms, broker_id, f"{name}: removed"))
    inside = [mark for mark in marks if wanted.from_ms <= mark.at_ms < wanted.until_ms]
    return sorted(inside, key=lambda mark: (mark.at_ms, mark.text))[:MARKS_MAX]


def _is_own_or_default(column: str, name: str) -> ds.Expression:
    field = ds.field(column)
    if not name:
        return field.is_null()
    return field.isin([name, DEFAULT])
