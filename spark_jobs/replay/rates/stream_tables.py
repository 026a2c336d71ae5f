"""What a stream decided → rows of its tables: decisions, states, agreement, rates.

Names are dictionaries, so that no row carries text of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.request_intervals import UNKNOWN_MS
from spark_jobs.replay.rates.stream_interval import Handover
from spark_jobs.replay.rates.stream_rows import Decided
from spark_jobs.replay.rates.stream_states import NEVER_MS
from spark_jobs.replay.sensors.amounts import finite, table_of
from spark_jobs.replay.sensors.sensor_states import DECISION, REPLAYED
from spark_jobs.replay.verdicts.verdicts import RATE_VERDICTS
from spark_jobs.warehouse.tables import AGREEMENT, DECISIONS, QUOTA_STATE, RATES, STR


def decisions(decided: Decided, stream: RateStream, *, shared: bool) -> pa.Table:
    """Return rows of DECISIONS; of REPLAYED where ``shared``, for the request quota's part."""
    rows, n = decided.rows, len(decided)
    verdicts, reasons = zip(*RATE_VERDICTS, strict=True)
    lines = rows.own_lines()
    columns: dict[str, object] = {name: lines[name] for name in lines.column_names}
    columns |= {
        "quota_level": _named(stream.codes.levels, rows.level),
        "sensor_epoch": decided.epoch,
        "sensor_seq": decided.seq,
        "recorded_at_ms": decided.recorded_at_ms,
        "amount": finite(rows.amount),
        "is_unrecorded": decided.is_unrecorded,
        "answered_bytes": finite(decided.answered),
        "bound": finite(rows.bound),
        "rate": finite(decided.rate),
        "window_size_ms": pa.array(decided.window_size_ms, mask=decided.window_size_ms < 0),
        "logged_throttle_time_ms": rows.logged_ms,
        "replayed_throttle_time_ms": pa.array(
            decided.throttle_ms.astype(np.int32), mask=np.isnan(rows.bound)
        ),
        "logged_admitted": np.ones(n, bool),
        "replayed_admitted": np.ones(n, bool),
        "verdict": _named(verdicts, decided.verdict),
        "reason": _named(reasons, decided.verdict),
        "is_proven": decided.is_proven,
    }
    if not shared:
        return _table(columns, coded(DECISIONS), stream, rows.sensor)
    columns |= {
        "row_kind": _named([DECISION], np.zeros(n, np.int32)),
        "has_request_bound": rows.has_request_bound,
        "throttle_time_min_ms": _known(decided.throttle_min_ms),
        "throttle_time_max_ms": _known(decided.throttle_max_ms),
        "throttle_time_likely_min_ms": _known(decided.throttle_likely_min_ms),
        "throttle_time_likely_max_ms": _known(decided.throttle_likely_max_ms),
        "verdict_alone": _named(verdicts, decided.verdict_alone),
        "reason_alone": _named(reasons, decided.verdict_alone),
    }
    return _table(columns, coded(REPLAYED), stream, rows.sensor)


def states(stream: RateStream, handover: Handover | None) -> pa.Table:
    """Return rows of QUOTA_STATE: each sensor after its last amount, and what is handed on.

    ``handover`` None: all is said by the state at the end.
    """
    held = stream.states
    sensor = np.flatnonzero(held.at_ms != NEVER_MS)
    columns: dict[str, object] = {
        "sensor_epoch": held.epoch[sensor],
        "sensor_seq": held.seq[sensor],
        "sample_index": held.states.index[sensor],
        "samples": _samples(held.states.take(sensor)),
        "intervals": [stream.intervals and stream.intervals.held(s) for s in sensor.tolist()],
    }
    if handover is not None:
        columns["resumes_from"] = handover.rows(sensor)
    return _table(columns, QUOTA_STATE, stream, sensor)


def _table(
    columns: Mapping[str, object], schema: pa.Schema, stream: RateStream, sensor: np.ndarray
) -> pa.Table:
    """Return rows of ``schema`` on these sensors; columns that are not given are null."""
    names, n = stream.codes.names, len(sensor)
    key = {
        "broker_id": np.full(n, stream.broker_id, np.int32),
        "quota_type": _named([stream.states.quota_type], np.zeros(n, np.int32)),
        "quota_user": _named([user for user, _ in names], sensor),
        "quota_client_id": _named([client_id for _, client_id in names], sensor),
    }
    return table_of({**key, **columns}, schema, n)


