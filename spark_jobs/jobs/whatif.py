"""Step whatif: an ingested day's requests under other rules → the table ``whatif``.

Policies that decide on mutations alone are replayed here: their few requests were brought together
anyway to find which line of each decides. All others go through Spark, each policy's brokers side
by side, or, where a policy keeps one state for the whole cluster, in one task.

A day is replayed on its own, with states that begin empty at midnight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.errors import BadInputError
from spark_jobs.jobs.local_table import write_local
from spark_jobs.jobs.publish_table import read_partition
from spark_jobs.jobs.read_broker_log import read_starts
from spark_jobs.jobs.replay_quotas import read_inventory
from spark_jobs.jobs.resolve_quotas import read_changes
from spark_jobs.jobs.sorted_amounts import controller_listeners, uses_zookeeper
from spark_jobs.jobs.utc_days import DAY_MS, day_number
from spark_jobs.lab.logged_changes import broker_starts, changes_until, failovers, quota_changes
from spark_jobs.lab.normalized_requests import NORMALIZED_COLUMNS, normalized_requests
from spark_jobs.lab.replay import outcome_rows
from spark_jobs.lab.scenario import ScenarioPolicy
from spark_jobs.policy.catalogue import policy_class
from spark_jobs.policy.change import Change, QuotaChanged, TopicAdded
from spark_jobs.policy.client_quotas import QUOTAS
from spark_jobs.policy.policy import StateScope
from spark_jobs.policy.request import PolicyRequest
from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.tables import WHATIF
from spark_jobs.transforms.mutation_lines import decided_lines
from spark_jobs.transforms.mutations import MUTATION_COLUMNS
from spark_jobs.warehouse import RunScope, read_table

# Where requests are replayed: the broker, or all of them together.
_REPLAY, _LANE, _WHOLE_CLUSTER = "replay", "lane", -1
_ORDER = ("recorded_estimate_us", "source_file", "source_line")
_LINE_COLUMNS = tuple(dict.fromkeys((*NORMALIZED_COLUMNS, *_ORDER)))


@dataclass(frozen=True, slots=True)
class LoggedDay:
    """What a day's tables tell besides requests."""

    controller_listeners: frozenset[str]
    uses_zookeeper: bool
    changes: tuple[Change, ...]


def whatif(spark: SparkSession, scope: RunScope, policies: Sequence[ScenarioPolicy]) -> pa.Table:
    """Write what the requests of an ingested and resolved day get under each of the policies.

    Returns the rows, of schema WHATIF. Raises BadInputError where the day was not ingested, and
    PolicyConfigError where a policy refuses a quota or a topic of the log.
    """
    requests = read_partition(spark, "requests", scope)
    if not scope.partition_dir("requests").is_dir():
        raise BadInputError(
            f"{scope.warehouse} holds no requests of the cluster {scope.cluster!r} on {scope.day}. "
            "Ingest the day first, or name the archive."
        )
    day = _logged_day(requests, scope)
    for policy in policies:
        _hear_all(policy, day)
    rows = _of_mutations(requests, scope, day, [p for p in policies if _only_mutates(p)])
    rows += _of_lines(requests, day, [p for p in policies if not _only_mutates(p)])
    place = {policy.label: i for i, policy in enumerate(policies)}
    # The sort is stable, and each policy's rows come in their order.
    rows.sort(key=lambda row: (place[row["label"]], row["broker_id"]))
    table = pa.Table.from_pylist(rows, schema=WHATIF)
    write_local(table, "whatif", scope)
    return table


def _logged_day(requests: DataFrame, scope: RunScope) -> LoggedDay:
    quotas = read_changes(scope, read_table(scope, "brokers")["broker_id"].to_pylist())
    changes: list[Change] = [
        *broker_starts(read_starts(scope)), *quota_changes(quotas), *_topics_seen(requests)
    ]  # fmt: skip
    return LoggedDay(
        controller_listeners(requests),
        uses_zookeeper(requests, scope),
        tuple(changes_until(changes, end_ms=(day_number(scope.day) + 1) * DAY_MS)),
    )


