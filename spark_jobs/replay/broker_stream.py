"""One broker's ingested requests in the order of their estimates, a chunk at a time.

Parquet's statistics say where the requests of a broker are and since when each row group may have
some; so what is read is sorted without a shuffle, and no more is held than overlaps in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.quota.constants import LATE_LINE_MS
from spark_jobs.replay.rates.recorded_amounts import (
    ANSWER_COLUMNS,
    FETCHES,
    NAME_COLUMNS,
    REQUEST_COLUMNS,
    unified,
)
from spark_jobs.replay.sensors.line_lags import DUE_WITHIN_MS, Stops, silences_ms, stretches_ms
from spark_jobs.warehouse.parquet import check_file, parquet_file

CHUNK_ROWS = 65_536
_BROKER, _ESTIMATE = "broker_id", "recorded_estimate_us"
_THROTTLES = "api_key", "throttle_time_ms"
_SIZES = "topics.list.element.records_bytes"
_FOREVER_US = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A Parquet row group with requests of a broker, estimated from ``first_us`` to ``last_us``.

    Those before ``from_us`` and from ``until_us`` on are left out.
    """

    path: str
    index: int
    rows: int
    first_us: int
    is_shared: bool  # with other brokers
    last_us: int = _FOREVER_US
    from_us: int | None = None
    until_us: int | None = None


def row_groups(folder: Path) -> dict[int, list[RowGroup]]:
    """Return the row groups of a partition of ``requests``, by broker."""
    found: defaultdict[int, list[RowGroup]] = defaultdict(list)
    for path in sorted(folder.glob("*.parquet")):
        file = parquet_file(path)
        check_file(file.metadata, "requests", path)
        places = {file.metadata.schema.column(i).path: i for i in range(file.metadata.num_columns)}
        for index in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(index)
            brokers, first_us, last_us = _statistics(file, index, places)
            for broker_id in brokers:
                found[broker_id].append(
                    RowGroup(str(path), index, group.num_rows, first_us, len(brokers) > 1, last_us)
                )
    return dict(found)


def groups_since(groups: Iterable[RowGroup], from_us: int) -> list[RowGroup]:
    """Return the row groups of the requests estimated from ``from_us`` on, cut to these."""
    return [
        replace(group, first_us=max(group.first_us, from_us), from_us=from_us)
        for group in groups
        if group.last_us >= from_us
    ]


def groups_before(groups: Iterable[RowGroup], until_us: int) -> list[RowGroup]:
    """Return the row groups of the requests estimated before ``until_us``, cut to these."""
    return [replace(group, until_us=until_us) for group in groups if group.first_us < until_us]


def _statistics(
    file: pq.ParquetFile, index: int, places: dict[str, int]
) -> tuple[list[int], int, int]:
    """Return the brokers of a row group, its first estimate and its last."""
    group = file.metadata.row_group(index)
    broker, estimate = (group.column(places[name]).statistics for name in (_BROKER, _ESTIMATE))
    is_told = all(told is not None and told.has_min_max for told in (broker, estimate))
    if is_told and broker.min == broker.max:
        return [broker.min], estimate.min, estimate.max
    rows = file.read_row_group(index, columns=[_BROKER, _ESTIMATE])
    first_us, last_us = (pc.min_max(rows[_ESTIMATE]).as_py()[name] or 0 for name in ("min", "max"))
    return sorted(pc.unique(rows[_BROKER]).to_pylist()), first_us, last_us


def request_chunks(
    groups: Sequence[RowGroup],
    broker_id: int,
    rows_min: int = CHUNK_ROWS,
    more: Sequence[str] = (),
) -> Iterator[tuple[pa.Table, np.ndarray, int | None]]:
    """Yield a broker's requests, their order, and the time (ms) before which no later one can come.

    Requests have REQUEST_COLUMNS and ``more``, text as dictionaries, and ANSWER_COLUMNS where any
    fetch was throttled. The order is that of estimate, file and line, over all that is yielded, and
    names only the requests that are due; the time is None with the last ones.
    """
    coming = sorted(groups, key=lambda g: (g.first_us, g.path, g.index))
    columns = [*REQUEST_COLUMNS, *more]
    if any(_has_throttled_fetch(path, coming) for path in {g.path for g in groups}):
        columns += ANSWER_COLUMNS
    held: list[pa.Table] = []
    files: dict[str, pq.ParquetFile] = {}
    fresh = 0
    for place, group in enumerate(coming):
        held.append(read_group(group, broker_id, columns, files))
        fresh += group.rows
        is_last = place + 1 == len(coming)
        if fresh < rows_min and not is_last:
            continue
        until_ms = None if is_last else coming[place + 1].first_us // 1000
        held, ready = _split(unified(held), until_ms)
        if ready:
            fresh = 0
            # Out of the list: what is yielded is not kept here while it is looked at.
            yield (*ready.pop(), until_ms)


