"""What a replay has to know of a day's requests before it begins, in one pass over few columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.ingest.messages.message_definition import CONTROLLER_APIS, ZOOKEEPER_APIS
from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.replay.broker_stream import RowGroup
from spark_jobs.replay.sensors.amounts import bools, is_any_of
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.parquet import parquet_file
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.tables import REQUESTS

_LOOKED_AT = (
    "broker_id", "api_name", "is_forwarded", "listener", "recorded_earliest_ms", "log_time_ms",
    "throttle_time_ms",
)  # fmt: skip
MUTATIONS = pa.schema([REQUESTS.field(name) for name in MUTATION_COLUMNS])


@dataclass(frozen=True, slots=True)
class Survey:
    """The log's first record times and longest throttles, by broker, and who served what."""

    first_ms: Mapping[int, int]
    longest_throttle_ms: Mapping[int, int]
    log_times_ms: tuple[int, int] | None  # of the first and the last line
    controller_listeners: frozenset[str]
    uses_zookeeper: bool
    mutations: pa.Table  # MUTATION_COLUMNS of the requests that change topics


def survey_requests(spark: SparkSession, brokers: Mapping[int, Sequence[RowGroup]]) -> Survey:
    """Return the survey of all brokers' row groups."""
    groups = {(g.path, g.index) for of_broker in brokers.values() for g in of_broker}
    by_file: dict[str, list[int]] = {}
    for path, index in sorted(groups):
        by_file.setdefault(path, []).append(index)
    if not by_file:
        return Survey({}, {}, None, frozenset(), False, MUTATIONS.empty_table())
    folder = storage_path(next(iter(by_file))).parent
    found = on_workers(spark, list(by_file.items()), _survey_file, read=folder)
    first_ms: dict[int, int] = {}
    longest_throttle_ms: dict[int, int] = defaultdict(int)
    for survey in found:
        for broker_id, at_ms in survey.first_ms.items():
            first_ms[broker_id] = min(at_ms, first_ms.get(broker_id, at_ms))
        for broker_id, longest_ms in survey.longest_throttle_ms.items():
            longest_throttle_ms[broker_id] = max(longest_ms, longest_throttle_ms[broker_id])
    return Survey(
        first_ms=first_ms,
        longest_throttle_ms=dict(longest_throttle_ms),
        log_times_ms=_span([s.log_times_ms for s in found if s.log_times_ms]),
        controller_listeners=frozenset().union(*(s.controller_listeners for s in found)),
        uses_zookeeper=any(s.uses_zookeeper for s in found),
        mutations=pa.concat_tables([s.mutations for s in found]),
    )


def _survey_file(file: tuple[str, Sequence[int]]) -> Survey:
    path, indices = file
    opened = parquet_file(path, read_dictionary=["api_name", "listener"])
    rows = opened.read_row_groups(indices, columns=list(_LOOKED_AT), use_threads=False)
    rows = rows.unify_dictionaries().combine_chunks()
    serves = bools(rows["is_forwarded"]) | is_any_of(rows["api_name"], CONTROLLER_APIS)
    listeners = pc.unique(rows["listener"].filter(pa.array(serves)).cast(pa.string())).to_pylist()
    of_broker = rows.group_by("broker_id").aggregate(
        [("recorded_earliest_ms", "min"), ("throttle_time_ms", "max")]
    )
    broker_ids = of_broker["broker_id"].to_pylist()
    mutations = MUTATIONS.empty_table()
    if is_any_of(rows["api_name"], MUTATION_APIS).any():
        whole = parquet_file(path).read_row_groups(
            indices, columns=list(MUTATION_COLUMNS), use_threads=False
        )
        own = whole.filter(pc.is_in(whole["api_name"], pa.array(MUTATION_APIS)))
        mutations = own.select(list(MUTATION_COLUMNS)).cast(MUTATIONS)
    return Survey(
        first_ms=dict(
            zip(broker_ids, of_broker["recorded_earliest_ms_min"].to_pylist(), strict=True)
        ),
        longest_throttle_ms=dict(
            zip(broker_ids, of_broker["throttle_time_ms_max"].to_pylist(), strict=True)
        ),
        log_times_ms=tuple(pc.min_max(rows["log_time_ms"]).as_py().values()) if len(rows) else None,
        controller_listeners=frozenset(listeners),
        uses_zookeeper=bool(is_any_of(rows["api_name"], ZOOKEEPER_APIS).any()),
        mutations=mutations,
    )


def _span(spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    if not spans:
        return None
    return min(first for first, _ in spans), max(last for _, last in spans)
