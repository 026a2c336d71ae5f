"""When each broker learned of each quota change of a day: table ``located_changes``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.jobs.publish_table import read_partition
from spark_jobs.jobs.sorted_amounts import controller_listeners
from spark_jobs.tables import LOCATED_CHANGES
from spark_jobs.timeline.resolution import QuotaTimeline
from spark_jobs.transforms.located_changes import REQUEST_COLUMNS, located_changes
from spark_jobs.transforms.sensor_replay import BrokerRules
from spark_jobs.warehouse import RunScope, read_table

# The rate windows around a change whose throttles tell of it.
_RATE_WINDOWS = 3


def locate_changes(
    spark: SparkSession,
    scope: RunScope,
    timeline: QuotaTimeline,
    rules: Mapping[int, BrokerRules],
) -> pa.Table:
    """Return when the changes in the day's request log were in force; LOCATED_CHANGES.

    Changes that a server log tells of, to the millisecond, are not among them.
    """
    requests = read_partition(spark, "requests", scope)
    answered_ms = _answered_ms(scope, requests)
    if not answered_ms:
        return LOCATED_CHANGES.empty_table()
    reach_ms = _RATE_WINDOWS * max(rule.samples * rule.window_ms for rule in rules.values())
    around = requests.where(
        (F.col("api_name") == "PRODUCE")
        & ~F.col("listener").isin(*controller_listeners(requests))
        & ~F.col("is_forwarded")
        & reduce(
            Column.__or__, (_near(start, stop) for start, stop in _merged(answered_ms, reach_ms))
        )
    ).select(*REQUEST_COLUMNS)

    def locate(group: pa.Table) -> pa.Table:
        return located_changes(group, timeline, rules, answered_ms)

    located = around.groupBy("broker_id").applyInArrow(locate, from_arrow_schema(LOCATED_CHANGES))
    return located.orderBy("broker_id", "answered_ms").toArrow().cast(LOCATED_CHANGES)


def _answered_ms(scope: RunScope, requests: DataFrame) -> list[int]:
    """Return the moments of the changes that are known from the request log alone."""
    first_ms, last_ms = requests.select(F.min("log_time_ms"), F.max("log_time_ms")).first() or (
        0,
        0,
    )
    if first_ms is None:
        return []
    rows = read_table(scope, "quota_changes").to_pylist()
    moments = {row["valid_from_ms"] for row in rows if row["source"] == "log"}
    ends = {row["valid_until_ms"] for row in rows if row["source"] == "log"}
    others = {row["valid_from_ms"] for row in rows if row["source"] != "log"}
    return sorted(m for m in (moments | ends) - others - {None} if first_ms <= m <= last_ms)


def _merged(answered_ms: Sequence[int], reach_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches around the moments, those that overlap as one."""
    start_ms = stop_ms = answered_ms[0]
    for moment in answered_ms:
        if moment - reach_ms > stop_ms + reach_ms:
            yield start_ms - reach_ms, stop_ms + reach_ms
            start_ms = moment
        stop_ms = moment
    yield start_ms - reach_ms, stop_ms + reach_ms


def _near(start_ms: int, stop_ms: int) -> Column:
    return F.col("log_time_ms").between(start_ms, stop_ms)
