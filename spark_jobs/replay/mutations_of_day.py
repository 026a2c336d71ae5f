"""A day's controller mutations, all brokers' together: few, and replayed without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.quota.partition_inventory import MUTATION_APIS, PartitionInventory
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.broker_stream import RowGroup, groups_since, read_group, row_groups
from spark_jobs.replay.day_edges import groups_ahead, interval_of, is_read_again
from spark_jobs.replay.replay_broker import ReplayTask
from spark_jobs.replay.sensors.mutation_interval import (
    TWINS_MS,
    MutationInterval,
    ReplayedMutations,
    lines_since,
    reads_from_ms,
)
from spark_jobs.replay.sensors.mutations import mutation_lines
from spark_jobs.replay.sensors.sensor_states import CarriedState
from spark_jobs.replay.survey_requests import MUTATIONS, Survey
from spark_jobs.warehouse.read import read_table, whole_folder
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TOPIC_INVENTORY
from spark_jobs.warehouse.write import write_table

_AT_THE_END, _HANDED_ON = "partitions", "partitions_handed_on"


def read_inventory(scope: RunScope) -> PartitionInventory:
    """Return the partitions per topic as known at the end of a day."""
    return _read(scope, _AT_THE_END)


def handed_on_inventory(scope: RunScope) -> PartitionInventory:
    """Return the partitions per topic before the first line that the next replay reads again."""
    return _read(scope, _HANDED_ON)


def _read(scope: RunScope, column: str) -> PartitionInventory:
    rows = read_table(scope, "topic_inventory", ["topic", column]).to_pylist()
    return PartitionInventory({r["topic"]: r[column] for r in rows if r[column] is not None})


def write_inventory(
    scope: RunScope, at_the_end: PartitionInventory, handed_on: PartitionInventory
) -> None:
    """Write the table of a day."""
    known, known_before = at_the_end.known(), handed_on.known()
    rows = [
        {"topic": topic, _AT_THE_END: known.get(topic), _HANDED_ON: known_before.get(topic)}
        for topic in sorted(known | known_before)
    ]
    write_table(pa.Table.from_pylist(rows, schema=TOPIC_INVENTORY), "topic_inventory", scope)


_LOOKED_AT = ("api_name", "recorded_estimate_us")


def replay_mutations(scope: RunScope, survey: Survey, task: ReplayTask) -> ReplayedMutations:
    """Return the decisions on a day's mutations, the sensors' states and the partitions."""
    before = scope.day_before
    from_ms, inventory = task.interval.from_ms, read_inventory(before)
    read = [survey.mutations, _mutations_in(groups_ahead(scope))]
    if is_read_again(before):
        from_ms = reads_from_ms(task.carried.items(), interval_of(before))
        inventory = handed_on_inventory(before)
        read.append(open_mutations(before, task.carried))
    uses_zookeeper = survey.uses_zookeeper or any(
        read_table(scope, "brokers")["uses_zookeeper"].to_pylist()
    )
    lines = mutation_lines(
        pa.concat_tables(read),
        controller_listeners=task.controller_listeners,
        uses_zookeeper=uses_zookeeper,
    )
    of_day = MutationInterval(
        interval=task.interval,
        rules=task.rules,
        carried=task.carried,
        tolerances=task.tolerances,
        resolutions=task.resolutions,
        broker_log=task.broker_log,
        uses_zookeeper=uses_zookeeper,
    )
    return of_day.replayed(lines_since(lines, from_ms, task.interval), inventory)


def open_mutations(scope: RunScope, handed_on: Mapping[SensorKey, CarriedState]) -> pa.Table:
    """Return the mutations (MUTATION_COLUMNS) of a day that the next day's replay reads again."""
    from_us = (reads_from_ms(handed_on.items(), interval_of(scope)) - TWINS_MS) * 1000
    groups = row_groups(whole_folder(scope, "requests"))
    return _mutations_in({broker: groups_since(each, from_us) for broker, each in groups.items()})


def _mutations_in(groups: Mapping[int, Iterable[RowGroup]]) -> pa.Table:
    files: dict[str, pq.ParquetFile] = {}
    found = [MUTATIONS.empty_table()]
    for broker_id, each in groups.items():
        for group in each:
            if pc.any(_is_mutation(read_group(group, broker_id, _LOOKED_AT, files))).as_py():
                rows = read_group(group, broker_id, MUTATIONS.names, files)
                found.append(rows.filter(_is_mutation(rows)).cast(MUTATIONS))
    return pa.concat_tables(found)


def _is_mutation(rows: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(rows["api_name"].cast(pa.string()), pa.array(MUTATION_APIS))
