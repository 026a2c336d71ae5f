from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.controller_mutation import (
    ControllerMutationQuota,
    mutation_throttle_time_ms,
    remaining_throttle_time_ms,
)
from spark_jobs.quota.token_bucket import TokenBucket
from tests.spark_jobs.quota.amounts import PARTITIONS, MutationRow, mutation_rows

T = 1_700_000_000_000
DAY_MS = 86_400_000
UNKNOWN = math.nan


def quota_of_100() -> ControllerMutationQuota:
    """Return a quota whose burst is 100 partitions at 10 per second."""
    return ControllerMutationQuota(TokenBucket(samples=10))


def strict(quota: ControllerMutationQuota, partitions: float, now: int = T) -> tuple[bool, int]:
    decision = quota.decide(partitions, 10.0, now, is_strict=True)
    return decision.is_admitted, decision.throttle_time_ms


def permissive(quota: ControllerMutationQuota, partitions: float, now: int = T) -> tuple[bool, int]:
    decision = quota.decide(partitions, 10.0, now, is_strict=False)
    return decision.is_admitted, decision.throttle_time_ms


# Ports of StrictControllerMutationQuotaTest, PermissiveControllerMutationQuotaTest and
# ControllerMutationQuotaManagerTest.


def test_controller_mutation_quota_violation_strict() -> None:
    quota = quota_of_100()
    assert strict(quota, 90.0) == (True, 0)
    assert strict(quota, 90.0) == (True, 0)
    assert strict(quota, 90.0) == (False, 8_000)
    assert remaining_throttle_time_ms(8_000, recorded_at_ms=T, now_ms=T + 5_000) == 3_000


def test_controller_mutation_quota_violation_permissive() -> None:
    quota = quota_of_100()
    assert permissive(quota, 90.0) == (True, 0)
    assert permissive(quota, 90.0) == (True, 8_000)
    assert permissive(quota, 90.0) == (True, 17_000)
    assert remaining_throttle_time_ms(17_000, recorded_at_ms=T, now_ms=T + 5_000) == 12_000


@pytest.mark.parametrize(("tokens", "throttle_ms"), [(0.0, 0), (-5.0, 500), (-10.0, 1_000)])
def test_throttle_time(tokens: float, throttle_ms: int) -> None:
    assert mutation_throttle_time_ms(tokens, bound=10.0) == throttle_ms


def test_controller_mutation_quota_violation() -> None:
    quota, now = quota_of_100(), T
    for _ in range(10):
        assert strict(quota, 10.0, now) == (True, 0)
        now += 1_000
    assert strict(quota, 110.0, now) == (True, 0)
    assert strict(quota, 110.0, now) == (False, 1_000)
    assert strict(quota, 110.0, now + 1_000) == (True, 0)


# The rules, one by one.


def test_a_refused_mutation_spends_nothing() -> None:
    quota = quota_of_100()
    strict(quota, 150.0)
    assert quota.tokens == -50.0
    assert strict(quota, 1_000.0) == (False, 5_000)
    assert quota.tokens == -50.0


def test_no_tokens_at_all_are_still_no_debt() -> None:
    quota = quota_of_100()
    strict(quota, 100.0)
    assert quota.tokens == 0.0
    assert strict(quota, 1.0) == (True, 0)
    assert strict(quota, 1.0) == (False, 100)


def test_strict_and_permissive_requests_spend_from_one_bucket() -> None:
    quota = quota_of_100()
    assert permissive(quota, 130.0) == (True, 3_000)
    assert strict(quota, 1.0) == (False, 3_000)


def test_without_a_bound_in_force_nothing_is_refused() -> None:
    quota = quota_of_100()
    decision = quota.decide(1e9, math.nan, T, is_strict=True)
    assert (decision.is_admitted, decision.throttle_time_ms) == (True, 0)
    assert quota.decide(1e9, math.nan, T, is_strict=True).is_admitted


def test_a_bound_of_zero_refuses_once_in_debt_with_a_throttle_that_wraps_to_none() -> None:
    quota = quota_of_100()
    assert quota.decide(1.0, 0.0, T, is_strict=True).is_admitted
    refused = quota.decide(1.0, 0.0, T + DAY_MS, is_strict=True)
    assert (refused.is_admitted, refused.throttle_time_ms) == (False, 0)


