from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.codes import VERDICTS
from spark_jobs.replay.verdicts.fetch_attempt import Attempt
from spark_jobs.replay.verdicts.verdicts import (
    RATE_VERDICTS,
    MutationRows,
    RateRows,
    Tolerances,
    judge_mutations,
    rate_verdicts,
)

TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)


TRIED = {"is_unrecorded": True, "logged_ms": 70}
LOST = {"lost_requests": 1, "lost_amount_max": 500.0}


def rate_row(**overrides: object) -> RateRows:
    row = {
        "bound": 1000.0,
        "amount_known": True,
        "is_unrecorded": False,
        "attempt": Attempt.NOT_THROTTLED,
        "is_request_quota": False,
        "has_request_bound": False,
        "logged_ms": 0,
        "replayed_ms": 0,
        "boundary_amount": 500.0,
        "purge_margin_ms": 50,
        "keeps_overlapping": False,
        "window_ms": 1000,
        "known_for_ms": 60_000,
        "change_distance_ms": 60_000,
        "is_proven": False,
        "is_explained": False,
        "is_impossible": False,
        "is_neither": False,
        "line_lag_max_ms": 10,
        "lost_requests": 0,
        "lost_amount_max": 0.0,
    } | overrides
    return RateRows(**{name: np.array([value]) for name, value in row.items()})


