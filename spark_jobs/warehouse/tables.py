"""Every table's pyarrow schema: the contract of names, types and units.

All times are epoch milliseconds UTC (int64). Tables are Parquet under ``<warehouse>/<table>/``,
Hive-partitioned by ``cluster`` and, unless in :data:`PARTITIONED_BY_CLUSTER_ONLY`, ``date`` (UTC
date of the log line's time). Partition columns are not part of the schemas below.
"""

from __future__ import annotations

import pyarrow as pa

I8, I16, I32, I64, F64, STR, BOOL = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
)

TABLES: dict[str, pa.Schema] = {}
"""Every table's schema by its name, in the order in which tables are listed."""


def _table(name: str, *columns: pa.Field) -> pa.Schema:
    TABLES[name] = pa.schema(columns)
    return TABLES[name]


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


# The sensor's key as the broker keeps it: ("alice", ""), ("", "clientA"), ("alice", "clientA").
SENSOR_KEY = [
    _required("quota_type", STR),
    _required("quota_user", STR),
    _required("quota_client_id", STR),
]
# The configured entity: null = no such part, "<default>" = the default.
ENTITY_KEY = [
    _required("quota_type", STR),
    pa.field("quota_user", STR),
    pa.field("quota_client_id", STR),
]

MUTATION = pa.struct(
    {
        "topic": STR,
        # CreateTopics: the topic's partitions; CreatePartitions: the new total; else null.
        "partitions": I32,
        "error_code": I16,
    }
)
TOPIC_BYTES = pa.struct({"topic": STR, "records_bytes": I64})
QUOTA_ALTERATION = pa.struct(
    {
        "quota_type": STR,
        "quota_user": STR,
        "quota_client_id": STR,
        "bound": F64,  # null: the value was removed
    }
)
SAMPLE = pa.struct({"start_ms": I64, "last_event_ms": I64, "value": F64})

REQUESTS = _table(
    "requests",
    _required("broker_id", I32),
    _required("log_time_ms", I64),
    _required("recorded_earliest_ms", I64),
    _required("recorded_latest_ms", I64),
    # Point estimate of the record time in whole ms, as microseconds since the epoch: the
    # replay's order; requests of one millisecond follow in the order of their lines.
    _required("recorded_estimate_us", I64),
    _required("connection", STR),
    _required("correlation_id", I32),
    _required("api_key", I16),
    _required("api_name", STR),
    _required("api_version", I16),
    _required("principal", STR),
    _required("user", STR),
    pa.field("client_id", STR),
    _required("listener", STR),
    _required("is_forwarded", BOOL),
    pa.field("acks", I16),
    # A fetch by a follower or controller replica: exempt from client quotas.
    _required("is_replica", BOOL),
    pa.field("fetch_max_bytes", I64),
    pa.field("request_bytes", I64),
    _required("request_bytes_known", BOOL),
    pa.field("response_bytes", I64),
    _required("total_time_us", I64),
    _required("request_queue_time_us", I64),
    _required("handler_time_us", I64),
    _required("remote_time_us", I64),
    _required("response_queue_time_us", I64),
    _required("send_time_us", I64),
    _required("throttle_time_ms", I32),
    pa.field("software_name", STR),
    pa.field("software_version", STR),
    pa.field("error_codes", pa.list_(I16)),
    pa.field("topics", pa.list_(TOPIC_BYTES)),
    pa.field("mutations", pa.list_(MUTATION)),
    pa.field("validate_only", BOOL),
    pa.field("quota_alterations", pa.list_(QUOTA_ALTERATION)),
    _required("source_file", STR),
    _required("source_line", I64),
)

QUARANTINE = _table(
    "quarantine",
    pa.field("broker_id", I32),
    pa.field("log_time_ms", I64),
    _required("source_file", STR),
    _required("source_line", I64),
    _required("reason", STR),
    _required("text", STR),
)

