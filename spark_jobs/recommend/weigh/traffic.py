"""Decisions of a day as one set of arrays per sensor: what the rest of this room works on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.partition_inventory import STRICT_SINCE
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS

SENSOR_ORDER = (*ENTITY_COLUMNS, "broker_id", "sensor_epoch", "sensor_seq")
SensorId = tuple[str, str, str]
"""Quota type, user and client-id of a sensor."""

TRAFFIC_COLUMNS = (
    *SENSOR_ORDER, "connection", "api_name", "api_version", "user", "client_id", "resource",
    "recorded_at_ms", "amount", "rate", "is_unrecorded", "bound", "logged_throttle_time_ms",
    "replayed_throttle_time_ms", "logged_admitted",
)  # fmt: skip
"""The columns of ``decisions`` that this room works on."""


@dataclass(frozen=True, slots=True)
class QuotaSensor:
    """One sensor over all brokers, and the quota it followed last in the day."""

    key: SensorId
    decisions: int
    last_ms: int
    level: str  # one of codes.QUOTA_LEVELS
    bound: float


@dataclass(frozen=True, slots=True)
class Amounts:
    """Recorded amounts in (broker, epoch, recording) order; arrays of one length."""

    broker_id: np.ndarray
    sensor_epoch: np.ndarray
    recorded_at_ms: np.ndarray
    amount: np.ndarray  # NaN where the log does not have it
    rate: np.ndarray  # as replayed, NaN where there is none
    # Attempts at the same thing share a number: a throttled fetch is asked again for the same
    # bytes, a refused mutation for the same topic.
    ask: np.ndarray
    is_served: np.ndarray  # the attempt that was delivered, appended or admitted
    bound: np.ndarray  # NaN: none in force
    logged_throttle_time_ms: np.ndarray
    replayed_throttle_time_ms: np.ndarray
    is_strict: np.ndarray  # a mutation that is refused, not muted, over its quota

    def __len__(self) -> int:
        return len(self.amount)

    def take(self, rows: np.ndarray | slice) -> Amounts:
        """Return the rows that ``rows`` (a mask, indexes or a slice) selects."""
        return Amounts(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True, slots=True)
class SensorTraffic:
    """All amounts of one sensor key, over all brokers."""

    quota_type: str
    quota_user: str
    quota_client_id: str
    amounts: Amounts

    @property
    def key(self) -> SensorId:
        """Return (quota type, user, client-id) of the sensor."""
        return self.quota_type, self.quota_user, self.quota_client_id


def split_by_sensor(decisions: pa.Table) -> list[SensorTraffic]:
    """Return the traffic of every sensor of ``decisions``, sorted by its key.

    The order of the table's rows does not matter: (broker, sensor_epoch, sensor_seq) is the order
    of recording.
    """
    table = decisions.sort_by([(name, "ascending") for name in SENSOR_ORDER]).combine_chunks()
    if not table.num_rows:
        return []
    amounts = _amounts(table)
    starts = _starts(table)
    types, users, client_ids = (
        table[name].take(pa.array(starts)).to_pylist() for name in ENTITY_COLUMNS
    )
    ends = [*starts[1:].tolist(), table.num_rows]
    spans = map(slice, starts.tolist(), ends)
    return [
        SensorTraffic(quota_type, user, client_id, _with_asks(amounts.take(span)))
        for quota_type, user, client_id, span in zip(types, users, client_ids, spans, strict=True)
    ]


def _starts(table: pa.Table) -> np.ndarray:
    """Return the first row of each sensor."""
    changed = np.zeros(table.num_rows, bool)
    changed[0] = True
    for name in ENTITY_COLUMNS:
        column = table[name].combine_chunks()
        differs = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        changed[1:] |= differs.to_numpy(zero_copy_only=False)
    return np.flatnonzero(changed)


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    """Return each row's index into the distinct values; null is a value too."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices, np.int64)


def _combined(*codes: np.ndarray) -> np.ndarray:
    """Return one number per row that is equal where all of ``codes`` are."""
    combined = codes[0]
    for code in codes[1:]:
        # Numbered anew each time: a plain product of many distinct values would overflow.
        pairs = combined * (code.max() + 1) + code
        combined = np.unique(pairs, return_inverse=True)[1]
    return combined


def _amounts(table: pa.Table) -> Amounts:
    return Amounts(
        broker_id=_numbers(table, "broker_id"),
        sensor_epoch=_numbers(table, "sensor_epoch"),
        recorded_at_ms=_numbers(table, "recorded_at_ms"),
        amount=_floats(table, "amount"),
        rate=_floats(table, "rate"),
        ask=_chains(table),
        is_served=_bools(table, "logged_admitted") & ~_bools(table, "is_unrecorded"),
        bound=_floats(table, "bound"),
        logged_throttle_time_ms=_numbers(table, "logged_throttle_time_ms"),
        replayed_throttle_time_ms=_numbers(table, "replayed_throttle_time_ms"),
        is_strict=_is_strict(table),
    )


def _chains(table: pa.Table) -> np.ndarray:
    """Return per row what its repetitions share: connection of a fetch, topic of a mutation."""
    connection, resource, api, broker, user, client_id = (
        _codes(table[name])
        for name in ("connection", "resource", "api_name", "broker_id", "user", "client_id")
    )
    chain = np.arange(table.num_rows)
    fetch = _equal(table["quota_type"], "consumer_byte_rate")
    chain[fetch] = _combined(broker, connection)[fetch]
    mutation = _equal(table["quota_type"], "controller_mutation_rate")
    chain[mutation] = _combined(broker, user, client_id, api, resource)[mutation]
    return chain


def _with_asks(amounts: Amounts) -> Amounts:
    """Return one sensor's amounts with asks; an attempt of unknown size gets its delivery's."""
    order = np.argsort(amounts.ask, kind="stable")
    chain, served = amounts.ask[order], amounts.is_served[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (chain[1:] != chain[:-1]) | served[:-1]
    ask = np.empty(len(order), np.int64)
    ask[order] = np.cumsum(begins) - 1
    delivered = np.full(int(begins.sum()), np.nan)
    delivered[ask[amounts.is_served]] = amounts.amount[amounts.is_served]
    amount = np.where(np.isnan(amounts.amount), delivered[ask], amounts.amount)
    return replace(amounts, ask=ask, amount=amount)


def _is_strict(table: pa.Table) -> np.ndarray:
    """Return per row whether it is a mutation that is refused, not muted, over its quota."""
    is_strict = np.zeros(table.num_rows, bool)
    version = _numbers(table, "api_version")
    for api_name, since in STRICT_SINCE.items():
        is_strict |= _equal(table["api_name"], api_name) & (version >= since)
    is_strict &= _equal(table["quota_type"], "controller_mutation_rate")
    return is_strict


def _equal(column: pa.ChunkedArray, value: str) -> np.ndarray:
    return np.asarray(pc.equal(column, value).to_numpy(), bool)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    filled = pc.fill_null(table[name], pa.scalar(0, table[name].type))
    return np.asarray(filled.to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(pc.fill_null(table[name], float("nan")).to_numpy(), np.float64)


def _bools(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].to_numpy(), bool)