def verdict_of(**overrides: object) -> tuple[str, str | None]:
    return RATE_VERDICTS[rate_verdicts(rate_row(**overrides), TOLERANCES)[0]]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, ("agree", None)),
        ({"logged_ms": 100, "replayed_ms": 105}, ("agree", None)),
        ({"logged_ms": 0, "replayed_ms": 3}, ("indeterminate", "sample_timing")),
        # One sample may have been in or out (500 B at 1000 B/s = 500 ms) and started a window off.
        ({"logged_ms": 0, "replayed_ms": 1505}, ("indeterminate", "sample_timing")),
        ({"logged_ms": 0, "replayed_ms": 1506}, ("under_throttled", None)),
        # Of a change in flight neither quota gives it, where the state is known.
        (
            {"replayed_ms": 1505, "is_neither": True, "is_proven": True, "change_distance_ms": 9},
            ("under_throttled", None),
        ),
        (
            {"replayed_ms": 1505, "is_neither": True, "change_distance_ms": 9},
            ("indeterminate", "quota_change_in_flight"),
        ),
        # Samples do not excuse what no times of theirs explain, nor does a state not known yet.
        ({"replayed_ms": 1505, "is_impossible": True}, ("under_throttled", None)),
        (
            {"replayed_ms": 1505, "is_impossible": True, "known_for_ms": 0},
            ("under_throttled", None),
        ),
        (
            {"replayed_ms": 1505, "is_impossible": True, "is_explained": True},
            ("indeterminate", "sample_timing"),
        ),
        (
            {"replayed_ms": 1505, "is_impossible": True, "change_distance_ms": 999},
            ("indeterminate", "quota_change_in_flight"),
        ),
        # From 3.8 on the next sample may have begun almost two windows after one about to leave.
        ({"replayed_ms": 2505, "keeps_overlapping": True}, ("indeterminate", "sample_timing")),
        ({"replayed_ms": 2506, "keeps_overlapping": True}, ("under_throttled", None)),
        (
            {"replayed_ms": 1506, "keeps_overlapping": True, "purge_margin_ms": 51},
            ("under_throttled", None),
        ),
        ({"logged_ms": 9000, "replayed_ms": 10}, ("over_throttled", None)),
        (
            {"logged_ms": 9000, "replayed_ms": 10, "is_explained": True},
            ("indeterminate", "sample_timing"),
        ),
        # Where the throttles around prove the state, samples no longer excuse anything.
        (
            {"logged_ms": 0, "replayed_ms": 5, "is_proven": True},
            ("indeterminate", "sample_timing"),
        ),
        ({"logged_ms": 0, "replayed_ms": 6, "is_proven": True}, ("under_throttled", None)),
        # A line may be late, and then its request was earlier and its throttle longer.
        (
            {"logged_ms": 20, "replayed_ms": 10, "is_proven": True},
            ("indeterminate", "sample_timing"),
        ),
        ({"logged_ms": 21, "replayed_ms": 10, "is_proven": True}, ("over_throttled", None)),
        # What is tolerated between two throttles is so between a throttle and none, either way.
        (
            {"logged_ms": 5, "replayed_ms": 0, "is_proven": True, "line_lag_max_ms": 0},
            ("indeterminate", "sample_timing"),
        ),
        (
            {"logged_ms": 6, "replayed_ms": 0, "is_proven": True, "line_lag_max_ms": 0},
            ("over_throttled", None),
        ),
        (
            {"logged_ms": 0, "replayed_ms": 90, "is_proven": True, "known_for_ms": 1},
            ("under_throttled", None),
        ),
        # So late the line may be (10 ms): the request may have been recorded before the change.
        (
            {"logged_ms": 0, "replayed_ms": 90, "is_proven": True, "change_distance_ms": 39},
            ("indeterminate", "quota_change_in_flight"),
        ),
        (
            {"logged_ms": 0, "replayed_ms": 90, "is_proven": True, "change_distance_ms": 40},
            ("under_throttled", None),
        ),
        (
            {"logged_ms": 9000, "replayed_ms": 10, "lost_requests": 1},
            ("indeterminate", "lines_missing"),
        ),
        (
            {"logged_ms": 9000, "replayed_ms": 10, "lost_requests": 1, "is_proven": True},
            ("over_throttled", None),
        ),
        # What is missing makes a throttle longer by as much as it was and a window, none shorter.
        (
            {"logged_ms": 1515, "replayed_ms": 10, "is_proven": True} | LOST,
            ("indeterminate", "lines_missing"),
        ),
        (
            {"logged_ms": 1516, "replayed_ms": 10, "is_proven": True} | LOST,
            ("over_throttled", None),
        ),
        (
            {"logged_ms": 0, "replayed_ms": 200, "is_proven": True} | LOST,
            ("under_throttled", None),
        ),
        ({"bound": np.nan}, ("no_quota", None)),
        ({"bound": np.nan, "logged_ms": 9}, ("no_quota", "throttled_without_quota")),
        ({"bound": np.nan, "logged_ms": 9, "has_request_bound": True}, ("no_quota", None)),
        (
            {"bound": np.nan, "logged_ms": 9, "change_distance_ms": 999},
            ("indeterminate", "quota_change_in_flight"),
        ),
        # A request quota throttles for one window at most, and windows may be of any length.
        (
            {"logged_ms": 3_000, "has_request_bound": True, "window_ms": 3_000, "is_proven": True},
            ("indeterminate", "request_quota_interval"),
        ),
        (
            {"logged_ms": 3_000, "has_request_bound": True, "is_proven": True},
            ("over_throttled", None),
        ),
        ({"amount_known": False}, ("indeterminate", "size_not_logged")),
        # What a sensor held before makes a throttle longer, or its window by a sample.
        (
            {"logged_ms": 9000, "replayed_ms": 0, "known_for_ms": 12_999},
            ("indeterminate", "state_unknown"),
        ),
        ({"replayed_ms": 1505, "known_for_ms": 12_999}, ("indeterminate", "state_unknown")),
        ({"replayed_ms": 1506, "known_for_ms": 12_999}, ("under_throttled", None)),
        (
            {"replayed_ms": 2505, "keeps_overlapping": True, "known_for_ms": 12_999},
            ("indeterminate", "state_unknown"),
        ),
        (
            {"replayed_ms": 2506, "keeps_overlapping": True, "known_for_ms": 12_999},
            ("under_throttled", None),
        ),
        # Its first sample has not left yet, whenever that began.
        (
            {"replayed_ms": 1505, "known_for_ms": 12_999, "purge_margin_ms": 1_011},
            ("under_throttled", None),
        ),
        (
            {"replayed_ms": 1005, "known_for_ms": 12_999, "purge_margin_ms": 1_011},
            ("indeterminate", "state_unknown"),
        ),
        # The throttles after it prove nothing of what has left by then.
        (
            {"logged_ms": 90, "is_proven": True, "known_for_ms": 12_999},
            ("indeterminate", "state_unknown"),
        ),
        (
            {"logged_ms": 0, "replayed_ms": 9000, "change_distance_ms": 999},
            ("indeterminate", "quota_change_in_flight"),
        ),
        (
            {"logged_ms": 900, "replayed_ms": 0, "has_request_bound": True},
            ("indeterminate", "request_quota_interval"),
        ),
        (
            {"logged_ms": 9000, "replayed_ms": 0, "has_request_bound": True},
            ("over_throttled", None),
        ),
        ({**TRIED, "attempt": Attempt.PLAUSIBLE, "replayed_ms": 70}, ("agree", None)),
        (
            {**TRIED, "attempt": Attempt.UNKNOWN, "replayed_ms": 70},
            ("indeterminate", "attempt_not_logged"),
        ),
        ({**TRIED, "attempt": Attempt.TOO_LARGE, "replayed_ms": 20}, ("over_throttled", None)),
        (
            {**TRIED, "attempt": Attempt.TOO_LARGE, "replayed_ms": 20, "line_lag_max_ms": 60},
            ("indeterminate", "sample_timing"),
        ),
        (
            {**TRIED, "attempt": Attempt.TOO_SMALL, "replayed_ms": 90, "line_lag_max_ms": 60},
            ("under_throttled", None),
        ),
        ({**TRIED, "attempt": Attempt.OVER_LIMIT, "replayed_ms": 20}, ("over_throttled", None)),
        ({**TRIED, "attempt": Attempt.TOO_SMALL, "replayed_ms": 90}, ("under_throttled", None)),
        (
            {**TRIED, "attempt": Attempt.TOO_LARGE, "replayed_ms": 20, "known_for_ms": 12_999},
            ("indeterminate", "state_unknown"),
        ),
        (
            {**TRIED, "attempt": Attempt.TOO_SMALL, "replayed_ms": 9000, "known_for_ms": 12_999},
            ("indeterminate", "state_unknown"),
        ),
        (
            {**TRIED, "attempt": Attempt.TOO_LARGE, "replayed_ms": 20, "lost_requests": 1},
            ("indeterminate", "lines_missing"),
        ),
    ],
)
def test_a_rate_decision_gets_the_first_verdict_that_applies(
    overrides: dict[str, object], expected: tuple[str, str | None]
) -> None:
    assert verdict_of(**overrides) == expected


