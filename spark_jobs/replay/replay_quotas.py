"""Step replay_quotas: requests and the quota timeline → decisions, rates, quota_state."""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyspark.sql import SparkSession

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.broker_rules import profile_scores, profiled_brokers
from spark_jobs.replay.broker_stream import RowGroup, row_groups
from spark_jobs.replay.day_edges import (
    around_day,
    handed_on,
    interval_of,
    is_read_again,
    known_from_ms,
    open_requests,
    read_lost_requests,
)
from spark_jobs.replay.locate_changes import late_changes, locate_changes
from spark_jobs.replay.mutations_of_day import open_mutations, replay_mutations, write_inventory
from spark_jobs.replay.replay_broker import ReplayTask, broker_shares, replay_broker
from spark_jobs.replay.sensors.replayed_mutations import seconds_of_decisions
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import DECISION, STATE, CarriedState
from spark_jobs.replay.shared_throttles import put_shared_throttles, read_times_us
from spark_jobs.replay.survey_requests import Survey, survey_requests
from spark_jobs.replay.unknown_brokers import leave_unjudged, unknown_brokers
from spark_jobs.replay.unlogged_changes import leave_unlogged_open, unlogged_changes
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.resolve.broker_log import read_broker_log
from spark_jobs.resolve.resolve_quotas import read_timeline
from spark_jobs.settings import JudgeSettings
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.read import read_table, whole_folder
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import move_files, remove_folder, storage_path
from spark_jobs.warehouse.tables import DECISIONS, QUOTA_STATE
from spark_jobs.warehouse.worker_files import TableFiles
from spark_jobs.warehouse.write import put_carried, put_files, write_table

TABLES_OF_REPLAY = ("decisions", "quota_state", "rates", "agreement")


def replay_quotas(
    spark: SparkSession, scope: RunScope, settings: JudgeSettings | None = None
) -> str:
    """Write decisions, rates, quota_state and topic_inventory of a day; return what was decided.

    The state of the day before is taken over where it was audited, and the first minutes of the day
    after are looked at where it was ingested: so a day replays as if the log had never been cut at
    midnight.
    """
    settings = settings or JudgeSettings()
    before = scope.day_before
    brokers = row_groups(whole_folder(scope, "requests"))
    survey = survey_requests(spark, brokers)
    answered = resolutions_of(scope, survey, as_answered=True)
    rules = profiled_brokers(
        scope,
        lambda: profile_scores(spark, scope, brokers, survey, answered),
        survey.longest_throttle_ms,
    )
    located = locate_changes(spark, scope, brokers, survey, answered.timeline, rules)
    write_table(located, "located_changes", scope)
    resolutions = resolutions_of(scope, survey)
    folder = scope.warehouse / f".staged-{uuid.uuid4().hex}"
    carried = handed_on(before)
    has_request_quotas = resolutions.timeline.has_quotas(QuotaType.REQUEST_PERCENTAGE)
    task = ReplayTask(
        rules=rules,
        resolutions=resolutions,
        carried=carried,
        controller_listeners=survey.controller_listeners,
        broker_log=read_broker_log(scope),
        lost=read_lost_requests(scope, resolutions),
        tolerances=tolerances(settings),
        folder=folder,
        read_us=read_times_us(spark, scope) if has_request_quotas else {},
        has_request_quotas=has_request_quotas,
        interval=interval_of(scope),
    )
    folder.mkdir(parents=True)
    try:
        verdicts = _replay_brokers(spark, scope, brokers, task)
        mutations = replay_mutations(scope, survey, task)
        if task.has_request_quotas:
            tolerance_ms = settings.tolerance_ms
            found = put_shared_throttles(spark, task, tolerance_ms, mutations.rows)
            verdicts = Counter(found)
        verdicts += _stage_mutations(mutations.rows, task)
        taken_back, unlogged = leave_unlogged_open(
            folder / "decisions", scope, settings.tolerance_ms
        )
        verdicts.update(taken_back)
        verdicts.update(leave_unjudged(folder / "decisions", unknown_brokers(scope)))
        for table in TABLES_OF_REPLAY:
            put_files(sorted((folder / table).glob("*.parquet")), table, scope)
    finally:
        remove_folder(folder)
    write_inventory(scope, mutations.inventory, mutations.handed_on)
    put_carried(_handed_on_by(before), state_digest(scope), scope)
    total = sum(verdicts.values())
    parts = ", ".join(f"{n:,} {verdict}" for verdict, n in sorted(verdicts.items()) if n)
    replayed = f"replayed {total:,} decisions ({parts or 'no quota was ever set'})"
    return f"{replayed}{late_changes(located)}{unlogged_changes(unlogged)}{_missing(scope)}"


def _handed_on_by(before: RunScope) -> str | None:
    """Return the digest of what a day's replay said that it hands on; None: it was not audited."""
    if not has_state(before):
        return None
    carried = before.carried()
    return None if carried is None else carried["after"]


def _missing(scope: RunScope) -> str:
    """Return a warning where earlier days were audited, but not the one before; else no text."""
    before = scope.day_before
    earlier = [day for day in days_of(scope.warehouse, scope.cluster) if day < before.day]
    if has_state(before) or not earlier:
        return ""
    return (
        f"\nwarning: {before.day} was not audited, so sensors begin {scope.day} in a state nobody "
        "knows (state_unknown). Audit that day, then 'quota-audit run ARCHIVE --due'"
    )


def resolutions_of(
    scope: RunScope, survey: Survey, *, as_answered: bool = False
) -> ResolutionTable:
    """Return the timeline as arrays; ``as_answered``: as if brokers knew at once of changes."""
    known_ms = known_from_ms(scope, survey.first_ms)
    return ResolutionTable(read_timeline(scope, as_answered=as_answered), known_ms)