def _known(throttle_ms: np.ndarray) -> pa.Array:
    return pa.array(throttle_ms, mask=throttle_ms == UNKNOWN_MS)


def _samples(states: SensorStates) -> pa.ListArray:
    """Return the samples of each sensor, in the order of their slots."""
    is_held = np.arange(states.start_ms.shape[1]) < states.count[:, np.newaxis]
    kind = QUOTA_STATE.field("samples").type
    values = [pa.array(getattr(states, f.name)[is_held]) for f in kind.value_type]
    ends = pa.array(np.append(0, np.cumsum(states.count)), pa.int32())
    samples = pa.StructArray.from_arrays(values, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(ends, samples, type=kind)


_CODED = pa.dictionary(pa.int32(), STR)


def coded(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with its columns of text as dictionaries: the same in a Parquet file."""
    return pa.schema([f.with_type(_CODED) if f.type == STR else f for f in schema])


def _named(names: Sequence[str | None], code: np.ndarray) -> pa.DictionaryArray:
    """Return the name of each ``code``: a null for a negative code and for a name of None."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    place: dict[str | None, int] = {name: i for i, name in enumerate(distinct)}
    # The last one is what a negative code looks up.
    of_code = np.array([*(place.get(name, -1) for name in names), -1], np.int32)
    index = of_code[code]
    has_nulls = len(distinct) < len(names) or len(index) == 0 or index.min() < 0
    indices = pa.array(index, mask=index < 0) if has_nulls else pa.array(index)
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, STR))


_COUNTS = ("decisions", "same_decision", "throttles", "within_1ms", "within_5ms", "proven")


@dataclass(slots=True)
class StreamAgreement:
    """Counts per sensor, and how often throttles were off by how many milliseconds."""

    _counts: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.zeros(0, np.int64) for name in _COUNTS}
    )
    _off_ms: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def take(self, decided: Decided) -> None:
        """Count decisions that have a bound and an amount."""
        rows = decided.rows
        compared = ~np.isnan(rows.bound) & ~np.isnan(rows.amount)
        logged_ms, replayed_ms = rows.logged_ms, decided.throttle_ms
        is_throttle = compared & ((logged_ms > 0) | (replayed_ms > 0))
        off_ms = np.abs(logged_ms - replayed_ms)
        counted = {
            "decisions": compared,
            "same_decision": compared & ((logged_ms > 0) == (replayed_ms > 0)),
            "throttles": is_throttle,
            "within_1ms": is_throttle & (off_ms <= 1),
            "within_5ms": is_throttle & (off_ms <= 5),
            "proven": compared & decided.is_proven,
        }
        sensors = max(int(rows.sensor.max()) + 1, len(self._counts["decisions"]))
        for name, of_row in counted.items():
            total = np.bincount(rows.sensor[of_row], minlength=sensors)
            total[: len(self._counts[name])] += self._counts[name]
            self._counts[name] = total
        throttles = np.flatnonzero(is_throttle)
        of_throttle, off_ms = rows.sensor[throttles], off_ms[throttles]
        for sensor in np.unique(of_throttle).tolist():
            self._off_ms[sensor].update(off_ms[of_throttle == sensor].tolist())

    def rows(self, stream: RateStream) -> pa.Table:
        """Return rows of AGREEMENT."""
        rows = []
        for sensor in np.flatnonzero(self._counts["decisions"]).tolist():
            off_ms = self._off_ms[sensor]
            user, client_id = stream.codes.names[sensor]
            rows.append(
                {
                    "broker_id": stream.broker_id,
                    "quota_type": stream.states.quota_type,
                    "quota_user": user,
                    "quota_client_id": client_id,
                    **{name: int(self._counts[name][sensor]) for name in _COUNTS},
                    "residual_median_ms": _median(off_ms),
                    "residual_max_ms": max(off_ms, default=0),
                }
            )
        return pa.Table.from_pylist(rows, schema=AGREEMENT)


