"""KIP-599, late revision: bursts spread over earlier samples. Its examples, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_rate import (
    BurstSpread,
    Kip599Rate,
    Kip599RateBurstSpread,
    spread_burst,
)
from spark_jobs.whatif.policies.kip599.kip599_token_bucket import Kip599TokenBucket
from tests.spark_jobs.whatif.policies.mutation_requests import (
    BURST_OF_560,
    EXAMPLE,
    T,
    admitted,
    create,
    measured,
    quota_changed,
)

NEWEST_FIRST = EXAMPLE | {"burst.spread": "newest_first"}
Q, S = 5.0, 100
Step = tuple[int, int]
Policies = Kip599TokenBucket | Kip599Rate


def decisions(policy: Policies, steps: list[Step]) -> list[bool]:
    """Return what is admitted of (seconds after T, partitions)."""
    return [admitted(policy.decide(create(n, at_s=at_s)))[0] for at_s, n in steps]


def test_560_mutations_are_99_samples_of_5_and_one_of_65() -> None:
    grid = GridRate(S)
    for partitions in BURST_OF_560:
        spread_burst(grid, partitions, Q, T)
    assert grid.values(T) == [5.0] * 99 + [65.0]
    assert sum(grid.values(T)[:99]) == 495


def test_the_rate_is_still_5_6_and_falls_to_5_in_12_seconds() -> None:
    policy = Kip599RateBurstSpread.configured(EXAMPLE)
    assert policy.decide(create(*BURST_OF_560)).measured == 5.6
    after_11_s = policy.decide(create(1, at_s=11))
    assert (measured(after_11_s), admitted(after_11_s)) == ([5.05], [False])
    assert after_11_s.delay_ms == 1_000
    after_12_s = policy.decide(create(1, at_s=12))
    assert (measured(after_12_s), admitted(after_12_s)) == ([5.0], [True])


def test_samples_with_something_in_them_are_filled_by_what_is_missing() -> None:
    grid = GridRate(samples=4)
    grid.record(3.0, T - 3_000)
    grid.record(9.0, T - 2_000)
    spread_burst(grid, 10.0, Q, T)
    assert grid.values(T) == [5.0, 9.0, 5.0, 3.0]


def test_newest_first_fills_the_samples_before_it_backwards() -> None:
    grid = GridRate(samples=4)
    spread_burst(grid, 7.0, Q, T, BurstSpread.NEWEST_FIRST)
    assert grid.values(T) == [0.0, 2.0, 5.0, 0.0]


def test_oldest_first_leaves_the_newest_samples_empty() -> None:
    grid = GridRate(samples=4)
    spread_burst(grid, 7.0, Q, T)
    assert grid.values(T) == [5.0, 2.0, 0.0, 0.0]


def test_the_quota_in_force_when_it_is_recorded_is_what_counts() -> None:
    config = EXAMPLE | {"controller.quota.window.num": 4}
    policy = Kip599RateBurstSpread.configured(config)
    policy.decide(create(20))
    policy.observe(quota_changed(2.0))
    assert measured(policy.decide(create(1, at_s=2))) == [2.5]


def test_without_a_quota_in_force_nothing_is_spread() -> None:
    policy = Kip599RateBurstSpread.configured(EXAMPLE)
    policy.decide(create(700, user="bob"))
    policy.observe(quota_changed(5.0, user="bob"))
    assert measured(policy.decide(create(1, at_s=99, user="bob"))) == [7.0]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 130), st.integers(0, 500)), max_size=12))
def test_without_overshoot_tokens_are_the_room_that_is_left_in_the_grid(steps: list[Step]) -> None:
    bucket = Kip599TokenBucket.configured(EXAMPLE)
    spread = Kip599RateBurstSpread.configured(EXAMPLE)
    at_s = 0
    for step_s, wanted in steps:
        at_s += step_s
        tokens = measured(bucket.decide(create(0, at_s=at_s)))[0]
        partitions = min(wanted, tokens)
        one = bucket.decide(create(partitions, at_s=at_s))
        other = spread.decide(create(partitions, at_s=at_s))
        assert admitted(one) == admitted(other) == [True]
        assert one.measured == pytest.approx(Q * S - other.measured * S)


@settings(max_examples=50)
@given(st.integers(0, 900), st.lists(st.integers(0, 99), max_size=10))
def test_after_one_overshoot_both_decide_alike_until_its_sample_leaves(
    burst: int, later_s: list[int]
) -> None:
    steps = [(0, burst), *((at_s, 0) for at_s in sorted(later_s))]
    bucket = Kip599TokenBucket.configured(EXAMPLE)
    assert decisions(bucket, steps) == decisions(Kip599RateBurstSpread.configured(EXAMPLE), steps)


def test_with_overshoot_the_rate_admits_when_the_overfull_sample_leaves_and_tokens_do_not() -> None:
    steps = [(0, 560), *((at_s, 60) for at_s in range(12, 97, 12)), (99, 1), (100, 1)]
    bucket = decisions(Kip599TokenBucket.configured(EXAMPLE), steps)
    spread = decisions(Kip599RateBurstSpread.configured(EXAMPLE), steps)
    assert bucket == [True] * 9 + [False, False]
    assert spread == [True] * 9 + [False, True]


def test_newest_first_decides_otherwise_than_the_token_bucket() -> None:
    steps = [(0, 300), (10, 300), (20, 1)]
    assert decisions(Kip599TokenBucket.configured(EXAMPLE), steps) == [True, True, True]
    assert decisions(Kip599RateBurstSpread.configured(EXAMPLE), steps) == [True, True, True]
    assert decisions(Kip599RateBurstSpread.configured(NEWEST_FIRST), steps) == [True, True, False]


def test_no_spread_decides_otherwise_than_the_token_bucket() -> None:
    steps = [(0, 560), (12, 1), (99, 1), (100, 1)]
    assert decisions(Kip599TokenBucket.configured(EXAMPLE), steps) == [True, True, True, True]
    assert decisions(Kip599RateBurstSpread.configured(EXAMPLE), steps) == [True, True, True, True]
    assert decisions(Kip599Rate.configured(EXAMPLE), steps) == [True, False, False, True]


def test_another_order_of_spreading_is_refused() -> None:
    with pytest.raises(PolicyConfigError, match="oldest_first, newest_first"):
        Kip599RateBurstSpread.configured({"burst.spread": "evenly"})
