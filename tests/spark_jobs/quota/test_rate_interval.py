"""The interval of a rate holds what the rule gives for all that the intervals allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.interval_states import IntervalRows, IntervalStates, RateIntervals
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_ONLY
from spark_jobs.quota.rate_interval import replay_rate_intervals
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from tests.spark_jobs.quota.amounts import EPOCH_MS, step_times

BOUND = 20.0
PROFILES = st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8])


def sensor(profile: RateProfile) -> SensorStates:
    return SensorStates.allocate([profile], [11], [1000])


def exact(
    profile: RateProfile, at_ms: np.ndarray, amount: np.ndarray, behaviour: np.ndarray
) -> RateReplay:
    n = len(at_ms)
    return replay_rate(
        np.zeros(n), at_ms, amount, np.full(n, BOUND), behaviour, np.zeros(n),
        np.full(n, NO_THROTTLE_MAX), *sensor(profile).rate_arrays(),
    )  # fmt: skip


def intervals(
    profile: RateProfile,
    earliest_ms: np.ndarray,
    latest_ms: np.ndarray,
    amount_min: np.ndarray,
    amount_max: np.ndarray,
    behaviour: np.ndarray,
    request: np.ndarray | None = None,
    bound: float = BOUND,
    unlogged_max: float = 0.0,
    throttle_max_ms: int | None = None,
    states: IntervalStates | None = None,
) -> RateIntervals:
    n = len(earliest_ms)
    rows = IntervalRows(
        np.zeros(n, np.int64), earliest_ms, latest_ms, amount_min, amount_max, np.full(n, bound),
        behaviour, np.arange(n) if request is None else request, np.full(n, unlogged_max),
    )  # fmt: skip
    cap = None if throttle_max_ms is None else np.array([throttle_max_ms])
    return replay_rate_intervals(rows, states or IntervalStates.of(sensor(profile)), cap)


def recorded(n: int) -> np.ndarray:
    return np.full(n, RECORD, np.int8)


@st.composite
def histories(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, amounts and behaviours of one sensor's events, in order."""
    at_ms = EPOCH_MS + np.cumsum(draw(step_times(1000)))
    n = len(at_ms)
    amount = draw(st.lists(st.integers(0, 400), min_size=n, max_size=n))
    only = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return at_ms, np.array(amount, float), np.where(only, RECORD_ONLY, RECORD).astype(np.int8)


@given(profile=PROFILES, history=histories())
def test_intervals_without_width_are_the_exact_rule(
    profile: RateProfile, history: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    at_ms, amount, behaviour = history
    # One request: the order of its rows is known.
    found = intervals(
        profile, at_ms, at_ms, amount, amount, behaviour, np.zeros(len(at_ms), np.int64)
    )
    truth = exact(profile, at_ms, amount, behaviour)
    assert found.throttle_time_min_ms.tolist() == truth.throttle_time_ms.tolist()
    assert found.throttle_time_max_ms.tolist() == truth.throttle_time_ms.tolist()
    measured = behaviour == RECORD
    np.testing.assert_allclose(found.rate_min[measured], truth.rate[measured], rtol=1e-12)
    np.testing.assert_allclose(found.rate_max[measured], truth.rate[measured], rtol=1e-12)


@given(profile=PROFILES, history=histories(), seed=st.integers(0, 2**32 - 1))
def test_what_truly_happened_is_inside_whatever_the_log_left_open(
    profile: RateProfile, history: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int
) -> None:
    at_ms, amount, behaviour = history
    n, random = len(at_ms), np.random.default_rng(seed)
    earliest_ms = at_ms - random.integers(0, 6, n)
    latest_ms = at_ms + random.integers(0, 6, n)
    order = np.argsort(random.integers(earliest_ms, latest_ms + 1), kind="stable")
    found = intervals(
        profile, earliest_ms[order], latest_ms[order], (amount * random.random(n))[order],
        (amount * (1.0 + random.random(n)))[order], behaviour[order],
    )  # fmt: skip
    truth = exact(profile, at_ms, amount, behaviour).throttle_time_ms[order]
    measured = behaviour[order] == RECORD
    assert np.all(found.throttle_time_min_ms[measured] <= truth[measured])
    assert np.all(truth[measured] <= found.throttle_time_max_ms[measured])


@given(profile=PROFILES, history=histories(), cut=st.integers(0, 40))
def test_two_calls_with_the_states_handed_on_are_one(
    profile: RateProfile, history: tuple[np.ndarray, np.ndarray, np.ndarray], cut: int
) -> None:
    at_ms, amount, behaviour = history
    request = np.zeros(len(at_ms), np.int64)
    whole = intervals(profile, at_ms, at_ms, amount, amount * 2, behaviour, request)
    states = IntervalStates.of(sensor(profile))
    first = intervals(
        profile, at_ms[:cut], at_ms[:cut], amount[:cut], amount[:cut] * 2, behaviour[:cut],
        request[:cut], states=states,
    )  # fmt: skip
    handed_on = IntervalStates.of(sensor(profile))
    handed_on.restore(0, states.export(0))
    second = intervals(
        profile, at_ms[cut:], at_ms[cut:], amount[cut:], amount[cut:] * 2, behaviour[cut:],
        request[cut:], states=handed_on,
    )  # fmt: skip
    for one, a, b in zip(whole, first, second, strict=True):
        assert one.tolist() == [*a.tolist(), *b.tolist()]


@pytest.mark.parametrize(
    ("amount", "bound", "unlogged", "cap", "expected"),
    [
        # 10 s are counted for a first amount: 300 / 10 s = 30, (30 - 20) / 20 x 10 s = 5 s.
        ((300.0, 300.0), 20.0, 0.0, None, (5000, 5000)),
        ((100.0, 300.0), 20.0, 0.0, None, (0, 5000)),
        ((300.0, 400.0), 20.0, 0.0, None, (5000, 10_000)),
        ((300.0, 300.0), 20.0, 100.0, None, (5000, 10_000)),
        ((100.0, 300.0), 20.0, 0.0, 1000, (0, 1000)),
        ((300.0, 300.0), float("nan"), 0.0, 1000, (0, 0)),
        ((300.0, 300.0), 0.0, 0.0, 1000, (1000, 1000)),
    ],
)
def test_a_first_amount_is_throttled_between_its_least_and_its_most(
    amount: tuple[float, float],
    bound: float,
    unlogged: float,
    cap: int | None,
    expected: tuple[int, int],
) -> None:
    at_ms = np.array([EPOCH_MS])
    found = intervals(
        RateProfile.RATE_3_8, at_ms, at_ms, np.array(amount[:1]), np.array(amount[1:]),
        recorded(1), bound=bound, unlogged_max=unlogged, throttle_max_ms=cap,
    )  # fmt: skip
    assert (found.throttle_time_min_ms[0], found.throttle_time_max_ms[0]) == expected


def test_of_two_that_overlap_either_may_have_been_first() -> None:
    at_ms = np.array([EPOCH_MS, EPOCH_MS + 1])
    amount = np.array([300.0, 400.0])
    found = intervals(RateProfile.RATE_3_8, at_ms, at_ms + 1, amount, amount, recorded(2))
    # Alone or after the other: 300 or 700 over 10 s, 400 or 700 over 10 s.
    assert found.rate_min.tolist() == pytest.approx([30.0, 40.0], rel=1e-3)
    assert found.rate_max.tolist() == pytest.approx([70.0, 70.0], rel=1e-3)
