"""When each broker learned of each quota change of a day: table ``located_changes``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.replay.broker_stream import RowGroup, stops
from spark_jobs.replay.sensors.change_trial import LATER_MS
from spark_jobs.replay.sensors.located_changes import REQUEST_COLUMNS, located_changes
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.replay.survey_requests import Survey
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.parquet import parquet_file
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import LOCATED_CHANGES, REQUESTS

# The rate windows around a change whose throttles tell of it.
_RATE_WINDOWS = 3

_SCHEMA = pa.schema([REQUESTS.field(name) for name in REQUEST_COLUMNS])
_READ = (*REQUEST_COLUMNS, "api_name", "listener", "is_forwarded")
Stretches = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Around:
    """Which requests tell of the changes, and what is known of them."""

    stretches: Stretches
    answered_ms: Sequence[int]
    earliest_ms: Sequence[int]  # when the controller had handled each
    timeline: QuotaTimeline
    rules: Mapping[int, BrokerRules]
    controller_listeners: frozenset[str]
    uses_zookeeper: bool


def locate_changes(
    spark: SparkSession,
    scope: RunScope,
    brokers: Mapping[int, Sequence[RowGroup]],
    survey: Survey,
    timeline: QuotaTimeline,
    rules: Mapping[int, BrokerRules],
) -> pa.Table:
    """Return the times when changes in the day's request log were in force (LOCATED_CHANGES).

    Changes that a server log tells of, to the millisecond, are not among them.
    """
    answered_ms = _answered_ms(scope, survey)
    if not answered_ms:
        return LOCATED_CHANGES.empty_table()
    reach_ms = _RATE_WINDOWS * max(rule.samples * rule.window_ms for rule in rules.values())
    stretches = list(_merged(answered_ms, reach_ms))
    earliest_ms = _earliest_ms(scope, answered_ms)
    around = _Around(
        stretches,
        answered_ms,
        earliest_ms,
        timeline,
        rules,
        survey.controller_listeners,
        survey.uses_zookeeper,
    )
    locate = partial(_locate, around=around)
    folder = scope.partition_dir("requests")
    located = on_workers(spark, sorted(brokers.items()), locate, read=folder)
    in_order = [("broker_id", "ascending"), ("answered_ms", "ascending")]
    return pa.concat_tables(located).sort_by(in_order).cast(LOCATED_CHANGES)


def late_changes(located: pa.Table) -> str:
    """Return a line of text with the number of late changes and the latest's ms; "" without one.

    ``located`` is a table of LOCATED_CHANGES; a change is late from ``LATER_MS`` on. Example: two
    changes, of which broker 1 followed one after 6,334 ms: "…: 2, the latest after 6,334 ms …".
    """
    late = [
        (row["in_force_ms"] - row["answered_ms"], row["broker_id"])
        for row in located.to_pylist()
        if row["in_force_ms"] - row["answered_ms"] > LATER_MS
    ]
    if not late:
        return ""
    latest_ms, broker_id = max(late)
    return (
        f"\nnote: quota changes that a broker followed more than {LATER_MS:,} ms after the "
        f"controller's answer: {len(late)}, the latest after {latest_ms:,} ms (broker "
        f"{broker_id}); nobody is accused of what came between"
    )


def _locate(broker: tuple[int, Sequence[RowGroup]], around: _Around) -> pa.Table:
    broker_id, groups = broker
    parts = [_SCHEMA.empty_table()]
    written_ms = []
    for group in groups:
        file = parquet_file(group.path)
        if not _may_hold(file.metadata.row_group(group.index), around.stretches):
            continue
        rows = file.read_row_group(group.index, columns=list({*_READ, "broker_id"}))
        log_time_ms = rows["log_time_ms"]
        is_near = reduce(
            pc.or_,
            (
                pc.and_(pc.greater_equal(log_time_ms, start), pc.less_equal(log_time_ms, stop))
                for start, stop in around.stretches
            ),
        )
        on_controller = pc.is_in(
            rows["listener"], pa.array(sorted(around.controller_listeners), pa.string())
        )
        is_own = pc.and_(is_near, pc.equal(rows["broker_id"], broker_id))
        written_ms.append(log_time_ms.filter(is_own).to_numpy())
        wanted = (
            is_own,
            pc.equal(rows["api_name"], "PRODUCE"),
            pc.invert(on_controller),
            pc.invert(rows["is_forwarded"]),
        )
        parts.append(rows.filter(reduce(pc.and_, wanted)).select(_SCHEMA.names).cast(_SCHEMA))
    found = pa.concat_tables(parts)
    if not found.num_rows:
        return LOCATED_CHANGES.empty_table()
    lines_ms = np.sort(np.concatenate(written_ms))
    return located_changes(
        found,
        around.timeline,
        around.rules,
        around.answered_ms,
        around.earliest_ms,
        lines_ms,
        stops(groups, broker_id),
        uses_zookeeper=around.uses_zookeeper,
    )


def _may_hold(group: pq.RowGroupMetaData, stretches: Stretches) -> bool:
    """Return True if the times of a row group's lines overlap any of the stretches."""
    for i in range(group.num_columns):
        column = group.column(i)
        told = column.statistics
        if column.path_in_schema == "log_time_ms" and told is not None and told.has_min_max:
            return any(told.min <= stop and start <= told.max for start, stop in stretches)
    return True


def _answered_ms(scope: RunScope, survey: Survey) -> list[int]:
    """Return the moments of the changes that are known from the request log alone."""
    if survey.log_times_ms is None:
        return []
    first_ms, last_ms = survey.log_times_ms
    rows = read_table(scope, "quota_changes").to_pylist()
    moments = {row["valid_from_ms"] for row in rows if row["source"] == "log"}
    ends = {row["valid_until_ms"] for row in rows if row["source"] == "log"}
    others = {row["valid_from_ms"] for row in rows if row["source"] != "log"}
    return sorted(m for m in (moments | ends) - others - {None} if first_ms <= m <= last_ms)


def _earliest_ms(scope: RunScope, answered_ms: Sequence[int]) -> list[int]:
    """Return when (ms) each change may have been in force at the earliest, as the log tells.

    A broker may read the record before the controller's answer is written, such as 167 ms before.
    """
    rows = read_table(scope, "quota_events").to_pylist()
    events = [QuotaEvent.of_row(row) for row in rows if row["source"] == "log"]
    earliest_ms = {event.likely_ms: event.earliest_ms for event in events}
    return [earliest_ms.get(each, each) for each in answered_ms]


def _merged(answered_ms: Sequence[int], reach_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches around the moments, those that overlap as one."""
    start_ms = stop_ms = answered_ms[0]
    for moment in answered_ms:
        if moment - reach_ms > stop_ms + reach_ms:
            yield start_ms - reach_ms, stop_ms + reach_ms
            start_ms = moment
        stop_ms = moment
    yield start_ms - reach_ms, stop_ms + reach_ms