def stops(groups: Sequence[RowGroup], broker_id: int) -> Stops:
    """Return when the process of a broker was stopped, as the lines of ``groups`` say."""
    files: dict[str, pq.ParquetFile] = {}
    in_order = sorted(groups, key=lambda g: (g.path, g.index))

    def lines(group: RowGroup, *columns: str) -> pa.Table:
        return read_group(group, broker_id, ["log_time_ms", _ESTIMATE, *columns], files)

    written = [stretches_ms(lines(group)["log_time_ms"].to_numpy()) for group in in_order]
    silent_ms = silences_ms(written)
    begins_ms, ends_ms = silent_ms.T

    def is_around(own: np.ndarray) -> bool:
        before = (own[0, 0] <= begins_ms) & (begins_ms - DUE_WITHIN_MS <= own[-1, 1])
        after = (own[0, 0] - LATE_LINE_MS <= ends_ms) & (ends_ms <= own[-1, 1])
        return bool((before | after).any())

    around = (
        lines(group, "connection", "throttle_time_ms")
        for group, own in zip(in_order, written, strict=True)
        if len(own) and is_around(own)
    )
    return Stops.of(silent_ms, around)


def _split(
    rows: pa.Table, until_ms: int | None
) -> tuple[list[pa.Table], list[tuple[pa.Table, np.ndarray]]]:
    """Return the rows that stay held, and rows and order of those before ``until_ms``, if any."""
    order = _record_order(rows)
    if until_ms is None:
        return [], [(rows, order)]
    is_ready = rows[_ESTIMATE].to_numpy()[order] // 1000 < until_ms
    if not is_ready.any():
        return [rows], []
    return [rows.take(pa.array(order[~is_ready]))], [(rows, order[is_ready])]


def _has_throttled_fetch(path: str, groups: Sequence[RowGroup]) -> bool:
    """Return True if a fetch was throttled in those of ``groups`` that are in this file."""
    file = parquet_file(path)
    for index in (group.index for group in groups if group.path == path):
        rows = file.read_row_group(index, columns=list(_THROTTLES), use_threads=False)
        api_key, throttle_ms = (rows[name].to_numpy() for name in _THROTTLES)
        if np.isin(api_key[throttle_ms > 0], FETCHES).any():
            return True
    return False


def read_group(
    group: RowGroup, broker_id: int, columns: Sequence[str], files: dict[str, pq.ParquetFile]
) -> pa.Table:
    """Return a broker's requests in a row group, the estimate among their ``columns``.

    ``files`` keeps the last file open. Text comes as dictionaries.
    """
    if group.path not in files:
        files.clear()
        files[group.path] = parquet_file(group.path, read_dictionary=list(NAME_COLUMNS))
    # Of an answer's topics only how much each was; their names would take as long as ten columns.
    read = [_SIZES if name == "topics" else name for name in columns]
    if group.is_shared:
        read.append(_BROKER)
    rows = files[group.path].read_row_group(group.index, columns=read, use_threads=False)
    if group.is_shared:
        rows = rows.filter(pc.equal(rows[_BROKER], broker_id))
    if group.from_us is not None:
        rows = rows.filter(pc.greater_equal(rows[_ESTIMATE], group.from_us))
    if group.until_us is not None:
        rows = rows.filter(pc.less(rows[_ESTIMATE], group.until_us))
    return rows.select(columns)


def _record_order(rows: pa.Table) -> np.ndarray:
    file = rows["source_file"].combine_chunks()
    names = file.dictionary.to_pylist()
    rank = np.empty(max(len(names), 1), np.int32)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    keys = (
        rows["source_line"].to_numpy(),
        rank[file.indices.to_numpy()],
        rows[_ESTIMATE].to_numpy(),
    )
    return np.lexsort(keys)
