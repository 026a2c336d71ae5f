"""Which listeners are controllers' own, and whether brokers have ZooKeeper, by what they serve."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.ingest.lines.serving import CONTROLLER_APIS, ZOOKEEPER_APIS
from spark_jobs.warehouse.warehouse import RunScope, read_table


def controller_listeners(requests: DataFrame) -> frozenset[str]:
    """Return the listeners that only controllers serve; clients of Kafka use others."""
    serving = requests.where(F.col("is_forwarded") | F.col("api_name").isin(*CONTROLLER_APIS))
    return frozenset(row["listener"] for row in serving.select("listener").distinct().collect())


def uses_zookeeper(requests: DataFrame, scope: RunScope) -> bool:
    """Return whether brokers are said to use ZooKeeper, or log what only its controller sends."""
    if any(read_table(scope, "brokers")["uses_zookeeper"].to_pylist()):
        return True
    return not requests.where(F.col("api_name").isin(*ZOOKEEPER_APIS)).isEmpty()
