"""For every rule of every suite, rows that break it and no other rule.

A rule that looks at rows is broken in one table together with all others of its suite: every row
differs from the rest by :data:`IDENTITY`, so the rows that a rule names must be its own. Rules on a
whole table, which name no rows, are broken in :data:`WHOLE_TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.warehouse.tables import TABLES
from tests.builders.tables_builder import NOON_MS
from tests.expectations.suites.breaking_applied_changes import APPLIED_CHANGES
from tests.expectations.suites.breaking_change_results import CHANGE_RESULTS
from tests.expectations.suites.row_breaks import BLANK as _BLANK
from tests.expectations.suites.row_breaks import NAN as _NAN
from tests.expectations.suites.row_breaks import NO_NUMBER_FROM_0 as _NO_NUMBER_FROM_0
from tests.expectations.suites.row_breaks import OTHER_DAY_MS as _OTHER_DAY_MS
from tests.expectations.suites.row_breaks import Break, Row
from tests.expectations.suites.row_breaks import each as _each
from tests.expectations.suites.row_breaks import rows as _rows
from tests.expectations.suites.row_breaks import twice as _twice

IDENTITY: dict[str, Callable[[int], Row]] = {
    "requests": lambda i: {"source_line": i, "correlation_id": i},
    "quarantine": lambda i: {"source_line": i},
    "files": lambda i: {
        "source_file": f"broker=1/kafka-request.log.{i}",
        "lines_read": 10,
        "requests": 0,
        "other": 10,
    },
    "brokers": lambda i: {"broker_id": i},
    "quota_events": lambda i: {"source_line": i},
    "log_gaps": lambda i: {"correlation_id_before": 2 * i, "correlation_id_after": 2 * i + 2},
    "broker_starts": lambda i: {"started_ms": NOON_MS + i},
    "throttle_records": lambda i: {"source_line": i},
    "quota_changes": lambda i: {"quota_user": f"user-{i}"},
    "decisions": lambda i: {
        "source_line": i,
        "correlation_id": i,
        "sensor_seq": i,
        "quota_user": f"user-{i}",
    },
    "located_changes": lambda i: {"answered_ms": NOON_MS + i},
    "agreement": lambda i: {"quota_user": f"user-{i}"},
    "rates": lambda i: {"second_ms": NOON_MS + 1000 * i},
    "quota_state": lambda i: {"quota_user": f"user-{i}"},
    "topic_inventory": lambda i: {"topic": f"topic-{i}"},
    "rate_rollups": lambda i: {"quota_user": f"user-{i}"},
    "findings": lambda i: {"finding_id": f"f-{i}"},
    "demand": lambda i: {"quota_user": f"user-{i}"},
    "recommendations": lambda i: {"quota_client_id": f"client-{i}"},
    "whatif": lambda i: {"user": f"user-{i}"},
    "change_results": lambda i: {"quota_user": f"user-{i}"},
    "applied_changes": lambda i: {"quota_user": f"user-{i}", "position": i},
}
"""What makes the i-th row (from 1) another one than all others of its table."""

WHOLE_TABLE = {
    (table, rule): world
    for world, rules in {
        "empty": [
            ("requests", "has_requests"),
            ("files", "has_files"),
            ("brokers", "has_brokers"),
            ("quota_events", "has_quota_events"),
        ],
        "miscounted": [
            ("requests", "rows_as_counted_in_files"),
            ("quarantine", "rows_as_counted_in_files"),
            ("files", "half_of_the_lines_readable"),
        ],
        "column_missing": [(table, "columns_of_the_contract") for table in TABLES],
    }.items()
    for table, rule in rules
}
"""The rules that no single row breaks, and the warehouse in which they are broken."""

IMPLIED = {"miscounted": {("files", "few_lines_in_quarantine")}}
"""Rules that cannot hold where another one of that warehouse does not."""


_ENTITY = {
    "known_quota_type": _each("quota_type", "produce"),
    "entity_has_a_part": _rows({"quota_user": None, "quota_client_id": None}),
}
_COUNTED = ("unsized_requests", "delayed_requests", "refused_requests", "harmed_requests")
_MUTATION = {"quota_type": "controller_mutation_rate", "resource": "orders"}

BREAKS: dict[str, dict[str, Break]] = {
    "requests": {
        "one_row_per_line": _twice(source_line=9001),
        "no_line_read_twice": _twice(correlation_id=9002),
        "log_time_ms_is_in_the_day": _rows(
            # Before the day no recording can have ended in it either.
            {
                "log_time_ms": _OTHER_DAY_MS[0],
                "recorded_earliest_ms": _OTHER_DAY_MS[0] - 5,
                "recorded_estimate_us": (_OTHER_DAY_MS[0] - 3) * 1000,
                "recorded_latest_ms": _OTHER_DAY_MS[0] - 1,
            },
            {"log_time_ms": _OTHER_DAY_MS[1]},
        ),
        "estimate_in_recorded_interval": _each(
            "recorded_estimate_us", (NOON_MS - 1) * 1000, (NOON_MS + 5) * 1000
        ),
        "recorded_before_logged": _each("log_time_ms", NOON_MS + 2),
        "connection_is_not_blank": _each("connection", *_BLANK),
        "principal_is_not_blank": _each("principal", *_BLANK),
        "source_file_is_not_blank": _each("source_file", *_BLANK),
        "source_line_from_1": _each("source_line", 0),
        "api_version_not_negative": _each("api_version", -1),
        "throttle_not_negative": _each("throttle_time_ms", -1),
        "request_bytes_positive": _each("request_bytes", 0),
        "response_bytes_not_negative": _each("response_bytes", -1),
        "known_bytes_are_there": _each("request_bytes", None),
        "total_time_us_not_negative": _each("total_time_us", -1),
        "request_queue_time_us_not_negative": _each("request_queue_time_us", -1),
        "handler_time_us_not_negative": _each("handler_time_us", -1),
        "remote_time_us_not_negative": _each("remote_time_us", -1),
        "response_queue_time_us_not_negative": _each("response_queue_time_us", -1),
        "send_time_us_not_negative": _each("send_time_us", -1),
        "most_sizes_known": _each("request_bytes", *[None] * 6, request_bytes_known=False),
        "most_client_software_known": _each("software_name", *[None] * 9),
    },
    "quarantine": {
        "one_row_per_line": _twice(source_line=9001),
        "log_time_ms_is_in_the_day": _each("log_time_ms", *_OTHER_DAY_MS),
        "source_file_is_not_blank": _each("source_file", *_BLANK),
        "reason_is_not_blank": _each("reason", *_BLANK),
        "source_line_from_1": _each("source_line", 0),
    },
    "files": {
        "one_row_per_file": _twice(source_file="broker=1/twice.log"),
        "source_file_is_not_blank": _each("source_file", *_BLANK),
        "bytes_read_not_negative": _each("bytes_read", -1),
        "requests_not_negative": _rows({"requests": -1, "other": 11}),
        "quarantined_not_negative": _rows({"quarantined": -1, "other": 11}),
        "other_not_negative": _rows({"other": -1, "other_days": 11}),
        "other_days_not_negative": _rows({"other_days": -1, "other": 11}),
        "duplicated_not_negative": _rows({"duplicated": -1, "other": 11}),
        "lines_are_conserved": _each("other", 9, 11),
        # Its counts are set by the test, so that they are those of the tables beside it.
        "few_lines_in_quarantine": _rows({"source_file": "broker=1/counted.log"}),
    },
    "brokers": {
        "one_row_per_broker": _twice(broker_id=9001),
        "known_version_source": _each("version_source", "guess"),
        "known_rate_profile": _each("rate_profile", "rate_5_0"),
        "samples_positive": _each("samples", 0),
        "window_ms_positive": _each("window_ms", 0),
        "controller_samples_positive": _each("controller_samples", 0),
        "controller_window_ms_positive": _each("controller_window_ms", 0),
        "version_is_known": _each("version", None),
    },
    "quota_events": {
        **_ENTITY,
        "known_source": _each("source", "hearsay"),
        "bound_not_negative": _each("bound", *_NO_NUMBER_FROM_0),
        "effect_interval_in_order": _each("latest_ms", NOON_MS - 60_001),
        "bound_not_zero": _each("bound", 0.0),
    },
    "log_gaps": {
        "missing_from_1": _each("missing", 0),
        "known_cause": _each("cause", "carelessness"),
        "gap_in_order": _each("before_ms", NOON_MS - 1),
        "request_bytes_positive": _each("request_bytes_max", 0),
        "response_bytes_not_negative": _each("response_bytes_max", -1),
        "handler_time_not_negative": _each("handler_time_us_max", -1),
    },
    "broker_starts": {
        "one_row_per_start": _twice(started_ms=NOON_MS - 1),
        "started_ms_is_in_the_day": _each("started_ms", *_OTHER_DAY_MS),
        "known_source": _each("source", "hearsay"),
        "evidence_is_not_blank": _each("evidence", *_BLANK),
        "source_line_from_1": _each("source_line", 0),
    },
    "throttle_records": {
        "one_row_per_line": _twice(source_line=9001),
        "at_ms_is_in_the_day": _each("at_ms", *_OTHER_DAY_MS),
        "known_quota_type": _each("quota_type", "produce"),
        "throttle_not_negative": _each("throttle_time_ms", -1),
        "source_file_is_not_blank": _each("source_file", *_BLANK),
        "source_line_from_1": _each("source_line", 0),
    },
    "quota_changes": {
        **_ENTITY,
        "known_source": _each("source", "hearsay"),
        "bound_not_negative": _each("bound", *_NO_NUMBER_FROM_0),
        "interval_not_empty": _each("valid_until_ms", NOON_MS - 60_000, NOON_MS - 60_001),
        "intervals_do_not_overlap": _rows(
            {"quota_user": "open-ended", "valid_from_ms": NOON_MS},
            {"quota_user": "ended", "valid_from_ms": NOON_MS},
            beside=(
                {"quota_user": "open-ended"},
                {"quota_user": "ended", "valid_until_ms": NOON_MS + 1},
                {"quota_user": "touching", "valid_until_ms": NOON_MS},
                {"quota_user": "touching", "valid_from_ms": NOON_MS},
                {"quota_user": "touching", "broker_id": 1},
            ),
        ),
    },
    "located_changes": {
        "one_moment_per_broker": _twice(answered_ms=NOON_MS - 1),
        "answered_ms_is_in_the_day": _each("answered_ms", *_OTHER_DAY_MS),
    },
    "agreement": {
        "known_quota_type": _each("quota_type", "produce"),
        "one_row_per_sensor": _twice(quota_user="twice"),
        "throttles_not_negative": _rows({"throttles": -1, "within_5ms": -1, "within_1ms": -1}),
        "residual_not_negative": _each("residual_max_ms", -1),
        "same_decisions_are_decisions": _each("same_decision", 11),
        "throttles_are_decisions": _each("throttles", 11),
        "nearest_are_near": _rows({"within_1ms": 3, "within_5ms": 2}),
        "near_are_throttles": _rows({"within_5ms": 5}),
        "proven_are_decisions": _each("proven", 11),
    },
    "decisions": {
        "known_quota_type": _each("quota_type", "produce"),
        "known_quota_level": _each("quota_level", "ip"),
        "known_verdict": _each("verdict", "fine"),
        "one_decision_per_line": _twice(source_line=1001),
        "one_decision_per_request": _twice(correlation_id=9002),
        "one_place_in_the_sensor": _twice(quota_user="twice", sensor_seq=0),
        "has_its_request": _each("source_line", 9003),
        "log_time_ms_is_in_the_day": _each("log_time_ms", *_OTHER_DAY_MS),
        "recorded_in_logged_phases": _each("recorded_at_ms", NOON_MS - 51, NOON_MS + 5),
        "sensor_time_not_backwards": _rows(
            {"quota_user": "backwards", "sensor_seq": 1, "recorded_at_ms": NOON_MS - 49},
            beside=(
                {"quota_user": "backwards", "sensor_seq": 0, "recorded_at_ms": NOON_MS + 2},
                {"quota_user": "backwards", "sensor_seq": 2, "recorded_at_ms": NOON_MS - 49},
                {"quota_user": "backwards", "sensor_epoch": 1, "recorded_at_ms": NOON_MS - 50},
            ),
        ),
        "amount_not_negative": _each("amount", *_NO_NUMBER_FROM_0),
        "bound_not_negative": _each("bound", *_NO_NUMBER_FROM_0),
        "window_positive": _each("window_size_ms", 0),
        "logged_throttle_not_negative": _each("logged_throttle_time_ms", -1),
        "replayed_throttle_not_negative": _each("replayed_throttle_time_ms", -1),
        "sensor_epoch_not_negative": _each("sensor_epoch", -1),
        "sensor_seq_not_negative": _each("sensor_seq", -1),
        "logged_refusals_are_mutations": _each("logged_admitted", False),
        "replayed_refusals_are_mutations": _each("replayed_admitted", False),
        "mutations_name_their_topic": _rows(_MUTATION | {"resource": None}),
        "no_quota_has_no_bound": _each("verdict", "no_quota"),
        "judged_has_bound": _each("bound", None),
        "judged_has_level": _each("quota_level", None),
        "indeterminate_has_reason": _each("verdict", "indeterminate"),
        "blame_has_replayed_throttle_time_ms": _each(
            "verdict", "under_throttled", "over_throttled", replayed_throttle_time_ms=None
        ),
        "blame_has_replayed_admitted": _each(
            "verdict", "wrongly_admitted", replayed_admitted=None, **_MUTATION
        ),
        "wrongly_admitted_by_logged_admitted": _each(
            "verdict",
            "wrongly_admitted",
            logged_admitted=False,
            replayed_admitted=False,
            **_MUTATION,
        ),
        "wrongly_admitted_by_replayed_admitted": _each("verdict", "wrongly_admitted", **_MUTATION),
        "wrongly_refused_by_logged_admitted": _each("verdict", "wrongly_refused", **_MUTATION),
        "wrongly_refused_by_replayed_admitted": _each(
            "verdict",
            "wrongly_refused",
            logged_admitted=False,
            replayed_admitted=False,
            **_MUTATION,
        ),
        "under_throttled_by_throttle": _each(
            "logged_throttle_time_ms", 7, 8, verdict="under_throttled", replayed_throttle_time_ms=7
        ),
        "over_throttled_by_throttle": _each(
            "logged_throttle_time_ms", 7, 6, verdict="over_throttled", replayed_throttle_time_ms=7
        ),
    },
    "rates": {
        "known_quota_type": _each("quota_type", "produce"),
        "one_row_per_second": _twice(second_ms=NOON_MS + 9_000_000),
        "second_is_whole": _each("second_ms", NOON_MS + 1, NOON_MS + 999),
        "amount_not_negative": _each("amount", *_NO_NUMBER_FROM_0),
        "rate_not_negative": _each("rate", -0.01, _NAN),
        "bound_not_negative": _each("bound", *_NO_NUMBER_FROM_0),
        "throttled_requests_not_negative": _each("throttled_requests", -1),
        "throttle_time_not_negative": _each("throttle_time_ms", -1),
    },
    "rate_rollups": {
        "known_quota_type": _each("quota_type", "produce"),
        "known_span": _each("span_ms", 1000, 86_400_001),
        "one_row_per_span": _twice(quota_user="twice"),
        "from_is_whole": _each("from_ms", NOON_MS + 1, NOON_MS + 1000),
        "seconds_positive": _each("seconds", 0),
        "amount_not_negative": _each("amount", *_NO_NUMBER_FROM_0),
        "rate_not_negative": _each("rate", -0.01, _NAN),
        "bounds_in_order": _each("bound_max", 49_999.0),
        "bound_not_negative": _rows(
            # NaN would be out of order too.
            *({"bound_min": bad, "bound_max": bad} for bad in _NO_NUMBER_FROM_0 if bad == bad)
        ),
        "throttled_requests_not_negative": _each("throttled_requests", -1),
        "throttle_time_not_negative": _each("throttle_time_ms", -1),
    },
    "quota_state": {
        "known_quota_type": _each("quota_type", "produce"),
        "one_row_per_sensor": _twice(quota_user="twice"),
        "sensor_epoch_not_negative": _each("sensor_epoch", -1),
        "sensor_seq_not_negative": _each("sensor_seq", -1),
        "sample_index_not_negative": _each("sample_index", -1),
        "bucket_has_tokens": _each(
            "tokens", None, quota_type="controller_mutation_rate", last_update_ms=NOON_MS
        ),
        "bucket_has_last_update": _each(
            "last_update_ms", None, quota_type="controller_mutation_rate", tokens=-1.0
        ),
    },
    "topic_inventory": {
        "one_row_per_topic": _twice(topic="twice"),
        "topic_is_not_blank": _each("topic", *_BLANK),
        "partitions_positive": _each("partitions", 0),
        "partitions_handed_on_positive": _each("partitions_handed_on", 0),
    },
    "findings": {
        "one_row_per_finding": _twice(finding_id="f-twice"),
        "finding_id_is_not_blank": _each("finding_id", *_BLANK),
        "known_quota_type": _each("quota_type", "produce"),
        "known_kind": _each("kind", "suspicious"),
        "known_severity": _each("severity", "fatal"),
        "explanation_is_not_blank": _each("explanation", *_BLANK),
        "evidence_is_json": _each("evidence", "", "{"),
        "interval_in_order": _each("until_ms", NOON_MS - 1),
        "has_decisions": _each("decisions", 0),
        "known_hypothesis": _each("hypothesis", "gremlins"),
        "known_runner_up": _each("runner_up", "gremlins"),
        "hypothesis_share_is_a_share": _each("hypothesis_share", -0.1, 1.1),
        "runner_up_share_is_a_share": _each("runner_up_share", -0.1, 1.1),
        "estimated_bound_above_zero": _each("estimated_bound", 0.0, -1.0),
    },
    "demand": {
        "known_quota_type": _each("quota_type", "disk_rate"),
        "known_quota_level": _each("quota_level", "team"),
        "known_demand_basis": _each("demand_basis", "hope"),
        "one_row_per_sensor": _twice(quota_user="twice"),
        "has_requests": _each("requests", 0, throttled_requests=0),
        "has_seconds": _each("seconds", 0),
        "unknown_amounts_not_negative": _each("unknown_amounts", -1),
        "throttled_requests_not_negative": _each("throttled_requests", -1),
        "logged_throttle_time_ms_not_negative": _each("logged_throttle_time_ms", -1),
        "muted_ms_not_negative": _each("muted_ms", -1),
        "rate_p50_not_negative": _each("rate_p50", -1.0),
        "demand_not_negative": _each("demand", -1.0),
        "near_bound_share_not_negative": _each("near_bound_share", -0.1),
        "largest_amount_not_negative": _each("largest_amount", -1.0),
        "bound_not_negative": _each("bound", -1.0),
        "p50_is_not_above_p95": _each("rate_p50", 9e9),
        "p95_is_not_above_p99": _each("rate_p95", 9e9),
        "p99_is_not_above_max": _each("rate_p99", 9e9),
        "throttled_are_requests": _each("throttled_requests", 10**9),
        "muted_is_throttled": _each("muted_ms", 10**9),
    },
    "recommendations": {
        "proposal_has_kind": _each("kind", None),
        "reclaimed_has_no_value": _each("kind", "reclaim"),
        "merge_sets_what_is_missing": _rows({"kind": "merge", "previous": None, "proposed": None}),
        "merged_has_no_value": _each("kind", "merge"),
        "kept_are_trials": _each("backtest_kept", 9),
        "days_seen_not_negative": _each("days_seen", -1),
        "backtest_kept_not_negative": _each("backtest_kept", -1),
        **_ENTITY,
        "one_row_per_entity": _twice(quota_client_id="twice"),
        "known_status": _each("status", "maybe", proposed=None),
        "known_kind": _each("kind", "guess"),
        "known_confidence": _each("confidence", "certain"),
        "proposal_has_value": _each("proposed", None),
        "no_proposal_no_value": _each("status", "keep", "not_enough_data"),
        "proposed_above_zero": _each("proposed", 0.0, *_NO_NUMBER_FROM_0),
        "current_not_negative": _each("current", *_NO_NUMBER_FROM_0),
        "range_in_order": _each("lower", 120_001.0),
        "reason_is_not_blank": _each("reason", *_BLANK),
        "evidence_is_json": _each("evidence", "", "{"),
        "throttle_time_ms_before_not_negative": _each("throttle_time_ms_before", -1),
        "throttle_time_ms_after_not_negative": _each("throttle_time_ms_after", -1),
    },
    "whatif": {
        "one_row_per_client_and_policy": _twice(user="twice"),
        "policy_is_not_blank": _each("policy", *_BLANK),
        "label_is_not_blank": _each("label", *_BLANK),
        "known_mode": _each("mode", "imagined"),
        "known_kind": _each("kind", "heartbeat"),
        "has_requests": _each("requests", 0, **dict.fromkeys(_COUNTED, 0)),
        "waiting_not_negative": _each("waiting", -1.0),
        "nothing_waits_as_logged": _each("waiting", 1.0),
        **{f"{column}_not_negative": _each(column, -1) for column in _COUNTED},
        **{f"{column}_are_requests": _each(column, 101) for column in _COUNTED},
        "delayed_not_negative": _each("delayed", -1.0),
        "taken_back_not_negative": _each("taken_back", -1.0),
        "lost_not_negative": _each("lost", -1.0),
        "worst_burst_not_negative": _each("worst_burst", -1.0),
        "admitted_is_asked": _each("admitted", 1001.0),
        "delayed_is_asked": _each("delayed", 1001.0),
        "refused_is_asked": _each("refused", 1001.0),
        "taken_back_is_asked": _each("taken_back", 1001.0),
        "lost_is_refused": _each("lost", 101.0),
        "burst_is_admitted": _each("worst_burst", 701.0),
        "longest_throttle_is_one_of_all": _each("throttle_time_max_ms", 901),
        "longest_not_negative": _each("throttle_time_max_ms", -1),
        "harm_not_negative": _each("harm_time_ms", -1),
        "harm_is_throttle": _each("harm_time_ms", 901),
        "only_fetches_are_taken_back": _each("kind", "produce"),
    },
    "change_results": CHANGE_RESULTS,
    "applied_changes": APPLIED_CHANGES,
}
"""Rules that look at rows, but those that a column has a value: :func:`breaks_of` adds them."""


def breaks_of(table: str) -> dict[str, Break]:
    """Return every rule of ``table`` that looks at rows, with the rows that break it."""
    missing = {
        f"{field.name}_is_there": _each(field.name, None)
        for field in TABLES[table]
        if not field.nullable
    }
    return BREAKS[table] | missing