FILES = _table(
    "files",
    _required("source_file", STR),
    pa.field("broker_id", I32),
    _required("bytes_read", I64),  # the file's size, packed as it is
    pa.field("modified_ns", I64),  # since 1970, as its file system tells
    _required("lines_read", I64),
    _required("requests", I64),
    _required("quarantined", I64),
    _required("other", I64),
    # Lines of the file that belong to another day than the one audited.
    _required("other_days", I64),
    # Lines of a file that is another's copy: they count there.
    _required("duplicated", I64),
    pa.field("duplicate_of", STR),
    _required("digest", STR),  # XXH3 (128 bits) of the unpacked bytes, in hex
    pa.field("day_digest", STR),  # of its requests of this day, whichever file they are in
    pa.field("days", pa.list_(STR)),  # UTC, of all its requests, as 2026-11-21
)

BROKERS = _table(
    "brokers",
    _required("broker_id", I32),
    pa.field("version", STR),
    _required("version_source", STR),  # option, archive, detected, unknown
    # With ZooKeeper a quota of one type enables its level for the other types too.
    _required("uses_zookeeper", BOOL),
    pa.field("rate_profile", STR),
    # Of byte rates; null: a longer throttle is cut to 32 bits.
    pa.field("throttle_max_ms", I64),
    # What tells that it is newer than all that is known here; null: nothing. It is not judged.
    pa.field("newer_than_known", STR),
    _required("samples", I32),
    _required("window_ms", I64),
    _required("controller_samples", I32),
    _required("controller_window_ms", I64),
)

QUOTA_EVENTS = _table(
    "quota_events",
    *ENTITY_KEY,
    pa.field("bound", F64),  # null: the value was removed
    pa.field("broker_id", I32),  # null: every broker
    # The moment it took effect lies in [earliest_ms, latest_ms].
    _required("earliest_ms", I64),
    _required("latest_ms", I64),
    _required("source", STR),  # log, server_log, snapshot, static, journal
    pa.field("source_file", STR),
    pa.field("source_line", I64),
)

PLACE = pa.struct({"broker_id": I32, "after_ms": I64, "before_ms": I64})
LOG_GAPS = _table(
    "log_gaps",
    _required("user", STR),
    pa.field("client_id", STR),
    # The ids that were logged on both sides of the gap.
    _required("correlation_id_before", I32),
    _required("correlation_id_after", I32),
    _required("missing", I64),
    _required("cause", STR),  # lost_lines, never_read, other_broker
    # The missing requests were recorded in between, wherever that was.
    _required("after_ms", I64),
    _required("before_ms", I64),
    # Where it can have been, and between which moments there.
    _required("places", pa.list_(PLACE)),
    # The only broker and connection that it can have been, else null.
    pa.field("broker_id", I32),
    pa.field("connection", STR),
    # The largest of the client instance's own requests; null: it sent none of that kind.
    pa.field("request_bytes_max", I64),
    pa.field("response_bytes_max", I64),
    _required("handler_time_us_max", I64),
)

BROKER_STARTS = _table(
    "broker_starts",
    _required("broker_id", I32),
    # Nothing a broker kept before is left; it served no request shortly before.
    _required("started_ms", I64),
    _required("source", STR),  # server_log, inferred
    pa.field("source_file", STR),
    pa.field("source_line", I64),
    # The log's line, or a JSON object: numbered_anew, and either is_first_of_log or
    # silent_from_ms and connections_ended.
    _required("evidence", STR),
)

THROTTLE_RECORDS = _table(
    "throttle_records",
    _required("broker_id", I32),
    _required("at_ms", I64),
    *SENSOR_KEY,
    _required("throttle_time_ms", I64),
    _required("source_file", STR),
    _required("source_line", I64),
)

QUOTA_CHANGES = _table(
    "quota_changes",
    *ENTITY_KEY,
    _required("bound", F64),
    pa.field("broker_id", I32),
    _required("valid_from_ms", I64),
    pa.field("valid_until_ms", I64),
    _required("source", STR),
    pa.field("source_file", STR),
    pa.field("source_line", I64),
)

LOCATED_CHANGES = _table(
    "located_changes",
    _required("broker_id", I32),
    # When the controller had answered, as far as the log tells: quota_changes has this moment.
    _required("answered_ms", I64),
    # From when on the broker held its clients to it: what explains their throttles best.
    _required("in_force_ms", I64),
)

