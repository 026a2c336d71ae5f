"""What a day's tables tell a replay besides requests: changes, listeners, brokers' settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.log_gaps import controller_listeners
from spark_jobs.ingest.messages.message_definition import ZOOKEEPER_APIS
from spark_jobs.quota.codes import QuotaType
from spark_jobs.resolve.broker_log import read_starts
from spark_jobs.resolve.resolve_quotas import read_changes
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.read import read_frame, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.whatif.clients.client_log import FETCHES
from spark_jobs.whatif.clients.logged_changes import (
    broker_config,
    broker_starts,
    changes_until,
    config_of_all,
    quota_changes,
)
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.policies.change import Change, QuotaChanged, TopicAdded
from spark_jobs.whatif.policies.client_quotas import QUOTAS

_BYTE_RATES = (str(QuotaType.PRODUCER_BYTE_RATE), str(QuotaType.CONSUMER_BYTE_RATE))


@dataclass(frozen=True, slots=True)
class LoggedDay:
    """One day of a cluster."""

    controller_listeners: frozenset[str]
    uses_zookeeper: bool
    changes: tuple[Change, ...]
    # By broker, None: what all of them agree on.
    broker_configs: Mapping[int | None, Mapping[str, object]]

    def heard_by(
        self, policy: ScenarioPolicy, changes: Sequence[Change] | None = None
    ) -> list[Change]:
        """Return the changes, without the log's quotas for a policy with quotas of its own."""
        heard = self.changes if changes is None else changes
        return [c for c in heard if not (QUOTAS in policy.config and isinstance(c, QuotaChanged))]

    def on_broker(self, policy: ScenarioPolicy, broker_id: int | None) -> ScenarioPolicy:
        """Return the policy as it is on one broker, or on all of them together (None)."""
        return policy.on_broker(self.broker_configs.get(broker_id, self.broker_configs[None]))


def logged_day(spark: SparkSession, requests: DataFrame, scope: RunScope) -> LoggedDay:
    """Return the logged day from the tables of an ingested and resolved day.

    ``requests`` are those of :func:`logged_requests`.
    """
    ingested = read_frame(spark, "requests", scope)
    brokers = read_table(scope, "brokers").to_pylist()
    quotas = read_changes(scope, [row["broker_id"] for row in brokers])
    changes: list[Change] = [
        *broker_starts(read_starts(scope)), *quota_changes(quotas), *_topics_seen(requests)
    ]  # fmt: skip
    return LoggedDay(
        controller_listeners(ingested),
        _uses_zookeeper(ingested, brokers),
        tuple(changes_until(changes, end_ms=(day_number(scope.day) + 1) * DAY_MS)),
        {None: config_of_all(brokers)} | {row["broker_id"]: broker_config(row) for row in brokers},
    )


def logged_requests(spark: SparkSession, scope: RunScope) -> DataFrame:
    """Return the day's requests; where it was audited, at the times and with the sizes found then.

    A throttled fetch was answered with nothing: what it had tried to read is known from the audit
    alone, and else is null. Raises BadInputError where the day was not ingested.
    """
    requests = read_frame(spark, "requests", scope)
    if not scope.partition_dir("requests").is_dir():
        raise BadInputError(
            f"{scope.warehouse} holds no requests of the cluster {scope.cluster!r} on {scope.day}. "
            "Run 'quota-audit run' on its archive first, or name the archive."
        )
    audited = (
        read_frame(spark, "decisions", scope)
        .where(F.col("quota_type").isin(*_BYTE_RATES))
        .select(
            "source_file",
            "source_line",
            (F.col("recorded_at_ms") * 1000).alias("found_us"),
            F.when(F.col("is_unrecorded"), F.round("amount").cast("long")).alias("found_bytes"),
        )
    )
    records = F.aggregate(
        "topics",
        F.lit(0).cast("long"),
        lambda total, topic: total + F.coalesce(topic["records_bytes"], F.lit(0)),
    )
    is_emptied = (
        F.col("api_name").isin(*FETCHES)
        & (F.col("throttle_time_ms") > 0)
        & (F.coalesce(records, F.lit(0)) == 0)
    )
    return requests.join(audited, ["source_file", "source_line"], "left").withColumns(
        {
            "recorded_estimate_us": F.coalesce("found_us", "recorded_estimate_us"),
            "response_bytes": F.coalesce(
                "found_bytes", F.when(~is_emptied, F.col("response_bytes"))
            ),
        }
    )


def _uses_zookeeper(requests: DataFrame, brokers: Sequence[Mapping[str, object]]) -> bool:
    """Return True if brokers are said to use ZooKeeper, or log what only its controller sends."""
    if any(row["uses_zookeeper"] for row in brokers):
        return True
    return not requests.where(F.col("api_name").isin(*ZOOKEEPER_APIS)).isEmpty()


def _topics_seen(requests: DataFrame) -> list[TopicAdded]:
    """Return the topics of each broker, as added when they were first asked for, in that order."""
    topic = F.explode("topics").alias("part")
    seen = requests.select("broker_id", "recorded_estimate_us", topic)
    rows = (
        seen.where(F.length("part.topic") > 0)
        .groupBy("broker_id", F.col("part.topic").alias("topic"))
        .agg(F.min("recorded_estimate_us").alias("first_us"))
        .orderBy("first_us", "broker_id", "topic")
        .collect()
    )
    return [TopicAdded(row["first_us"] // 1000, row["broker_id"], row["topic"]) for row in rows]
