"""The rule from a day's need to a value."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.recommend.weigh.configured_values import QuotaEntity
from spark_jobs.recommend.weigh.observation import (
    PEAK_RATE,
    BrokerLoad,
    Demand,
    Observation,
    RateShape,
)
from spark_jobs.recommend.weigh.proposal import KEEP, NOT_ENOUGH_DATA, Case, Proposal, propose
from spark_jobs.recommend.weigh.traffic import QuotaSensor
from spark_jobs.settings import RecommendSettings

SETTINGS = RecommendSettings()


def need(
    demand: float,
    current: float = 100_000.0,
    quota_type: str = "producer_byte_rate",
    days: int = 1,
    slope: float = 0.0,
    **changes: object,
) -> Case:
    """A day of enough traffic, throttled for a minute where the demand was above the value."""
    throttle_ms = 60_000 if demand > current else 0
    fields: dict[str, object] = {
        "broker_id": 2,
        "demand": Demand(demand, PEAK_RATE),
        "requests": 5_000,
        "seconds": 3_600,
        "unknown_amounts": 0,
        "rates": RateShape(),
        "peak_at_ms": 0,
        "throttled_requests": throttle_ms // 1000,
        "throttle_time_ms": throttle_ms,
        "logged_throttle_time_ms": throttle_ms,
        "muted_ms": throttle_ms,
    }
    load = BrokerLoad(**fields | changes)
    sensor = QuotaSensor((quota_type, "alice", ""), load.requests, 0, "user", current)
    seen = Observation(sensor, load.seconds, (load,), days, slope=slope)
    entity = QuotaEntity("alice", None)
    return Case(quota_type, entity, current, current, (seen,), Proposal(KEEP, ""))


def proposed(demand: float, current: float = 100_000.0, **changes: object) -> Proposal:
    return propose(need(demand, current, **changes), SETTINGS)


@pytest.mark.parametrize("short", [{"requests": 199}, {"seconds": 29}])
def test_under_a_minimum_of_traffic_there_is_no_number(short: dict[str, int]) -> None:
    proposal = proposed(200_000.0, **short)
    assert (proposal.status, proposal.proposed) == (NOT_ENOUGH_DATA, None)
    assert (proposal.lower, proposal.upper) == (None, None)
    assert "at least" in proposal.reason


def test_mutations_are_rarer_and_have_a_minimum_of_their_own() -> None:
    changes = {"quota_type": "controller_mutation_rate", "requests": 20}
    assert proposed(20.0, 10.0, **changes).status == PROPOSED
    assert proposed(20.0, 10.0, **changes | {"requests": 19}).status == NOT_ENOUGH_DATA


def test_a_throttled_entity_gets_what_it_asked_for_with_headroom_on_a_round_value() -> None:
    proposal = proposed(150_000.0)
    # 150,000 x 1.2 = 180,000, and the next round value.
    assert (proposal.status, proposal.proposed) == (PROPOSED, 200_000.0)
    assert (proposal.lower, proposal.clamped_by) == (150_000.0, None)
    assert "60.0 s" in proposal.reason
    assert "broker 2" in proposal.reason


def test_one_raise_goes_no_further_than_four_times_and_says_so() -> None:
    proposal = proposed(2_000_000.0)
    assert (proposal.proposed, proposal.clamped_by) == (400_000.0, "max_raise")
    assert "One step raises to 4 times the value at most" in proposal.reason


def test_far_below_its_quota_means_half_of_it_at_most_at_a_time() -> None:
    proposal = proposed(1_000.0)
    assert (proposal.status, proposal.proposed) == (PROPOSED, 50_000.0)
    assert proposal.clamped_by == "max_lower"
    assert proposed(20_000.0, 81_000.0).proposed == 50_000.0


def test_a_quarter_of_its_quota_is_not_far_below() -> None:
    assert proposed(25_000.0).status == KEEP


def test_near_its_limit_but_never_throttled_is_kept_and_said() -> None:
    proposal = proposed(85_000.0)
    assert proposal.status == KEEP
    assert "85.0%" in proposal.reason
    assert "near the limit" in proposal.reason


def test_less_than_a_second_of_throttling_a_day_is_left_alone() -> None:
    assert proposed(150_000.0, throttle_time_ms=999).status == KEEP
    assert proposed(150_000.0, throttle_time_ms=1_000).status == PROPOSED


def test_throttled_under_an_earlier_value_only_is_kept() -> None:
    proposal = proposed(60_000.0, throttle_time_ms=60_000)
    assert proposal.status == KEEP
    assert "earlier value" in proposal.reason


def test_who_was_throttled_at_all_is_never_lowered() -> None:
    assert proposed(1_000.0, throttle_time_ms=1).status == KEEP


def test_an_idle_entity_is_not_lowered_towards_nothing() -> None:
    assert proposed(0.0).status == KEEP


def test_a_request_quota_is_never_lowered() -> None:
    proposal = proposed(1.0, 100.0, quota_type="request_percentage")
    assert proposal.status == KEEP
    assert "network threads" in proposal.reason


@pytest.mark.parametrize("current", [0.0, 2.0**63, 1e15])
def test_blocked_and_unlimited_entities_are_meant_to_be(current: float) -> None:
    assert proposed(1_000.0, current, throttle_time_ms=9_999).status == KEEP


def test_a_change_of_a_tenth_is_too_small() -> None:
    # Needs 108,000, whose round value is 120,000.
    kept = proposed(90_100.0, 115_000.0, throttle_time_ms=0)
    assert kept.status == KEEP
    small = propose(need(91_000.0, 110_000.0), RecommendSettings(far_below=0.9))
    assert small.status == KEEP
    assert "too near" in small.reason


def test_a_shorter_log_has_a_wider_range() -> None:
    short, long = proposed(150_000.0, seconds=30), proposed(150_000.0, seconds=86_400)
    assert short.upper == 400_000.0
    assert long.upper == 200_000.0


@given(st.floats(1.0, 1e12), st.floats(1.0, 1e12), st.sampled_from(QUOTA_TYPES))
def test_a_proposal_is_a_change_in_the_right_direction_within_its_limits(
    demand: float, current: float, quota_type: str
) -> None:
    proposal = proposed(demand, current, quota_type=quota_type)
    assume(proposal.proposed is not None)
    assert current * 0.5 <= proposal.proposed <= current * 4
    assert abs(proposal.proposed - current) > 0.1 * current
    assert (proposal.proposed > current) == (demand > current)
    assert proposal.clamped_by or proposal.lower <= proposal.proposed <= proposal.upper
    assert proposal.clamped_by == "max_raise" or proposal.proposed >= demand


@given(st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.sampled_from(QUOTA_TYPES))
def test_the_same_traffic_day_after_day_comes_to_rest(
    demand: float, current: float, quota_type: str
) -> None:
    values = [current]
    # Ninety halvings or quadruplings span more than any pair of values.
    for _ in range(90):
        proposal = proposed(demand, values[-1], quota_type=quota_type)
        if proposal.proposed is None:
            break
        values.append(proposal.proposed)
    assert proposal.status == KEEP
    directions = {after > before for before, after in pairwise(values)}
    assert len(directions) <= 1, values


@given(st.floats(10_000.0, 1e9), st.floats(0.9, 1.1))
def test_a_value_that_was_taken_over_is_kept_when_the_next_day_differs_a_little(
    demand: float, factor: float
) -> None:
    value = proposed(demand, demand / 2).proposed
    assert value is not None
    assert proposed(demand * factor, value).status == KEEP