DECISIONS = _table(
    "decisions",
    _required("broker_id", I32),
    _required("connection", STR),
    _required("correlation_id", I32),
    _required("api_name", STR),
    _required("api_version", I16),
    _required("user", STR),
    pa.field("client_id", STR),
    *SENSOR_KEY,
    pa.field("quota_level", STR),
    pa.field("resource", STR),
    _required("sensor_epoch", I32),
    _required("sensor_seq", I64),
    _required("log_time_ms", I64),
    _required("recorded_at_ms", I64),
    pa.field("amount", F64),
    # True where the broker took the amount back at the same time (a throttled fetch).
    _required("is_unrecorded", BOOL),
    # What it was given in the end, from the same position; null: that is not in the log.
    pa.field("answered_bytes", F64),
    pa.field("bound", F64),
    pa.field("rate", F64),
    pa.field("window_size_ms", I64),
    pa.field("tokens", F64),
    _required("logged_throttle_time_ms", I32),
    pa.field("replayed_throttle_time_ms", I32),
    _required("logged_admitted", BOOL),
    pa.field("replayed_admitted", BOOL),
    _required("verdict", STR),
    pa.field("reason", STR),
    # The throttles before and after it prove the sensor's state, record times being chosen.
    _required("is_proven", BOOL),
    _required("source_file", STR),
    _required("source_line", I64),
)

AGREEMENT = _table(
    "agreement",
    _required("broker_id", I32),
    *SENSOR_KEY,
    _required("decisions", I64),  # with a bound in force
    _required("same_decision", I64),
    # The throttles that the broker threw or should have thrown, and how far log and replay
    # are apart in them.
    _required("throttles", I64),
    _required("within_1ms", I64),
    _required("within_5ms", I64),
    _required("residual_median_ms", F64),
    _required("residual_max_ms", I64),
    # Record times could be chosen so that the sensor's state is proven around so many.
    _required("proven", I64),
)

RATES = _table(
    "rates",
    _required("broker_id", I32),
    *SENSOR_KEY,
    _required("second_ms", I64),
    _required("amount", F64),
    pa.field("rate", F64),
    pa.field("tokens", F64),
    pa.field("bound", F64),
    _required("throttled_requests", I64),
    _required("throttle_time_ms", I64),
)

# A token bucket with what the log leaves open.
BUCKET = pa.struct(
    {
        "tokens_min": F64,
        "tokens_max": F64,
        "last_update_ms": I64,
        "debt_slack_ms": F64,  # its debt may end so much earlier or later
        "debt_bound": F64,  # at this bound
    }
)
# A sensor's state some time before the day's end, and the first amount that it lacks. Nothing else
# in it is null; Arrow would not take a null of the whole if that were said.
RESUMES_FROM = pa.struct(
    {
        "at_ms": I64,
        "source_file": STR,
        "source_line": I64,
        "sensor_epoch": I32,
        "sensor_seq": I64,
        "sample_index": I32,
        "samples": pa.list_(SAMPLE),
        "bucket": BUCKET,  # null: a rate, or nothing was recorded
    }
)
SAMPLE_INTERVALS = pa.struct(
    {
        "start_min_ms": I64,
        "start_max_ms": I64,
        "last_min_ms": I64,
        "last_max_ms": I64,
        "emptied_min_ms": I64,
        "emptied_max_ms": I64,
        "value_min": F64,
        "value_max": F64,
        "float_min": F64,
        "float_max": F64,
    }
)
# What a sensor of a request quota may hold: amounts and times are known as intervals only. Null
# among the times of a sample: nothing may have emptied it; of what is open: nothing is.
INTERVALS = pa.struct(
    {
        "known_from_ms": I64,  # of what came before, something may still count
        "until_ms": I64,  # rows before it may be in it or not
        "sample_index": I32,
        "samples": pa.list_(SAMPLE_INTERVALS),
        "open_from_ms": I64,
        "open_until_ms": I64,
        "open_min": F64,
        "open_max": F64,
    }
)
QUOTA_STATE = _table(
    "quota_state",
    _required("broker_id", I32),
    *SENSOR_KEY,
    _required("sensor_epoch", I32),
    _required("sensor_seq", I64),
    _required("sample_index", I32),
    _required("samples", pa.list_(SAMPLE)),
    pa.field("tokens", F64),
    pa.field("last_update_ms", I64),
    # Where the next day's replay begins with the sensor; null: with what the row says.
    pa.field("resumes_from", RESUMES_FROM),
    # Of request quotas; null: nothing is known of their samples.
    pa.field("intervals", INTERVALS),
)