def _topics_seen(requests: DataFrame) -> list[TopicAdded]:
    """Return when each broker was first asked for each topic."""
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


def _heard_by(policy: ScenarioPolicy, changes: Sequence[Change]) -> list[Change]:
    """Return the changes without the log's quotas for a policy that is given quotas of its own."""
    has_own = QUOTAS in policy.config
    return [c for c in changes if not (has_own and isinstance(c, QuotaChanged))]


def _hear_all(policy: ScenarioPolicy, day: LoggedDay) -> None:
    """Let a policy hear every change, so that one it refuses is refused before Spark works."""
    begun = policy.begin()
    for change in _heard_by(policy, day.changes):
        begun.observe(change)


def _only_mutates(policy: ScenarioPolicy) -> bool:
    return policy_class(policy.name).apis <= frozenset(MUTATION_APIS)


def _of_mutations(
    requests: DataFrame, scope: RunScope, day: LoggedDay, policies: Sequence[ScenarioPolicy]
) -> list[dict[str, Any]]:
    """Return the rows of policies on mutations. What only a broker's line tells of is its own."""
    if not policies:
        return []
    columns = tuple(dict.fromkeys((*MUTATION_COLUMNS, *_LINE_COLUMNS)))
    lines = requests.where(F.col("api_name").isin(*MUTATION_APIS)).select(*columns)
    decided, told = decided_lines(
        lines.toArrow().to_pylist(), day.controller_listeners, uses_zookeeper=day.uses_zookeeper
    )
    decided.sort(key=_line_order)
    lines_in_order = sorted([*decided, *told], key=_line_order)
    before = scope.day_before
    inventory = read_inventory(before)
    mutations = list(normalized_requests(lines_in_order, day.controller_listeners, inventory))
    changes = changes_until([*day.changes, *failovers(decided)])
    return [
        row
        for policy in policies
        for row in outcome_rows(policy, mutations, _heard_by(policy, changes))
    ]


def _line_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _ORDER)


def _of_lines(
    requests: DataFrame, day: LoggedDay, policies: Sequence[ScenarioPolicy]
) -> list[dict[str, Any]]:
    """Return the rows of policies on any other requests, from Spark."""
    if not policies:
        return []
    copies = F.array(*[_copy(i, policy) for i, policy in enumerate(policies)])
    placed = (
        requests.select(*_LINE_COLUMNS, F.explode(copies).alias("copy"))
        .where(F.col("copy").isNotNull())
        .select(*_LINE_COLUMNS, F.col("copy.replay"), F.col("copy.lane"))
    )
    found = (
        placed.repartition(_REPLAY, _LANE)
        .sortWithinPartitions(_REPLAY, _LANE, *_ORDER)
        .mapInArrow(_replay_lanes(policies, day), from_arrow_schema(WHATIF))
    )
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return sorted(rows, key=lambda r: (r["broker_id"], r["user"], r["client_id"] or "", r["kind"]))


def _copy(index: int, policy: ScenarioPolicy) -> Any:
    """Return where a request is replayed under a policy, null where it decides on none such."""
    kind = policy_class(policy.name)
    whole = kind.scope is StateScope.CLUSTER
    lane = F.lit(_WHOLE_CLUSTER) if whole else F.col("broker_id")
    place = F.struct(F.lit(index).alias(_REPLAY), lane.alias(_LANE))
    return F.when(F.col("api_name").isin(*sorted(kind.apis)), place)


def _replay_lanes(
    policies: Sequence[ScenarioPolicy], day: LoggedDay
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that replays each policy's lanes, one after the other."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for (replay, lane), lines in groupby(rows, key=lambda r: (r[_REPLAY], r[_LANE])):
            broker_id = None if lane == _WHOLE_CLUSTER else lane
            changes = changes_until(_heard_by(policies[replay], day.changes), broker_id=broker_id)
            requests: Iterator[PolicyRequest] = normalized_requests(lines, day.controller_listeners)
            found = outcome_rows(policies[replay], requests, changes)
            yield pa.RecordBatch.from_pylist(found, schema=WHATIF)

    return run