def _replay_brokers(
    spark: SparkSession,
    scope: RunScope,
    brokers: Mapping[int, Sequence[RowGroup]],
    task: ReplayTask,
) -> Counter[str]:
    """Stage what all brokers decided on windowed rates."""
    if not brokers:
        return Counter()
    around = around_day(scope, task.carried)
    shares = broker_shares(brokers, spark.sparkContext.defaultParallelism, around)
    attempts = task.folder / "attempts"
    attempts.mkdir()
    # Loaded once by a worker, which then resolves a client once for all brokers.
    shared = spark.sparkContext.broadcast(replace(task, folder=attempts))
    try:
        reports = on_workers(
            spark,
            shares,
            lambda broker: replay_broker(broker, shared.value),
            read=scope.partition_dir("requests"),
            written=attempts,
        )
    finally:
        shared.destroy()
    _take([storage_path(path) for report in reports for path in report.files], task.folder)
    return sum((report.verdicts for report in reports), Counter())


def _take(files: Sequence[Path], folder: Path) -> None:
    """Move what workers reported below ``folder``, each to its table.

    Of a task that was started twice there are files that no report names, and it may still write.
    """
    for table in {path.parent.name for path in files}:
        (folder / table).mkdir(exist_ok=True)
    move_files((path, folder / path.parent.name / path.name) for path in files)


def _stage_mutations(replayed: pa.Table, task: ReplayTask) -> Counter[str]:
    """Stage what REPLAYED says of mutations; return the verdicts that were not staged before.

    With request quotas all decisions and states were.
    """
    files = TableFiles(task.folder)
    decided = replayed.filter(pc.equal(replayed["row_kind"], DECISION))
    files.add("rates", seconds_of_decisions(decided))
    if not task.has_request_quotas:
        states = replayed.filter(pc.equal(replayed["row_kind"], STATE))
        files.add("decisions", decided.select(DECISIONS.names).cast(DECISIONS))
        files.add("quota_state", states.select(QUOTA_STATE.names).cast(QUOTA_STATE))
    files.close()
    return Counter() if task.has_request_quotas else Counter(decided["verdict"].to_pylist())


def tolerances(settings: JudgeSettings) -> Tolerances:
    """Return the judge's tolerances in milliseconds."""
    return Tolerances(
        throttle_ms=settings.tolerance_ms,
        warm_up_ms=settings.warm_up_windows * 1000,
        change_ms=settings.change_ms,
    )


def has_state(scope: RunScope) -> bool:
    """Return True if a day was replayed, so that its sensors' states are known."""
    return scope.partition_dir("quota_state").is_dir()


def carried_states(scope: RunScope) -> dict[SensorKey, CarriedState]:
    """Return the sensors' states at the end of a day; none where it was not replayed."""
    return dict(CarriedState.of_row(row) for row in read_table(scope, "quota_state").to_pylist())


_AT_THE_END = (
    "sensor_epoch", "sensor_seq", "sample_index", "samples", "tokens", "last_update_ms",
    "intervals",
)  # fmt: skip
# Not the file and line, which are others when a file was rotated.
_RESUMED = ("at_ms", "sensor_epoch", "sensor_seq", "sample_index", "samples", "bucket")
# Numbers only, which tell requests apart.
_READ_AGAIN = (
    "recorded_estimate_us", "correlation_id", "api_key", "throttle_time_ms", "request_bytes",
    "response_bytes",
)  # fmt: skip
_OF_MUTATIONS = (
    "recorded_estimate_us", "correlation_id", "broker_id", "recorded_earliest_ms",
    "recorded_latest_ms", "throttle_time_ms", "mutations",
)  # fmt: skip


def state_digest(scope: RunScope) -> str:
    """Return a digest of the states and partitions, whatever order they were written in.

    Requests that the states lack, and the next day's replay reads, are part of it.
    """
    total = xxhash.xxh3_128()
    requests = ((rows, _READ_AGAIN) for rows in open_requests(scope, _READ_AGAIN))
    states = (_states(scope), SENSOR_COLUMNS), (_inventory(scope), ("topic",))
    for rows, order in chain(states, _mutations(scope), requests):
        in_order = rows.sort_by([(name, "ascending") for name in order])
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(in_order.combine_chunks())
        total.update(sink.getbuffer())
    return total.hexdigest()


def _inventory(scope: RunScope) -> pa.Table:
    column = "partitions_handed_on" if is_read_again(scope) else "partitions"
    return read_table(scope, "topic_inventory", ["topic", column])


def _mutations(scope: RunScope) -> list[tuple[pa.Table, tuple[str, ...]]]:
    """Return the mutations to be read again, and their order."""
    if not is_read_again(scope):
        return []
    rows = open_mutations(scope, handed_on(scope)).select(list(_OF_MUTATIONS))
    return [(rows, _OF_MUTATIONS[:-1])]


def _states(scope: RunScope) -> pa.Table:
    """Return the sensors as they are handed on: those at the end only where nothing else is."""
    rows = read_table(scope, "quota_state").combine_chunks()
    resumed = rows["resumes_from"].combine_chunks()
    columns = {name: rows[name] for name in SENSOR_COLUMNS}
    columns |= {f"resumed_{name}": pc.struct_field(resumed, name) for name in _RESUMED}
    is_ended = resumed.is_null()
    for name in _AT_THE_END:
        whole = rows[name].combine_chunks()
        columns[name] = pc.if_else(is_ended, whole, pa.scalar(None, whole.type))
    return pa.table(columns)
