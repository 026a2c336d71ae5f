"""Step replay_quotas: requests and the quota timeline → decisions, rates, quota_state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.jobs.broker_rules import profiled_brokers
from spark_jobs.jobs.local_table import write_local
from spark_jobs.jobs.locate_changes import locate_changes
from spark_jobs.jobs.publish_table import read_partition, write_partition
from spark_jobs.jobs.resolve_quotas import read_timeline
from spark_jobs.jobs.shared_throttles import with_shared_throttles
from spark_jobs.jobs.sorted_amounts import sorted_amounts
from spark_jobs.judge.verdicts import Tolerances
from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.settings import JudgeSettings
from spark_jobs.tables import DECISIONS, QUOTA_STATE, TOPIC_INVENTORY
from spark_jobs.transforms.agreement import agreement_per_sensor
from spark_jobs.transforms.aligned_amounts import align_amounts
from spark_jobs.transforms.sensor_replay import (
    DECISION,
    REPLAYED,
    STATE,
    BrokerRules,
    CarriedState,
    SensorKey,
    replay_sensors,
)
from spark_jobs.transforms.sensor_seconds import rates_per_second
from spark_jobs.warehouse import RunScope, read_table


def replay_quotas(
    spark: SparkSession, scope: RunScope, settings: JudgeSettings | None = None
) -> str:
    """Write decisions, rates, quota_state and topic_inventory of a day; return what was decided.

    The state of the day before is taken over where it was audited, so a day replays as if the log
    had never been cut at midnight.
    """
    settings = settings or JudgeSettings()
    before = scope.day_before
    inventory = read_inventory(before)
    log_starts = not has_state(before)
    answered = read_timeline(scope, as_answered=True)

    def amounts_as_answered() -> DataFrame:
        inventory = read_inventory(before)
        return sorted_amounts(spark, scope, answered, inventory, log_starts=log_starts)

    rules = profiled_brokers(scope, amounts_as_answered)
    write_local(locate_changes(spark, scope, answered, rules), "located_changes", scope)
    timeline = read_timeline(scope)
    amounts = sorted_amounts(spark, scope, timeline, inventory, log_starts=log_starts)
    replayed = amounts.mapInArrow(
        _align_and_replay(rules, carried_states(before), tolerances(settings)),
        from_arrow_schema(REPLAYED),
    ).persist()
    settled = replayed
    if timeline.has_quotas(QuotaType.REQUEST_PERCENTAGE):
        settled = with_shared_throttles(replayed, rules, settings.tolerance_ms).persist()
    try:
        counts = _verdict_counts(settled)
        _write(spark, scope, settled, filled=bool(counts))
    finally:
        settled.unpersist()
        replayed.unpersist()
    _write_inventory(scope, inventory)
    total = sum(counts.values())
    parts = ", ".join(f"{n:,} {verdict}" for verdict, n in sorted(counts.items()))
    return f"replayed {total:,} decisions ({parts or 'no quota was ever set'})"


def _align_and_replay(
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    tolerances: Tolerances,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return both steps as one: the rows of a sensor stay in one partition, in their new order."""
    align = align_amounts(rules, carried)
    replay = replay_sensors(rules, carried, tolerances)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return replay(align(batches))

    return run


def tolerances(settings: JudgeSettings) -> Tolerances:
    """Return the judge's tolerances in milliseconds."""
    return Tolerances(
        throttle_ms=settings.tolerance_ms,
        warm_up_ms=settings.warm_up_windows * 1000,
        change_ms=settings.change_ms,
    )


def has_state(scope: RunScope) -> bool:
    """Return whether a day was replayed, so that its sensors' states are known."""
    return scope.partition_dir("quota_state").is_dir()


def carried_states(scope: RunScope) -> dict[SensorKey, CarriedState]:
    """Return the sensors' states at the end of a day; none where it was not replayed."""
    return dict(CarriedState.of_row(row) for row in read_table(scope, "quota_state").to_pylist())


def read_inventory(scope: RunScope) -> PartitionInventory:
    """Return the partitions per topic as known at the end of a day."""
    rows = read_table(scope, "topic_inventory").to_pylist()
    return PartitionInventory({row["topic"]: row["partitions"] for row in rows})


def _write(spark: SparkSession, scope: RunScope, replayed: DataFrame, *, filled: bool) -> None:
    decisions = replayed.where(F.col("row_kind") == DECISION).select(*DECISIONS.names)
    states = replayed.where(F.col("row_kind") == STATE).select(*QUOTA_STATE.names)
    write_partition(decisions, "decisions", scope, filled=filled)
    write_partition(states, "quota_state", scope, filled=filled)
    decided = read_partition(spark, "decisions", scope)
    write_partition(rates_per_second(decided), "rates", scope, filled=filled)
    write_partition(agreement_per_sensor(decided), "agreement", scope, filled=filled)


def _verdict_counts(replayed: DataFrame) -> Mapping[str, int]:
    rows = replayed.where(F.col("row_kind") == DECISION).groupBy("verdict").count().collect()
    return {row["verdict"]: row["count"] for row in rows}


def _write_inventory(scope: RunScope, inventory: PartitionInventory) -> None:
    rows = [
        {"topic": topic, "partitions": partitions}
        for topic, partitions in sorted(inventory.partitions.items())
    ]
    table = pa.Table.from_pylist(rows, schema=TOPIC_INVENTORY)
    write_local(table, "topic_inventory", scope)
