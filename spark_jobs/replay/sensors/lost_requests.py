"""How many requests may be missing from the past of each amount's sensor, looked up in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import SAMPLES, TIME_BITS, TIME_MAX_MS, WINDOW_MS
from spark_jobs.quota.repeated import repeated
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.warehouse.tables import F64, I32, STR


@dataclass(frozen=True, slots=True)
class SensorGaps:
    """Gaps of the clients that feed sensors, ready for :func:`missing_within`.

    Two orders of the same gaps, by sensor and begin and by sensor and end; with each the sums of
    the missing requests and of their largest sizes over all gaps before, one longer than the order.
    """

    after: np.ndarray
    missing_after: np.ndarray
    size_after: np.ndarray
    before: np.ndarray
    missing_before: np.ndarray
    size_before: np.ndarray

    @classmethod
    def of(
        cls,
        sensor: np.ndarray,
        after_ms: np.ndarray,
        before_ms: np.ndarray,
        missing: np.ndarray,
        size_max: np.ndarray,
    ) -> SensorGaps:
        """Return the gaps from arrays of one length: ``missing`` requests of up to ``size_max``."""
        after, before = _place(sensor, after_ms), _place(sensor, before_ms)
        by_after, by_before = np.argsort(after), np.argsort(before)
        size = missing * size_max
        return cls(
            after[by_after],
            _sums(missing[by_after]),
            _sums(size[by_after]),
            before[by_before],
            _sums(missing[by_before]),
            _sums(size[by_before]),
        )


def missing_within(
    sensor: np.ndarray, from_ms: np.ndarray, until_ms: np.ndarray, gaps: SensorGaps
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of requests that may be missing in each row's ``[from_ms, until_ms]``.

    They are of the row's sensor; the second array is their size at most, together. A gap counts in
    full where it may lie in the stretch at all. Arrays of one length; O(log gaps) a row.

    >>> array = np.array
    >>> sensor, after_ms, before_ms = array([0, 0]), array([100, 500]), array([150, 900])
    >>> gaps = SensorGaps.of(sensor, after_ms, before_ms, array([3, 1]), array([10.0, 7.0]))
    >>> from_ms, until_ms = array([0, 140, 0]), array([99, 600, 600])
    >>> missing, size = missing_within(array([0, 0, 1]), from_ms, until_ms, gaps)
    >>> missing.tolist(), size.tolist()
    ([0, 4, 0], [0.0, 37.0, 0.0])
    """
    begun = np.searchsorted(gaps.after, _place(sensor, until_ms), side="right")
    over = np.searchsorted(gaps.before, _place(sensor, from_ms), side="left")
    missing = gaps.missing_after[begun] - gaps.missing_before[over]
    # Sums of doubles may differ in their last digits where the same gaps are on both sides.
    size = np.where(missing > 0, gaps.size_after[begun] - gaps.size_before[over], 0.0)
    return missing, np.maximum(size, 0.0)


def _place(sensor: np.ndarray, at_ms: np.ndarray) -> np.ndarray:
    return np.asarray(sensor.astype(np.int64) << TIME_BITS | np.clip(at_ms, 0, TIME_MAX_MS))


def _sums(values: np.ndarray) -> np.ndarray:
    return np.concatenate((np.zeros(1, values.dtype), np.cumsum(values)))


BACK_MS = (SAMPLES + 1) * WINDOW_MS
"""A rate rests on its samples, the oldest up to one window longer."""

# The largest amount one missing request can have been, by the table's column, in the sensor's unit.
_SIZES = {
    QuotaType.PRODUCER_BYTE_RATE: ("request_bytes_max", 1.0),
    QuotaType.CONSUMER_BYTE_RATE: ("response_bytes_max", 1.0),
    # Percent of one second: nanoseconds times 1e-7 (ClientRequestQuotaManager).
    QuotaType.REQUEST_PERCENTAGE: ("handler_time_us_max", 1000 * 1e-7),
}


@dataclass(frozen=True, slots=True)
class _Lookup:
    sensors: Mapping[str, int]
    gaps: SensorGaps