TOPIC_INVENTORY = _table(
    "topic_inventory",
    _required("topic", STR),
    pa.field("partitions", I32),  # at the day's end; null: deleted before
    # Before the first line that the next day's replay reads again; null: created since.
    pa.field("partitions_handed_on", I32),
)

FINDINGS = _table(
    "findings",
    _required("finding_id", STR),
    pa.field("broker_id", I32),
    *SENSOR_KEY,
    _required("kind", STR),
    _required("from_ms", I64),
    _required("until_ms", I64),
    _required("decisions", I64),
    _required("severity", STR),  # critical, warning, info
    _required("explanation", STR),
    _required("evidence", STR),  # JSON object
    # What explains the interval, and the next best; null: wrong decisions one by one.
    pa.field("hypothesis", STR),
    pa.field("hypothesis_share", F64),  # of the interval's decisions that say anything
    pa.field("runner_up", STR),
    pa.field("runner_up_share", F64),
    pa.field("estimated_bound", F64),  # what the broker went by; null: moot
)

ROLLUP_SPANS_MS = (60_000, 3_600_000, 86_400_000)
"""A minute, an hour, a day: what a row of ``rate_rollups`` may be about."""
RATE_ROLLUPS = _table(
    "rate_rollups",
    _required("span_ms", I64),  # ROLLUP_SPANS_MS
    _required("broker_id", I32),
    *SENSOR_KEY,
    _required("from_ms", I64),
    _required("seconds", I64),  # with traffic
    _required("amount", F64),
    pa.field("rate", F64),  # the highest
    pa.field("tokens", F64),  # the lowest
    pa.field("bound_min", F64),
    pa.field("bound_max", F64),
    # Of requests on several sensors: where this one is why they were throttled or refused.
    _required("throttled_requests", I64),
    _required("throttle_time_ms", I64),
)

DEMAND = _table(
    "demand",
    *SENSOR_KEY,
    _required("broker_id", I32),
    _required("quota_level", STR),
    _required("bound", F64),  # of its last decision
    _required("last_ms", I64),
    _required("requests", I64),
    _required("seconds", I64),  # with traffic; of mutations from the first to the last
    _required("unknown_amounts", I64),
    # Of the windowed rate, one value a second: the largest of its requests.
    _required("rate_p50", F64),
    _required("rate_p95", F64),
    _required("rate_p99", F64),
    _required("rate_max", F64),
    _required("rate_max_ms", I64),
    # What was asked for with throttling removed, at least.
    _required("demand", F64),
    _required("demand_basis", STR),  # peak_rate, free_run
    _required("throttled_requests", I64),
    _required("throttle_time_ms", I64),
    _required("logged_throttle_time_ms", I64),
    _required("muted_ms", I64),  # overlapping throttles count once
    _required("near_bound_share", F64),  # of the seconds: from 0.8 of the bound
    _required("largest_amount", F64),  # of one request
)
RECOMMENDATIONS = _table(
    "recommendations",
    *ENTITY_KEY,
    _required("status", STR),  # proposed, withheld, keep, not_enough_data
    pa.field("kind", STR),  # RECOMMENDATION_KINDS; null where nothing is to be done
    pa.field("current", F64),
    # The entity's own value in the cluster: what a rollback restores; null: it has none.
    pa.field("previous", F64),
    pa.field("proposed", F64),
    pa.field("lower", F64),
    pa.field("upper", F64),
    _required("reason", STR),
    _required("confidence", STR),  # high, medium, low
    pa.field("clamped_by", STR),
    pa.field("hottest_broker_id", I32),  # null: no traffic on any
    pa.field("throttle_time_ms_before", I64),
    pa.field("throttle_time_ms_after", I64),
    # Proposals as they would have been on earlier days, replayed on the day after each.
    _required("days_seen", I32),
    _required("backtest_trials", I32),
    _required("backtest_kept", I32),
    _required("evidence", STR),  # JSON object
)

