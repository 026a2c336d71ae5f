from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.token_bucket import TokenBucket

T = 1_700_000_000_000


def bucket_of_100() -> TokenBucket:
    """Return a bucket whose burst is 100 tokens at 5 per second."""
    return TokenBucket(samples=10, window_ms=2_000)


# Ports of TokenBucketTest (org.apache.kafka.common.metrics).


def test_record() -> None:
    bucket = bucket_of_100()
    assert bucket.measure(5.0, T) == 100.0
    bucket.record(60.0, 5.0, T)
    assert bucket.measure(5.0, T) == 40.0
    bucket.record(5.0, 5.0, T + 2_000)
    assert bucket.measure(5.0, T + 2_000) == 45.0
    bucket.record(60.0, 5.0, T + 4_000)
    assert bucket.measure(5.0, T + 4_000) == -5.0


def test_unrecord() -> None:
    bucket = bucket_of_100()
    assert bucket.measure(5.0, T) == 100.0
    bucket.record(-60.0, 5.0, T)
    assert bucket.measure(5.0, T) == 100.0
    bucket.record(60.0, 5.0, T + 2_000)
    assert bucket.measure(5.0, T + 2_000) == 40.0
    bucket.record(-60.0, 5.0, T + 4_000)
    assert bucket.measure(5.0, T + 4_000) == 100.0


# The rules, one by one.


def test_a_new_bucket_is_found_full_because_it_refilled_since_1970() -> None:
    assert bucket_of_100().tokens == 0.0
    assert bucket_of_100().measure(5.0, T) == 100.0
    assert bucket_of_100().measure(5.0, now_ms=2_000) == 10.0


def test_the_example_of_kafkas_class_comment_waits_twelve_seconds_for_its_burst() -> None:
    bucket = TokenBucket(samples=100)
    bucket.record(560.0, 5.0, T)
    assert bucket.measure(5.0, T) == -60.0
    assert bucket.measure(5.0, T + 11_999) < 0.0
    assert bucket.measure(5.0, T + 12_000) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("bound", "tokens"), [(10.0, 60.0), (1.0, 20.0), (0.5, 10.0)])
def test_a_changed_bound_refills_and_caps_for_the_time_before_it_too(
    bound: float, tokens: float
) -> None:
    bucket = bucket_of_100()
    bucket.record(60.0, 5.0, T)
    assert bucket.measure(bound, T + 2_000) == tokens


def test_time_that_goes_back_takes_tokens_back() -> None:
    bucket = bucket_of_100()
    bucket.record(60.0, 5.0, T)
    assert bucket.measure(5.0, T - 1_000) == 35.0


@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.floats(-1e6, 1e6)), min_size=1, max_size=30),
    st.floats(0.001, 1e9),
)
def test_there_are_never_more_tokens_than_the_burst(
    events: list[tuple[int, float]], bound: float
) -> None:
    bucket, now = TokenBucket(), T
    for step_ms, value in events:
        now += step_ms
        bucket.record(value, bound, now)
        assert bucket.measure(bound, now) <= bucket.burst(bound)
