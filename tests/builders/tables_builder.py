"""Valid rows of every table, and a way to write them: the synthetic warehouse of tests.

``row("decisions", amount=10.0)`` is one valid row with the named columns replaced;
``write_rows(scope, "decisions", [...])`` writes this scope's partition of the table;
``write_day(scope)`` writes a small valid day of every table.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.warehouse.parquet import stamped
from spark_jobs.warehouse.runs import published_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES

Row = dict[str, Any]

DAY = dt.date(2026, 11, 10)
NOON_MS = 1_794_312_000_000
"""2026-11-10 12:00:00 UTC, the moment around which every default row happens."""

_LOG_FILE = "broker=1/kafka-request.log"
_CONNECTION = "127.0.0.1:9092-127.0.0.1:50000-0"
_ENTITY = {
    "quota_type": "producer_byte_rate",
    "quota_user": "alice",
    "quota_client_id": None,
}
_SENSOR = {"quota_type": "producer_byte_rate", "quota_user": "alice", "quota_client_id": ""}

_DEFAULTS: dict[str, Row] = {
    "requests": {
        "broker_id": 1,
        "log_time_ms": NOON_MS + 5,
        "recorded_earliest_ms": NOON_MS,
        "recorded_latest_ms": NOON_MS + 4,
        "recorded_estimate_us": (NOON_MS + 2) * 1000,
        "connection": _CONNECTION,
        "correlation_id": 7,
        "api_key": 0,
        "api_name": "PRODUCE",
        "api_version": 11,
        "principal": "User:alice",
        "user": "alice",
        "client_id": "app",
        "listener": "PLAINTEXT",
        "is_forwarded": False,
        "acks": -1,
        "is_replica": False,
        "fetch_max_bytes": None,
        "request_bytes": 100_000,
        "request_bytes_known": True,
        "response_bytes": 60,
        "total_time_us": 5_000,
        "request_queue_time_us": 100,
        "handler_time_us": 1_000,
        "remote_time_us": 3_000,
        "response_queue_time_us": 100,
        "send_time_us": 800,
        "throttle_time_ms": 0,
        "software_name": "apache-kafka-java",
        "software_version": "4.1.0",
        "error_codes": [0],
        "topics": [{"topic": "orders", "records_bytes": 99_900}],
        "mutations": None,
        "validate_only": None,
        "quota_alterations": None,
        "source_file": _LOG_FILE,
        "source_line": 1,
    },
    "quarantine": {
        "broker_id": 1,
        "log_time_ms": NOON_MS + 5,
        "source_file": _LOG_FILE,
        "source_line": 2,
        "reason": "cut_line",
        "text": '[2026-11-10 12:00:00,005] DEBUG Completed request:{"isForw',
    },
    "files": {
        "source_file": _LOG_FILE,
        "broker_id": 1,
        "bytes_read": 120_000,
        "modified_ns": 1_795_000_000_000_000_000,
        "lines_read": 100,
        "requests": 99,
        "quarantined": 0,
        "other": 1,
        "other_days": 0,
        "duplicated": 0,
        "duplicate_of": None,
        "digest": "0123456789abcdef0123456789abcdef",
        "day_digest": "fedcba9876543210fedcba9876543210",
        "days": [str(DAY)],
    },
    "brokers": {
        "broker_id": 1,
        "version": "4.1.0",
        "version_source": "option",
        "uses_zookeeper": False,
        "rate_profile": "rate_3_8",
        "throttle_max_ms": None,
        "newer_than_known": None,
        "samples": 11,
        "window_ms": 1000,
        "controller_samples": 11,
        "controller_window_ms": 1000,
    },
    "quota_events": {
        **_ENTITY,
        "bound": 50_000.0,
        "broker_id": None,
        "earliest_ms": NOON_MS - 60_000,
        "latest_ms": NOON_MS - 59_900,
        "source": "log",
        "source_file": _LOG_FILE,
        "source_line": 1,
    },
    "log_gaps": {
        "user": "alice",
        "client_id": "app",
        "correlation_id_before": 10,
        "correlation_id_after": 12,
        "missing": 1,
        "cause": "lost_lines",
        "after_ms": NOON_MS,
        "before_ms": NOON_MS + 20,
        "places": [{"broker_id": 1, "after_ms": NOON_MS, "before_ms": NOON_MS + 20}],
        "broker_id": 1,
        "connection": _CONNECTION,
        "request_bytes_max": 100_000,
        "response_bytes_max": None,
        "handler_time_us_max": 1_000,
    },
    "broker_starts": {
        "broker_id": 1,
        "started_ms": NOON_MS - 30_000,
        "source": "server_log",
        "source_file": "broker=1/server.log",
        "source_line": 1,
        "evidence": "INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)",
    },
    "throttle_records": {
        "broker_id": 1,
        "at_ms": NOON_MS + 2,
        **_SENSOR,
        "throttle_time_ms": 8,
        "source_file": "broker=1/server.log",
        "source_line": 2,
    },
    "quota_changes": {
        **_ENTITY,
        "bound": 50_000.0,
        "broker_id": None,
        "valid_from_ms": NOON_MS - 60_000,
        "valid_until_ms": None,
        "source": "log",
        "source_file": _LOG_FILE,
        "source_line": 1,
    },
    "decisions": {
        "broker_id": 1,
        "connection": _CONNECTION,
        "correlation_id": 7,
        "api_name": "PRODUCE",
        "api_version": 11,
        "user": "alice",
        "client_id": "app",
        **_SENSOR,
        "quota_level": "user",
        "resource": None,
        "sensor_epoch": 0,
        "sensor_seq": 0,
        "log_time_ms": NOON_MS + 5,
        "recorded_at_ms": NOON_MS + 2,
        "amount": 100_000.0,
        "is_unrecorded": False,
        "answered_bytes": None,
        "bound": 50_000.0,
        "rate": 10_000.0,
        "window_size_ms": 10_000,
        "tokens": None,
        "logged_throttle_time_ms": 0,
        "replayed_throttle_time_ms": 0,
        "logged_admitted": True,
        "replayed_admitted": True,
        "verdict": "agree",
        "reason": None,
        "is_proven": False,
        "source_file": _LOG_FILE,
        "source_line": 1,
    },
    "located_changes": {
        "broker_id": 1,
        "answered_ms": NOON_MS - 20_000,
        "in_force_ms": NOON_MS - 19_990,
    },
    "agreement": {
        "broker_id": 1,
        **_SENSOR,
        "decisions": 10,
        "same_decision": 10,
        "throttles": 4,
        "within_1ms": 4,
        "within_5ms": 4,
        "residual_median_ms": 0.0,
        "residual_max_ms": 1,
        "proven": 8,
    },
    "rates": {
        "broker_id": 1,
        **_SENSOR,
        "second_ms": NOON_MS,
        "amount": 100_000.0,
        "rate": 10_000.0,
        "tokens": None,
        "bound": 50_000.0,
        "throttled_requests": 0,
        "throttle_time_ms": 0,
    },
    "rate_rollups": {
        "span_ms": 60_000,
        "broker_id": 1,
        **_SENSOR,
        "from_ms": NOON_MS,
        "seconds": 1,
        "amount": 100_000.0,
        "rate": 10_000.0,
        "tokens": None,
        "bound_min": 50_000.0,
        "bound_max": 50_000.0,
        "throttled_requests": 0,
        "throttle_time_ms": 0,
    },
    "quota_state": {
        "broker_id": 1,
        **_SENSOR,
        "sensor_epoch": 0,
        "sensor_seq": 0,
        "sample_index": 0,
        "samples": [
            {"start_ms": NOON_MS + 2, "last_event_ms": NOON_MS + 2, "value": 100_000.0},
        ],
        "tokens": None,
        "last_update_ms": None,
        "resumes_from": {
            "at_ms": NOON_MS + 2,
            "source_file": _LOG_FILE,
            "source_line": 1,
            "sensor_epoch": 0,
            "sensor_seq": 0,
            "sample_index": 0,
            "samples": [],
            "bucket": None,
        },
        "intervals": None,
    },
    "topic_inventory": {"topic": "orders", "partitions": 6, "partitions_handed_on": 6},
    "findings": {
        "finding_id": "f-0123456789ab",
        "broker_id": 1,
        **_SENSOR,
        "kind": "under_throttled",
        "from_ms": NOON_MS,
        "until_ms": NOON_MS + 60_000,
        "decisions": 12,
        "severity": "warning",
        "explanation": "Broker 1 throttled alice's produce requests too little for a minute.",
        "evidence": json.dumps({"decisions_checked": 40}),
        "hypothesis": None,
        "hypothesis_share": None,
        "runner_up": None,
        "runner_up_share": None,
        "estimated_bound": None,
    },
    "demand": {
        **_SENSOR,
        "broker_id": 1,
        "quota_level": "user",
        "bound": 50_000.0,
        "last_ms": NOON_MS + 60_000,
        "requests": 1200,
        "seconds": 60,
        "unknown_amounts": 0,
        "rate_p50": 48_000.0,
        "rate_p95": 50_000.0,
        "rate_p99": 51_000.0,
        "rate_max": 52_000.0,
        "rate_max_ms": NOON_MS + 30_000,
        "demand": 83_000.0,
        "demand_basis": "free_run",
        "throttled_requests": 40,
        "throttle_time_ms": 40_000,
        "logged_throttle_time_ms": 40_000,
        "muted_ms": 30_000,
        "near_bound_share": 0.9,
        "largest_amount": 20_000.0,
    },
    "recommendations": {
        **_ENTITY,
        "status": "proposed",
        "kind": "raise",
        "current": 50_000.0,
        "previous": 50_000.0,
        "proposed": 100_000.0,
        "lower": 80_000.0,
        "upper": 120_000.0,
        "reason": "Throttled for 40 s; the demand was 83 000 B/s.",
        "confidence": "high",
        "clamped_by": None,
        "hottest_broker_id": 1,
        "throttle_time_ms_before": 40_000,
        "throttle_time_ms_after": 0,
        "days_seen": 1,
        "backtest_trials": 0,
        "backtest_kept": 0,
        "evidence": json.dumps({"requests": 1200}),
    },
    "whatif": {
        "policy": "kip13",
        "label": "2M each",
        "mode": "as_logged",
        "broker_id": 1,
        "user": "alice",
        "client_id": "app",
        "kind": "fetch",
        "requests": 100,
        "unsized_requests": 1,
        "delayed_requests": 20,
        "refused_requests": 10,
        "harmed_requests": 5,
        "asked": 1000.0,
        "admitted": 700.0,
        "delayed": 200.0,
        "refused": 100.0,
        "taken_back": 200.0,
        "lost": 50.0,
        "waiting": 0.0,
        "throttle_time_ms": 900,
        "throttle_time_max_ms": 90,
        "worst_burst": 300.0,
        "harm_time_ms": 80,
    },
    "change_results": {
        "application_id": "20261109T120000Z-1",
        **_ENTITY,
        "applied_ms": NOON_MS - 86_400_000,
        "value_before": 50_000.0,
        "value_after": 100_000.0,
        "requests": 1200,
        "throttle_time_ms_before": 40_000,
        "throttle_time_ms_predicted": 0,
        "throttle_time_ms": 0,
        "demand": 83_000.0,
        "result": "as_predicted",
        "explanation": "Throttled for 0 s, as predicted.",
    },
    "applied_changes": {
        "application_id": "20261110T120000Z-0123abcd",
        "action": "apply",
        "takes_back": None,
        "position": 0,
        **_ENTITY,
        "value_before": 50_000.0,
        "value_after": 100_000.0,
        "value_read_back": 100_000.0,
        "is_read_back": True,
        "outcome": "applied",
        "message": None,
        "reason": "Throttled for 40 s; the demand was 83 000 B/s.",
        "started_ms": NOON_MS,
        "ended_ms": NOON_MS + 400,
        "applied_by": "operator",
        "asked_by": None,
        "plan": None,
        "note": None,
        "bootstrap_servers": "broker-1:9092",
        "kafka_cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "evidence_day": "2026-11-09",
        "throttle_time_ms_before": 40_000,
        "throttle_time_ms_after": 0,
    },
}


def row(table: str, **overrides: Any) -> Row:
    """Return one valid row of ``table`` with the named columns replaced."""
    unknown = sorted(set(overrides) - set(_DEFAULTS[table]))
    if unknown:
        raise KeyError(f"{table} has no column {', '.join(unknown)}")
    return _DEFAULTS[table] | overrides


def table_of(table: str, rows: list[Row]) -> pa.Table:
    """Return ``rows`` with the contract's names and types, nullable as Spark writes them."""
    fields = (field.with_nullable(True) for field in TABLES[table])
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def write_rows(scope: RunScope, table: str, rows: list[Row]) -> Path:
    """Replace this scope's partition of ``table`` by ``rows``; return its folder."""
    folder = scope.partition_dir(table)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(stamped(table_of(table, rows), table), folder / "part-0.parquet")
    return folder


def write_day(scope: RunScope) -> RunScope:
    """Write one valid row of every table, no quarantine, and return ``scope``."""
    for table in TABLES:
        write_rows(scope, table, [] if table == "quarantine" else [row(table)])
    return scope


def scope_in(warehouse: Path) -> RunScope:
    """Return the scope of the default rows' day in ``warehouse``, cluster ``default``."""
    return RunScope(warehouse=warehouse, cluster="default", day=DAY)


def forget_files(scope: RunScope) -> None:
    """Let the published run say nothing of its files, as those of earlier versions."""
    path = scope.runs / f"run-{published_run(scope.runs)}.json"
    said = json.loads(path.read_text())
    del said["files"]
    path.write_text(json.dumps(said))
