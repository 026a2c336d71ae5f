"""A day's amounts, sensor by sensor in recording order: what every replay starts from."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.jobs.publish_table import read_partition
from spark_jobs.jobs.read_broker_log import read_broker_log
from spark_jobs.jobs.read_lost_requests import read_lost_requests
from spark_jobs.quota.partition_inventory import MUTATION_APIS, PartitionInventory
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.quota.request_time import READ_PERCENTILE
from spark_jobs.timeline.resolution import QuotaTimeline
from spark_jobs.transforms.amounts import AMOUNTS, RECORD_ORDER, SENSOR_COLUMNS, expand_amounts
from spark_jobs.transforms.mutations import MUTATION_COLUMNS, expand_mutations
from spark_jobs.transforms.resolution_table import ResolutionTable
from spark_jobs.warehouse import RunScope, read_table

# Requests that only controllers serve; the listener they arrive on is no client's.
CONTROLLER_APIS = ("BROKER_HEARTBEAT", "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION")
# What a controller with ZooKeeper tells the brokers by; with KRaft they read it from the log.
ZOOKEEPER_APIS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")


def sorted_amounts(
    spark: SparkSession,
    scope: RunScope,
    timeline: QuotaTimeline,
    inventory: PartitionInventory,
    *,
    log_starts: bool,
) -> DataFrame:
    """Return the day's amounts, partitioned by sensor and sorted by it and RECORD_ORDER.

    ``inventory`` is carried forward through the day's mutations. ``log_starts`` says that nothing
    is known of the sensors before the first line.
    """
    requests = read_partition(spark, "requests", scope)
    broker_log = read_broker_log(scope)
    known_from_ms = _log_starts(requests) if log_starts else {}
    resolutions = ResolutionTable(timeline, known_from_ms)
    listeners = controller_listeners(requests)
    amounts = requests.mapInArrow(
        expand_amounts(
            resolutions,
            listeners,
            broker_log,
            read_lost_requests(scope, resolutions),
            _read_us(requests) if timeline.has_quotas(QuotaType.REQUEST_PERCENTAGE) else {},
        ),
        from_arrow_schema(AMOUNTS),
    )
    mutations = expand_mutations(
        _mutations(requests),
        inventory,
        resolutions,
        broker_log,
        controller_listeners=listeners,
        uses_zookeeper=uses_zookeeper(requests, scope),
    )
    if mutations.num_rows:
        frame = spark.createDataFrame(mutations, schema=from_arrow_schema(AMOUNTS))
        amounts = amounts.unionByName(frame)
    return amounts.repartition(*SENSOR_COLUMNS).sortWithinPartitions(*SENSOR_COLUMNS, *RECORD_ORDER)


def _log_starts(requests: DataFrame) -> dict[int, int]:
    rows = requests.groupBy("broker_id").agg(F.min("recorded_earliest_ms").alias("first")).collect()
    return {row["broker_id"]: row["first"] for row in rows}


def _read_us(requests: DataFrame) -> dict[int, float]:
    """Return, per broker, what reading a small request may have taken."""
    rows = requests.groupBy("broker_id").agg(
        F.percentile("send_time_us", READ_PERCENTILE / 100.0).alias("read_us")
    )
    return {row["broker_id"]: row["read_us"] for row in rows.collect()}


def controller_listeners(requests: DataFrame) -> frozenset[str]:
    """Return the listeners that only controllers serve; clients of Kafka use others."""
    serving = requests.where(F.col("is_forwarded") | F.col("api_name").isin(*CONTROLLER_APIS))
    return frozenset(row["listener"] for row in serving.select("listener").distinct().collect())


def uses_zookeeper(requests: DataFrame, scope: RunScope) -> bool:
    """Return whether brokers are said to use ZooKeeper, or log what only its controller sends."""
    if any(read_table(scope, "brokers")["uses_zookeeper"].to_pylist()):
        return True
    return not requests.where(F.col("api_name").isin(*ZOOKEEPER_APIS)).isEmpty()


def _mutations(requests: DataFrame) -> pa.Table:
    rows = requests.where(F.col("api_name").isin(*MUTATION_APIS)).select(*MUTATION_COLUMNS)
    return rows.toArrow()