def _median(counts: Counter[int]) -> float:
    if not counts:
        return 0.0
    values = np.repeat(np.array(sorted(counts)), [counts[value] for value in sorted(counts)])
    return float(np.median(values))


HELD_BACK_MS = 2_000
"""A row that is fixed later was recorded so long before a sensor's last one at most."""

GATHERED_ROWS = 32_768
_SUMS = ("throttled_requests", "throttle_time_ms")
_LASTS = ("rate", "bound")
_KEY = ("sensor", "second_ms")
Columns = dict[str, np.ndarray]


@dataclass(slots=True)
class StreamSeconds:
    """Seconds of a stream, gathered to be written many at a time in the order of sensors.

    The last ones of each sensor are held back, for more rows of them.
    """

    _held: Columns | None = None
    _over: list[Columns] = field(default_factory=list)

    def take(self, decided: Decided) -> Columns | None:
        """Return the seconds that are over, once they are many; arrays of one length."""
        fresh = _seconds(decided)
        seconds = _merged(_concat([*([self._held] if self._held else []), fresh]))
        last_ms = np.full(int(seconds["sensor"].max()) + 1, -1, np.int64)
        np.maximum.at(last_ms, seconds["sensor"], seconds["second_ms"])
        is_held = seconds["second_ms"] > last_ms[seconds["sensor"]] - HELD_BACK_MS
        self._held = {name: column[is_held] for name, column in seconds.items()}
        self._over.append({name: column[~is_held] for name, column in seconds.items()})
        if sum(len(over["sensor"]) for over in self._over) < GATHERED_ROWS:
            return None
        return self._gathered()

    def rest(self) -> Columns | None:
        """Return all seconds not returned so far; None where there are none."""
        if self._held is not None:
            self._over.append(self._held)
            self._held = None
        return self._gathered() if self._over else None

    def _gathered(self) -> Columns:
        gathered, self._over = _concat(self._over), []
        return gathered


def rate_rows(seconds: Columns, stream: RateStream) -> pa.Table:
    """Return rows of RATES, in the order of the sensors' names and of time."""
    order = _order(stream.codes.ranks()[seconds["sensor"]], seconds["second_ms"])
    ordered = {name: column[order] for name, column in seconds.items()}
    columns = {
        **{name: ordered[name] for name in ("second_ms", "amount", *_SUMS)},
        **{name: finite(ordered[name]) for name in _LASTS},
    }
    return _table(columns, coded(RATES), stream, ordered["sensor"])


def _seconds(decided: Decided) -> Columns:
    rows = decided.rows
    amount = np.where(decided.is_unrecorded, 0.0, np.nan_to_num(rows.amount))
    return {
        "sensor": rows.sensor.astype(np.int64),
        "second_ms": decided.recorded_at_ms // 1000 * 1000,
        "amount": amount,
        "throttled_requests": (rows.logged_ms > 0).astype(np.int64),
        "throttle_time_ms": rows.logged_ms,
        "rate": decided.rate,
        "bound": rows.bound,
    }


def _order(sensor: np.ndarray, second_ms: np.ndarray) -> np.ndarray:
    """Return the order of sensors and of time: runs that are in order already are merged."""
    second = (second_ms - second_ms.min()) // 1000
    return np.argsort(sensor.astype(np.int64) * (second.max() + 1) + second, kind="stable")


def _concat(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _merged(rows: Columns) -> Columns:
    """Return one row for each sensor and second; of rates and bounds the last one counts.

    Amounts are added from the left, as the sensor recorded them.
    """
    order = _order(rows["sensor"], rows["second_ms"])
    sensor, second_ms = rows["sensor"][order], rows["second_ms"][order]
    is_first = np.append(True, (sensor[1:] != sensor[:-1]) | (second_ms[1:] != second_ms[:-1]))
    starts, second = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    lasts = np.append(starts[1:], len(sensor)) - 1
    merged = {name: rows[name][order[starts]] for name in _KEY}
    merged |= {name: np.add.reduceat(rows[name][order], starts) for name in _SUMS}
    merged["amount"] = np.bincount(second, rows["amount"][order])
    return merged | {name: rows[name][order[lasts]] for name in _LASTS}
