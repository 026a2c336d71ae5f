"""Step judge_decisions: decisions → findings, rates → roll-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.judge.causes.findings import SensorSecond, find
from spark_jobs.judge.crosscheck_metrics import crosscheck_metrics
from spark_jobs.judge.explain_stretches import explain_stretches
from spark_jobs.judge.throttles import throttled_by_second
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.verdicts.verdicts import (
    QUOTA_CHANGE_IN_FLIGHT,
    SAMPLE_TIMING,
    STATE_UNKNOWN,
    THROTTLED_WITHOUT_QUOTA,
)
from spark_jobs.settings import CrosscheckSettings, JudgeSettings
from spark_jobs.warehouse.read import count_rows, open_table, read_batches, read_frame, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS, RATE_ROLLUPS, ROLLUP_SPANS_MS
from spark_jobs.warehouse.write import ROWS_IN_GROUP, write_table

_OPEN = (SAMPLE_TIMING, STATE_UNKNOWN, QUOTA_CHANGE_IN_FLIGHT)


def judge_decisions(
    session: Callable[[], SparkSession],
    scope: RunScope,
    settings: JudgeSettings | None = None,
    metrics: Sequence[Path] = (),
) -> str:
    """Write ``findings`` and ``rate_rollups`` of a day and return what was found in a sentence.

    ``session`` returns a Spark session; it is not asked for one where no decision is suspect.
    ``metrics`` are exports of the brokers' own metrics, see :func:`crosscheck_metrics`.
    """
    settings = settings or JudgeSettings()
    has_suspects = _has_suspects(scope)
    seconds = _suspect_seconds(session(), scope, settings.tolerance_ms) if has_suspects else []
    brokers = read_table(scope, "brokers", ["broker_id", "version"]).to_pylist()
    findings = find(
        seconds,
        cluster=scope.cluster,
        versions={b["broker_id"]: b["version"] for b in brokers},
        min_decisions=settings.finding_min_decisions,
        stretches=explain_stretches(scope, settings),
    )
    compared = ""
    if metrics:
        checked = crosscheck_metrics(scope, metrics, CrosscheckSettings())
        findings += checked.findings
        agreeing = checked.compared - checked.disagreeing
        compared = f", {agreeing:,} of {checked.compared:,} samples of metrics agree"
    rows = pa.Table.from_pylist(findings, schema=FINDINGS)
    write_table(rows, "findings", scope)
    roll_up_rates(scope)
    by_severity = {
        s: sum(f["severity"] == s for f in findings) for s in ("critical", "warning", "info")
    }
    counts = ", ".join(f"{n} {severity}" for severity, n in by_severity.items())
    return f"findings: {len(findings)} ({counts}){compared}"


def _has_suspects(scope: RunScope) -> bool:
    unbound = pc.field("reason") == THROTTLED_WITHOUT_QUOTA
    suspect = pc.field("verdict").isin(WRONG_VERDICTS) | pc.coalesce(unbound, pa.scalar(False))
    return bool(open_table(scope, "decisions").count_rows(filter=suspect))


def _suspect_seconds(spark: SparkSession, scope: RunScope, tolerance_ms: int) -> list[SensorSecond]:
    decisions = read_frame(spark, "decisions", scope)
    seconds = []
    for row in seconds_of_suspects(decisions, tolerance_ms).collect():
        fields = row.asDict()
        key = SensorKey(*(fields.pop(name) for name in SENSOR_COLUMNS))
        seconds.append(SensorSecond(key=key, **fields))
    return seconds


def seconds_of_suspects(decisions: DataFrame, tolerance_ms: int) -> DataFrame:
    """Return per-second counts (SensorSecond's fields) of the sensors with any wrong decision.

    Open is what is off by more than ``tolerance_ms``, and accuses nobody for its reason in _OPEN.
    """
    is_wrong = F.col("verdict").isin(*WRONG_VERDICTS)
    is_unbound_throttled = F.coalesce(F.col("reason") == THROTTLED_WITHOUT_QUOTA, F.lit(False))
    logged_ms = F.col("logged_throttle_time_ms")
    replayed_ms = F.coalesce("replayed_throttle_time_ms", F.lit(0))
    is_bound = F.col("bound").isNotNull()
    is_due = is_bound & (~F.coalesce("replayed_admitted", F.lit(True)) | (replayed_ms > 0))
    is_enforced = (logged_ms > 0) | ~F.col("logged_admitted")
    difference_ms = F.when(is_wrong, F.abs(logged_ms - replayed_ms)).otherwise(0)
    is_evidence = is_bound & (is_due | is_enforced)
    is_open = is_bound & F.coalesce(F.col("reason").isin(*_OPEN), F.lit(False))
    suspects = decisions.where(is_wrong | is_unbound_throttled).select(*SENSOR_COLUMNS).distinct()
    return (
        decisions.join(F.broadcast(suspects), on=list(SENSOR_COLUMNS), how="left_semi")
        .withColumn("second_ms", (F.floor(F.col("recorded_at_ms") / 1000) * 1000).cast("long"))
        .groupBy(*SENSOR_COLUMNS, "second_ms")
        .agg(
            F.count_if(is_bound).alias("decisions"),
            F.count_if(is_due).alias("due"),
            F.count_if(is_due & is_enforced).alias("enforced"),
            *[F.count_if(F.col("verdict") == v).alias(v) for v in WRONG_VERDICTS],
            F.count_if(is_unbound_throttled).alias("unbound_throttled"),
            F.count_if(is_evidence & (F.col("verdict") == "agree")).alias("agreeing"),
            F.count_if(is_open & (logged_ms < replayed_ms - tolerance_ms)).alias(
                "open_under_throttled"
            ),
            F.count_if(is_open & (logged_ms > replayed_ms + tolerance_ms)).alias(
                "open_over_throttled"
            ),
            F.min("bound").alias("bound_min"),
            F.max("bound").alias("bound_max"),
            F.sum(logged_ms.cast("long")).alias("logged_throttle_time_ms"),
            F.sum(replayed_ms.cast("long")).alias("replayed_throttle_time_ms"),
            F.max(difference_ms).alias("difference_max_ms"),
        )
    )


_KEYS = (*SENSOR_COLUMNS, "from_ms")
_RATES = (*SENSOR_COLUMNS, "second_ms", "amount", "rate", "tokens", "bound")
_ORDER = (*ENTITY_COLUMNS, "broker_id", "from_ms")
_MEASURES = {
    "seconds": "sum",
    "amount": "sum",
    "rate": "max",
    "tokens": "min",
    "bound_min": "min",
    "bound_max": "max",
    "throttled_requests": "sum",
    "throttle_time_ms": "sum",
}

# A sum of floats tells in which order it was made: of files, of threads.
_EXACT = pa.decimal128(38, 12)


def roll_up_rates(scope: RunScope) -> int:
    """Write the ``rate_rollups`` of a day, in order of sensor and time; return how many rows.

    No more than the day's minutes are in memory.
    """
    minutes = _minutes(scope)
    spans = [minutes.append_column("span_ms", _repeated(ROLLUP_SPANS_MS[0], minutes))]
    for span_ms in ROLLUP_SPANS_MS[1:]:
        coarser = _rolled_up(spans[-1], span_ms)
        spans.append(coarser.append_column("span_ms", _repeated(span_ms, coarser)))
    write_rollups(spans, scope)
    return sum(rows.num_rows for rows in spans)


def write_rollups(spans: Sequence[pa.Table], scope: RunScope) -> None:
    """Write the rows of each span, the minutes first, as a file in order of sensor and time."""
    in_order = [(name, "ascending") for name in _ORDER]
    ordered = [
        rows.select(RATE_ROLLUPS.names).cast(RATE_ROLLUPS).sort_by(in_order) for rows in spans
    ]
    # A client has few hours: groups as small as theirs cost little, for there are few in all.
    in_group = [ROWS_IN_GROUP, *[ROWS_IN_GROUP // 16] * (len(ordered) - 1)]
    write_table(list(zip(ordered, in_group, strict=True)), "rate_rollups", scope)


def _minutes(scope: RunScope) -> pa.Table:
    measures = [("amount", "sum"), ("rate", "max"), ("tokens", "min"), ("bound", "min"),
                ("bound", "max")]  # fmt: skip
    counted = count_rows(_by_minute(scope), _KEYS, measures)
    if counted is None:
        return RATE_ROLLUPS.empty_table().drop_columns(["span_ms"])
    minutes = counted.rename_columns(
        [*_KEYS, "seconds", "amount", "rate", "tokens", "bound_min", "bound_max"]
    )
    throttled = minutes.join(_throttled(scope), list(_KEYS), join_type="left outer")
    for name in ("throttled_requests", "throttle_time_ms"):
        place = throttled.column_names.index(name)
        throttled = throttled.set_column(place, name, pc.fill_null(throttled[name], 0))
    return throttled.select([n for n in RATE_ROLLUPS.names if n != "span_ms"])


def _by_minute(scope: RunScope) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(scope, "rates", _RATES):
        minute = _begin(batch.column("second_ms"), ROLLUP_SPANS_MS[0])
        columns = {name: batch.column(name) for name in _RATES if name != "second_ms"}
        columns["amount"] = columns["amount"].cast(_EXACT)
        yield pa.RecordBatch.from_pydict(columns | {"from_ms": minute})


def _throttled(scope: RunScope) -> pa.Table:
    seconds = throttled_by_second(scope)
    minute = _begin(seconds["second_ms"], ROLLUP_SPANS_MS[0])
    counted = (
        seconds.append_column("from_ms", minute)
        .group_by(list(_KEYS))
        .aggregate([("requests", "sum"), ("throttle_time_ms", "sum")])
    )
    names = [*_KEYS, "throttled_requests", "throttle_time_ms"]
    rows = counted.select([*_KEYS, "requests_sum", "throttle_time_ms_sum"]).rename_columns(names)
    # Of no row, no type was seen.
    return rows.cast(pa.schema([RATE_ROLLUPS.field(name) for name in names]))


def _rolled_up(rows: pa.Table, span_ms: int) -> pa.Table:
    place = rows.column_names.index("from_ms")
    wider = rows.set_column(place, "from_ms", _begin(rows["from_ms"], span_ms))
    counted = wider.group_by(list(_KEYS)).aggregate(list(_MEASURES.items()))
    taken = [f"{name}_{how}" for name, how in _MEASURES.items()]
    return counted.select([*_KEYS, *taken]).rename_columns([*_KEYS, *_MEASURES])


def _begin(times: pa.ChunkedArray, span_ms: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(times, span_ms), span_ms)


def _repeated(value: int, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows)