def mutation_row(**overrides: object) -> MutationRows:
    row = {
        "bound": 3.0,
        "amount_known": True,
        "is_state_known": True,
        "logged_admitted": True,
        "replayed_admitted": True,
        "tokens_before": 5.0,
        "early_max_ms": 60,
        "late_max_ms": 60,
        "is_order_open": False,
        "is_amid_debt": False,
        "is_past_known": True,
        "change_distance_ms": 60_000,
    } | overrides
    return MutationRows(**{name: np.array([value]) for name, value in row.items()})


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, ("agree", None)),
        (
            {"replayed_admitted": False, "tokens_before": -5.0},
            ("wrongly_admitted", None),
        ),
        ({"logged_admitted": False}, ("wrongly_refused", None)),
        # Whatever the state is, no bucket refuses a topic and admits the next one at once.
        ({"is_amid_debt": True, "is_state_known": False}, ("wrongly_admitted", None)),
        (
            {"is_amid_debt": True, "is_state_known": False, "change_distance_ms": 0},
            ("indeterminate", "state_unknown"),
        ),
        # 3 partitions/s × 60 ms move 0.18 tokens: who is right cannot be said.
        (
            {"replayed_admitted": False, "tokens_before": -0.045},
            ("indeterminate", "sample_timing"),
        ),
        # Later there are more tokens, earlier fewer: a line that was written late refuses nobody.
        (
            {"replayed_admitted": False, "tokens_before": -0.09, "late_max_ms": 10},
            ("wrongly_admitted", None),
        ),
        (
            {"logged_admitted": False, "tokens_before": 0.09, "late_max_ms": 10},
            ("indeterminate", "sample_timing"),
        ),
        (
            {"replayed_admitted": False, "tokens_before": -5.0, "is_order_open": True},
            ("indeterminate", "sample_timing"),
        ),
        ({"amount_known": False}, ("indeterminate", "partitions_unknown")),
        ({"is_state_known": False}, ("indeterminate", "state_unknown")),
        ({"bound": np.nan}, ("no_quota", None)),
        # Before the log began the bucket may have been emptier, but never fuller than full.
        (
            {"logged_admitted": False, "is_past_known": False},
            ("indeterminate", "state_unknown"),
        ),
        (
            {"replayed_admitted": False, "tokens_before": -5.0, "is_past_known": False},
            ("wrongly_admitted", None),
        ),
        (
            {"logged_admitted": False, "change_distance_ms": 10},
            ("indeterminate", "quota_change_in_flight"),
        ),
    ],
)
def test_a_mutation_gets_the_first_verdict_that_applies(
    overrides: dict[str, object], expected: tuple[str, str | None]
) -> None:
    found = judge_mutations(mutation_row(**overrides), TOLERANCES)
    assert (found.verdict[0], found.reason[0]) == expected


@given(
    logged=st.integers(0, 40_000),
    replayed=st.integers(0, 40_000),
    known_for=st.integers(0, 30_000),
    request=st.booleans(),
)
def test_every_rate_decision_has_a_verdict_and_every_indeterminate_one_a_reason(
    logged: int, replayed: int, known_for: int, request: bool
) -> None:
    verdict, reason = verdict_of(
        logged_ms=logged, replayed_ms=replayed, known_for_ms=known_for, has_request_bound=request
    )
    assert verdict in VERDICTS
    assert (verdict == "indeterminate") == (reason is not None)


def test_an_accusation_needs_more_than_the_tolerances() -> None:
    lenient = replace(TOLERANCES, throttle_ms=10_000)
    row = rate_row(logged_ms=0, replayed_ms=9_000)
    assert RATE_VERDICTS[rate_verdicts(row, TOLERANCES)[0]] == ("under_throttled", None)
    assert RATE_VERDICTS[rate_verdicts(row, lenient)[0]][0] == "indeterminate"
