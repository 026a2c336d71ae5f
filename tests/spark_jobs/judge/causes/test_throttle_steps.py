"""Steps between throttles tell a quota whenever samples began, and none of a sound broker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.judge.causes.hypotheses import Explanation, OtherQuota, explain_stretch
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretches import Stretch, find_stretches
from spark_jobs.judge.causes.throttle_steps import explain_by_steps, throttle_steps
from spark_jobs.quota.codes import PREVIOUS_QUOTA, UNKNOWN_QUOTA
from tests.spark_jobs.judge.causes.sensor_builder import (
    START_MS,
    Bound,
    changing,
    constant,
    history,
    misplaced,
    with_columns,
)

CONFIGURED = 50_000.0


def audited(enforced: Bound, seed: int = 1, *, is_fetch: bool = False) -> SensorDecisions:
    return misplaced(history(enforced, constant(CONFIGURED), seed=seed, is_fetch=is_fetch), seed)


def whole(of: SensorDecisions) -> Stretch:
    return Stretch(0, len(of), 0, len(of))


def told(of: SensorDecisions, *quotas: OtherQuota) -> Explanation:
    explanation = explain_by_steps(of, whole(of), quotas)
    assert explanation is not None
    return explanation


@settings(max_examples=20)
@given(st.floats(0.8, 2.0).filter(lambda f: abs(f - 1) > 0.05), st.integers(0, 10_000))
def test_steps_tell_the_quota_of_throttles_that_no_replay_explains(
    factor: float, seed: int
) -> None:
    of = audited(constant(CONFIGURED * factor), seed)
    assert not any(explain_stretch(of, found) for found in find_stretches(of, 5, 10))
    explanation = told(of)
    assert explanation.winner.hypothesis == UNKNOWN_QUOTA
    assert explanation.winner.bound == pytest.approx(CONFIGURED * factor, rel=0.01)
    assert explanation.winner.share - explanation.configured.share > 0.5
    assert explanation.evidence >= explanation.winner.explained


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_steps_of_a_sound_broker_are_of_the_configured_quota(seed: int) -> None:
    of = audited(constant(CONFIGURED), seed)
    assert find_stretches(of, 5, 10)
    assert explain_by_steps(of, whole(of), ()) is None


def test_a_known_value_is_told_as_such() -> None:
    former = OtherQuota(PREVIOUS_QUOTA, 54_000.0, "user", START_MS, START_MS + 20_000)
    winner = told(audited(constant(54_000.0)), former).winner
    assert (winner.hypothesis, winner.bound, winner.detail) == (PREVIOUS_QUOTA, 54_000.0, "user")


def test_a_stretch_is_told_until_the_broker_goes_by_the_configured_quota() -> None:
    of = audited(changing(54_000.0, 30_000, CONFIGURED))
    first = Stretch(50, 90, 0, len(of))
    explanation = explain_by_steps(of, first, ())
    assert explanation is not None
    at_ms = of.recorded_at_ms[[explanation.stretch.first, explanation.stretch.end - 1]] - START_MS
    assert at_ms[0] < 10_000
    assert at_ms[1] == pytest.approx(30_000, abs=2_000)


def test_requests_of_one_size_fit_any_quota() -> None:
    of = audited(constant(54_000.0))
    steps = throttle_steps(of, slice(0, len(of)))
    # Of 10,000 B each, and as far apart as at 54,000 B/s: a constant delay says the same.
    amount = np.full(len(of), 10_000.0)
    logged_ms = of.logged_ms.copy()
    for row in steps.row.tolist():
        later_ms = int(of.log_time_ms[row] - of.log_time_ms[row - 1])
        logged_ms[row] = logged_ms[row - 1] + round(10_000 / 54.0) - later_ms
    alike = with_columns(of, amount=amount, logged_ms=np.maximum(logged_ms, 0))
    assert explain_by_steps(alike, whole(alike), ()) is None


def test_few_steps_tell_nothing() -> None:
    of = audited(constant(54_000.0))
    steps = throttle_steps(of, slice(0, len(of)))
    few = Stretch(0, int(steps.row[8]) + 1, 0, len(of))
    assert explain_by_steps(of, few, ()) is None


def test_neither_un_recorded_fetches_nor_throttles_of_two_quotas_make_steps() -> None:
    fetched = audited(constant(54_000.0), is_fetch=True)
    shared = audited(constant(54_000.0))
    shared = with_columns(shared, request_throttle_max_ms=np.full(len(shared), 1_000))
    for of in (fetched, shared):
        assert (of.logged_ms > 0).any()
        assert not len(throttle_steps(of, slice(0, len(of))).row)


def test_steps_are_in_the_order_of_lines() -> None:
    of = audited(constant(54_000.0))
    expected = told(of)
    # Placed far from their lines, and so in another order.
    moved_ms = np.random.default_rng(1).permutation(of.recorded_at_ms)
    placed = with_columns(of, recorded_at_ms=moved_ms)
    assert told(placed).winner == expected.winner
