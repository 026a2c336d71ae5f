"""How many requests may be missing from the past of each amount's sensor, looked up in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES
from spark_jobs.ingest.lost_lines.missing_within import SensorGaps, missing_within
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.repeated import repeated
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.warehouse.tables import F64, I32, STR

WINDOWS_BACK = 12
"""A rate rests on 11 samples (``quota.window.num``), the oldest up to one window longer."""

WINDOW_MS = 1000

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
        from_ms = recorded_earliest_ms - self.window_ms.get(broker_id, WINDOWS_BACK * WINDOW_MS)
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
    return _sensor_names(places["broker_id"], found.quota_user, found.quota_client_id)


def _sensor_names(broker_id: pa.Array, quota_user: pa.Array, quota_client_id: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(broker_id.cast(STR), quota_user, quota_client_id, "\x00")


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