@dataclass(frozen=True, slots=True)
class LostRequests:
    """The gaps of a day by the sensors that their clients feed; small, and sent to the workers.

    ``window_ms``: how far back a rate of each broker looks; other brokers have the default.
    """

    window_ms: Mapping[int, int] = field(default_factory=dict)
    lookups: Mapping[str, _Lookup] = field(default_factory=dict)

    @classmethod
    def of(
        cls, gaps: pa.Table, resolutions: ResolutionTable, window_ms: Mapping[int, int]
    ) -> LostRequests:
        """Return the lookup of ``gaps`` (rows of ``tables.LOG_GAPS``)."""
        places = _places(gaps)
        if not len(places):
            return cls(window_ms)
        index = ClientIndex.of(places)
        lookups = {str(t): _lookup(t, places, index, resolutions) for t in _SIZES}
        return cls(window_ms, lookups)

    def of_sensors(
        self,
        broker_id: int,
        quota_type: str,
        names: Sequence[tuple[str, str]],
        sensor: np.ndarray,
        recorded_earliest_ms: np.ndarray,
        recorded_latest_ms: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the number and total size of requests that may be missing before each amount.

        The amounts are one broker's, sizes upper bounds. ``sensor`` holds indices into ``names``,
        pairs of quota_user and quota_client_id.
        """
        lookup = self.lookups.get(quota_type)
        if lookup is None or not lookup.sensors:
            return repeated(0, len(sensor)), repeated(0.0, len(sensor))
        known = [lookup.sensors.get(f"{broker_id}\x00{user}\x00{cid}") for user, cid in names]
        code = np.array([len(lookup.sensors) if k is None else k for k in known], np.int64)
        from_ms = recorded_earliest_ms - self.window_ms.get(broker_id, BACK_MS)
        return missing_within(code[sensor], from_ms, recorded_latest_ms, lookup.gaps)


def _lookup(
    quota_type: QuotaType, places: pa.RecordBatch, index: ClientIndex, resolutions: ResolutionTable
) -> _Lookup:
    column, unit = _SIZES[quota_type]
    size = pc.cast(places[column], F64).to_numpy(zero_copy_only=False) * unit
    after_ms, before_ms = places["after_ms"].to_numpy(), places["before_ms"].to_numpy()
    at_begin, at_end = (
        _names_at(at_ms, quota_type, places, index, resolutions) for at_ms in (after_ms, before_ms)
    )
    has_size = ~np.isnan(size)
    # A change of quotas within the gap may have moved the client to another sensor.
    moved = has_size & pc.not_equal(at_begin, at_end).to_numpy(zero_copy_only=False)
    rows = np.concatenate((np.flatnonzero(has_size), np.flatnonzero(moved)))
    kept = [at_begin.filter(pa.array(has_size)), at_end.filter(pa.array(moved))]
    names = pa.concat_arrays(kept).dictionary_encode()
    missing = places["missing"].to_numpy()[rows]
    return _Lookup(
        {name: code for code, name in enumerate(names.dictionary.to_pylist())},
        SensorGaps.of(
            names.indices.to_numpy(), after_ms[rows], before_ms[rows], missing, size[rows]
        ),
    )


def _names_at(
    at_ms: np.ndarray,
    quota_type: QuotaType,
    places: pa.RecordBatch,
    index: ClientIndex,
    resolutions: ResolutionTable,
) -> pa.Array:
    found = resolutions.resolve(quota_type, index, at_ms)
    names = places["broker_id"].cast(STR), found.quota_user, found.quota_client_id
    return pc.binary_join_element_wise(*names, "\x00")


def _places(gaps: pa.Table) -> pa.RecordBatch:
    """Return a row for each broker that a gap can be of; those of lost lines only."""
    lost = gaps.filter(pc.equal(gaps["cause"], LOST_LINES)).combine_chunks()
    kept = ["user", "client_id", "missing", *(column for column, _ in _SIZES.values())]
    if not len(lost):
        return pa.RecordBatch.from_pylist([], schema=pa.schema([]))
    column = lost["places"].combine_chunks()
    rows = lost.select(kept).take(pc.list_parent_indices(column))
    for name, values in zip(
        ("broker_id", "after_ms", "before_ms"), column.flatten().flatten(), strict=True
    ):
        rows = rows.append_column(name, values)
    assert rows["broker_id"].type == I32
    (batch,) = rows.combine_chunks().to_batches()
    return batch