WHATIF = _table(
    "whatif",
    _required("policy", STR),
    # Tells several replays of one policy apart.
    _required("label", STR),
    _required("mode", STR),  # as_logged, closed_loop
    _required("broker_id", I32),
    _required("user", STR),
    pa.field("client_id", STR),
    _required("kind", STR),  # produce, fetch, mutation, other
    _required("requests", I64),
    # Their amounts are not in the log, and counted as 0.
    _required("unsized_requests", I64),
    _required("delayed_requests", I64),
    _required("refused_requests", I64),
    _required("harmed_requests", I64),
    # Bytes of produces and fetches, partitions of mutations.
    _required("asked", F64),
    _required("admitted", F64),
    _required("delayed", F64),
    _required("refused", F64),
    _required("taken_back", F64),
    _required("lost", F64),
    _required("waiting", F64),  # neither admitted nor lost when the log ends
    _required("throttle_time_ms", I64),
    _required("throttle_time_max_ms", I64),
    _required("worst_burst", F64),  # the largest amount admitted in one second
    _required("harm_time_ms", I64),
)

CHANGE_RESULTS = _table(
    "change_results",
    _required("application_id", STR),
    *ENTITY_KEY,
    _required("applied_ms", I64),
    pa.field("value_before", F64),
    pa.field("value_after", F64),
    _required("requests", I64),
    # Of the day that the change was proposed for, what its backtest says, and of this day.
    pa.field("throttle_time_ms_before", I64),
    pa.field("throttle_time_ms_predicted", I64),
    _required("throttle_time_ms", I64),
    _required("demand", F64),  # on the hottest broker
    _required("result", STR),  # CHANGE_RESULT_KINDS
    _required("explanation", STR),
)
CHANGE_RESULT_KINDS = ("as_predicted", "not_as_predicted", "no_traffic")
APPLIED_CHANGES = _table(
    "applied_changes",
    # One run of apply or rollback; its changes in the order in which they were made.
    _required("application_id", STR),
    _required("action", STR),  # apply, rollback
    pa.field("takes_back", STR),  # the application that a rollback takes back
    _required("position", I32),
    *ENTITY_KEY,
    pa.field("value_before", F64),  # null: the entity had no value of its own
    pa.field("value_after", F64),  # null: the value was to be deleted
    pa.field("value_read_back", F64),  # null: not read back, or there was none
    _required("is_read_back", BOOL),
    _required("outcome", STR),  # CHANGE_OUTCOMES
    pa.field("message", STR),
    _required("reason", STR),
    _required("started_ms", I64),
    pa.field("ended_ms", I64),  # null: the run was cut off
    _required("applied_by", STR),  # who decided it
    pa.field("asked_by", STR),  # who asked for that decision; null: nobody else, or not known
    pa.field("plan", STR),  # digest of what was shown to who approved it; null: nobody was asked
    pa.field("note", STR),
    _required("bootstrap_servers", STR),
    pa.field("kafka_cluster_id", STR),
    # The audited day that the changes were proposed for.
    _required("evidence_day", STR),
    # What that day's backtest says; null for a rollback.
    pa.field("throttle_time_ms_before", I64),
    pa.field("throttle_time_ms_after", I64),
)

SCHEMA_VERSIONS: dict[str, int] = dict.fromkeys(TABLES, 1) | {
    "applied_changes": 2,
    "brokers": 2,
    "decisions": 2,
    "files": 2,
    "quota_state": 2,
    "topic_inventory": 2,
}
"""Counts the changes of each table's columns, or of what they mean: one more with each change.

What a change needs is in ``spark_jobs/upkeep/migrate_warehouse.py``, what it was in
docs/upgrade.md.
"""

PARTITIONED_BY_CLUSTER_ONLY = frozenset({"quota_changes"})

RECOMMENDATION_STATUSES = ("proposed", "withheld", "keep", "not_enough_data")
RECOMMENDATION_KINDS = (
    "raise",
    "lower",
    "reclaim",
    "new_override",
    "default",
    "split",
    "merge",
    "not_the_quota",
)
CHANGE_ACTIONS = ("apply", "rollback")
CHANGE_OUTCOMES = (
    "intended",
    "applied",
    "already_so",
    "failed",
    "not_reached",
    "differs",
    "unknown",
)
WHATIF_MODES = ("as_logged", "closed_loop")
WHATIF_KINDS = ("produce", "fetch", "mutation", "other")


def partition_columns(table: str) -> tuple[str, ...]:
    """Return the Hive partition columns of ``table``, outermost first."""
    return ("cluster",) if table in PARTITIONED_BY_CLUSTER_ONLY else ("cluster", "date")