def test_the_wait_is_taken_off_before_the_cut_to_32_bits() -> None:
    assert remaining_throttle_time_ms(2**31 + 4, recorded_at_ms=T, now_ms=T + 5) == 2**31 - 1
    assert remaining_throttle_time_ms(2**31, recorded_at_ms=T, now_ms=T) == 0
    assert remaining_throttle_time_ms(2**32 + 7, recorded_at_ms=T, now_ms=T + 5) == 2
    assert remaining_throttle_time_ms(4, recorded_at_ms=T, now_ms=T + 5) == 0


def test_the_bucket_follows_what_the_broker_logged_not_what_the_rule_says() -> None:
    quota = quota_of_100()
    strict(quota, 150.0)
    wrongly_admitted = quota.decide(20.0, 10.0, T, is_strict=True, was_admitted=True)
    assert (wrongly_admitted.is_admitted, wrongly_admitted.tokens) == (False, -70.0)
    wrongly_refused = quota.decide(20.0, 10.0, T + 10_000, is_strict=True, was_admitted=False)
    assert (wrongly_refused.is_admitted, wrongly_refused.tokens) == (True, 30.0)


# Amounts that are not in the log.


def test_an_unknown_amount_leaves_the_next_decision_open() -> None:
    quota = quota_of_100()
    first = quota.decide(UNKNOWN, 10.0, T, is_strict=True)
    assert (first.is_admitted, first.is_state_known, first.tokens_before) == (True, True, 100.0)
    assert math.isnan(first.tokens)
    second = quota.decide(1.0, 10.0, T, is_strict=True, was_admitted=False)
    assert not second.is_state_known


def test_a_debt_is_known_whatever_the_unknown_amount_was() -> None:
    quota = quota_of_100()
    strict(quota, 150.0)
    permissive(quota, UNKNOWN)
    decision = quota.decide(1.0, 10.0, T, is_strict=True, was_admitted=False)
    assert (decision.is_state_known, decision.is_admitted) == (True, False)


def test_an_admission_shows_that_there_was_no_debt_and_a_full_bucket_forgets() -> None:
    quota = quota_of_100()
    quota.decide(UNKNOWN, 10.0, T, is_strict=True)
    quota.decide(30.0, 10.0, T + 1_000, is_strict=True, was_admitted=True)
    assert (quota.least.tokens, quota.most.tokens) == (-30.0, 70.0)
    full_again = quota.decide(0.0, 10.0, T + 15_000, is_strict=True, was_admitted=True)
    assert (full_again.is_state_known, full_again.tokens) == (True, 100.0)


def test_a_refusal_shows_that_there_was_a_debt() -> None:
    quota = quota_of_100()
    quota.decide(UNKNOWN, 10.0, T, is_strict=True)
    quota.decide(30.0, 10.0, T, is_strict=True, was_admitted=False)
    assert quota.most.tokens < 0.0
    # Any debt at all keeps a mutation of the same moment out.
    assert not strict(quota, 1.0)[0]
    assert quota.decide(30.0, 10.0, T, is_strict=True, was_admitted=False).is_state_known


@given(mutation_rows(PARTITIONS))
def test_only_debt_is_refused_and_only_debt_is_throttled(rows: list[MutationRow]) -> None:
    quota = ControllerMutationQuota(TokenBucket())
    for row in rows:
        if row.bound == 0.0 or math.isnan(row.bound):
            continue
        decision = quota.decide(row.amount, row.bound, row.now_ms, is_strict=row.is_strict)
        debt = decision.tokens_before if row.is_strict else decision.tokens
        assert decision.is_admitted == (decision.tokens_before >= 0 or not row.is_strict)
        assert (decision.throttle_time_ms > 0) <= (debt < 0)
        spent = row.amount if decision.is_admitted else 0.0
        assert decision.tokens == decision.tokens_before - spent


@given(st.floats(-1e4, -1e-3), st.floats(0.1, 1e3))
def test_after_its_throttle_time_a_debt_is_paid_to_the_rounding(debt: float, bound: float) -> None:
    quota = ControllerMutationQuota(TokenBucket(tokens=debt, last_update_ms=T))
    decision = quota.decide(1.0, bound, T, is_strict=True)
    assert not decision.is_admitted
    assert decision.throttle_time_ms == pytest.approx(-debt / bound * 1000, rel=0, abs=0.5)
    later = quota.decide(0.0, bound, T + decision.throttle_time_ms + 1, is_strict=True)
    assert later.is_admitted
