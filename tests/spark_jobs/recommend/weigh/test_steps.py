from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.recommend.weigh.proposal import step_down, step_up

types = st.sampled_from(QUOTA_TYPES)
values = st.floats(1.0, 1e14)


@given(values, types)
def test_a_step_up_is_not_below_and_at_most_a_third_above(value: float, quota_type: str) -> None:
    # Whole numbers near 1 are further apart: 1, 2, 3.
    assert value <= step_up(value, quota_type) <= max(value * 4 / 3 + 1e-9, value + 1)


@given(values, types)
def test_a_step_down_is_not_above_and_at_most_a_quarter_below(
    value: float, quota_type: str
) -> None:
    assert min(value * 3 / 4 - 1e-9, value - 1) <= step_down(value, quota_type) <= value


@given(values, types)
def test_a_step_stays_where_it_is(value: float, quota_type: str) -> None:
    step = step_up(value, quota_type)
    assert step_up(step, quota_type) == step == step_down(step, quota_type)


@given(st.floats(1e-6, 1e14), st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]))
def test_a_byte_rate_is_a_whole_number_above_zero(value: float, quota_type: str) -> None:
    for step in (step_up(value, quota_type), step_down(value, quota_type)):
        assert step.is_integer()
        assert step >= 1


@pytest.mark.parametrize(
    ("value", "step"), [(61_234.0, 80_000.0), (1.1, 1.2), (0.021, 0.025), (9.0, 10.0)]
)
def test_steps_are_round(value: float, step: float) -> None:
    assert step_up(value, "request_percentage") == step
