from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.judge.causes.hypotheses import (
    Explanation,
    OtherQuota,
    OtherReplay,
    estimate_bound,
    explain_stretch,
)
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretches import find_stretches
from spark_jobs.quota.codes import OTHER_LEVEL, PREVIOUS_QUOTA
from tests.spark_jobs.judge.causes.sensor_builder import (
    START_MS,
    changing,
    constant,
    history,
    with_columns,
)

FORMER = OtherQuota(PREVIOUS_QUOTA, 50_000.0, "user", START_MS, START_MS + 20_000)
DEFAULT_USER = OtherQuota(OTHER_LEVEL, 45_000.0, "default-user", 0, None)


def explained(
    of: SensorDecisions, *quotas: OtherQuota, replays: list[OtherReplay] | None = None
) -> list[Explanation]:
    stretches = find_stretches(of, 5, 10)
    tried = (explain_stretch(of, s, quotas, replays or []) for s in stretches)
    return [explanation for explanation in tried if explanation]


def only(of: SensorDecisions, *quotas: OtherQuota) -> Explanation:
    (explanation,) = explained(of, *quotas)
    return explanation


def test_a_broker_that_does_as_configured_needs_no_hypothesis() -> None:
    honest = history(constant(50_000.0), constant(50_000.0))
    assert (honest.logged_ms > 0).sum() > 50
    assert explained(honest, FORMER, DEFAULT_USER) == []


@settings(max_examples=10)
@given(
    st.floats(0.3, 3.0).filter(lambda f: abs(f - 1) > 0.03),
    st.integers(0, 10_000),
    st.integers(10_000, 80_000),
)
def test_an_unknown_quota_is_estimated_from_the_throttles_alone(
    factor: float, seed: int, enforced: int
) -> None:
    lied_to = history(constant(enforced), constant(enforced * factor), seed=seed, seconds=30)
    explanation = only(lied_to)
    assert explanation.winner.hypothesis == "unknown_quota"
    assert explanation.winner.bound == pytest.approx(enforced, rel=0.001)
    assert explanation.winner.share > 0.95
    assert explanation.winner.share - explanation.configured.share > 0.8
    assert explanation.margin > 0
    assert explanation.is_fault


def test_an_estimated_quota_is_as_round_as_the_throttles_allow() -> None:
    assert only(history(constant(40_000.0), constant(50_000.0))).winner.bound == 40_000.0
    assert only(history(constant(41_230.0), constant(50_000.0))).winner.bound == 41_230.0


def test_half_of_the_throttles_may_be_off_and_the_estimate_stands() -> None:
    lied_to = history(constant(40_000.0), constant(50_000.0))
    noisy = lied_to.logged_ms.copy()
    noisy[::3] += np.where(noisy[::3] > 0, 700, 0)
    estimate = estimate_bound(with_columns(lied_to, logged_ms=noisy), slice(0, len(noisy)))
    assert estimate is not None
    assert estimate.bound == pytest.approx(40_000.0, rel=0.02)


@pytest.mark.parametrize(("seconds", "is_told"), [(30, False), (60, True)])
def test_many_throttles_to_the_millisecond_are_told_though_none_alone_is_wrong(
    seconds: int, *, is_told: bool
) -> None:
    lied_to = history(constant(40_000.0), constant(50_000.0), seconds=seconds)
    assert not lied_to.is_wrong.any()
    told = np.flatnonzero(lied_to.logged_ms > 0)
    noisy = lied_to.logged_ms.copy()
    noisy[told[::7]] += 700
    found = explained(with_columns(lied_to, logged_ms=noisy))
    assert [each.winner.hypothesis for each in found] == ["unknown_quota"] * is_told
    assert all(each.winner.share < 0.9 for each in found)


def test_a_late_change_is_the_previous_quota_until_it_arrives() -> None:
    late = history(changing(50_000.0, 45_000, 30_000.0), changing(50_000.0, 20_000, 30_000.0))
    explanation = only(late, FORMER, DEFAULT_USER)
    assert (explanation.winner.hypothesis, explanation.winner.bound) == (PREVIOUS_QUOTA, 50_000.0)
    at_ms = late.recorded_at_ms - START_MS
    assert at_ms[explanation.stretch.first] == at_ms[at_ms >= 20_000].min()
    assert at_ms[explanation.stretch.end - 1] == at_ms[at_ms < 45_000].max()
    # The same value without its history is an unknown one: it is not a second explanation.
    assert explanation.runner_up.hypothesis not in (PREVIOUS_QUOTA, "unknown_quota")


def test_the_value_of_another_level_is_named_before_an_unknown_one() -> None:
    explanation = only(history(constant(45_000.0), constant(30_000.0)), FORMER, DEFAULT_USER)
    assert explanation.winner.hypothesis == OTHER_LEVEL
    assert explanation.winner.detail == "default-user"


def test_a_removed_quota_that_still_throttles_is_the_previous_one() -> None:
    removed = history(constant(50_000.0), changing(50_000.0, 20_000, float("nan")))
    explanation = only(removed, FORMER)
    assert explanation.winner.hypothesis == PREVIOUS_QUOTA
    assert explanation.configured.share == 0.0


def test_a_quota_of_which_nothing_is_enforced_is_not_an_unknown_one() -> None:
    explanation = only(history(constant(float("nan")), constant(50_000.0)), FORMER)
    assert explanation.winner.hypothesis == "not_enforced"
    assert explanation.winner.share == 1.0
    assert explanation.estimate is None


@pytest.mark.parametrize(("sample_ms", "is_told"), [(1_000, True), (11_000, False)])
def test_a_lost_state_is_no_rival_where_nothing_is_throttled_for_two_samples(
    sample_ms: int, *, is_told: bool
) -> None:
    free = history(changing(50_000.0, 40_000, float("nan")), constant(50_000.0))
    (stretch,) = find_stretches(free, 5, 10)
    nothing = np.zeros(len(free))
    lost = OtherReplay("state_lost", "rate_3_8", nothing, free.window_size_ms, stretch.rows)
    found = explain_stretch(free, stretch, replays=[lost], sample_ms=sample_ms)
    assert (found is not None) == is_told
    assert found is None or found.winner.hypothesis == "not_enforced"


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_the_bound_of_fetches_is_found_by_what_the_client_reads_next(factor: float) -> None:
    fetches = history(constant(40_000.0), constant(40_000.0 * factor), is_fetch=True)
    assert fetches.is_unrecorded.sum() > 30
    explanation = only(fetches.with_attempts())
    assert explanation.winner.bound == pytest.approx(40_000.0, rel=0.002)


def test_honest_fetches_need_no_hypothesis() -> None:
    fetches = history(constant(40_000.0), constant(40_000.0), is_fetch=True)
    assert explained(fetches.with_attempts()) == []


def test_a_fetch_after_which_nothing_was_read_is_no_evidence() -> None:
    fetches = history(constant(40_000.0), constant(40_000.0), is_fetch=True)
    cut = with_columns(fetches, answered=np.full(len(fetches), np.nan)).with_attempts()
    assert np.isnan(cut.rate[fetches.is_unrecorded]).all()
    assert find_stretches(cut, 5, 1) == []


def test_missing_lines_accuse_nobody() -> None:
    lossy = history(constant(50_000.0), constant(50_000.0), lost_share=0.05)
    assert find_stretches(lossy, 5, 10)
    assert not any(e.is_fault for e in explained(lossy))
    told = with_columns(lossy, lost_amount_max=np.full(len(lossy), 60_000.0))
    assert {e.winner.hypothesis for e in explained(told)} == {"lines_missing"}


def test_missing_lines_do_not_excuse_more_than_their_size() -> None:
    lied_to = history(constant(40_000.0), constant(50_000.0))
    told = with_columns(lied_to, lost_amount_max=np.full(len(lied_to), 15_000.0))
    assert only(told).winner.hypothesis == "unknown_quota"


def test_a_request_quota_explains_longer_throttles_of_one_window_at_most() -> None:
    plain = history(constant(50_000.0), constant(50_000.0), amount=4_000.0)
    longer = with_columns(
        plain,
        logged_ms=np.maximum(plain.logged_ms, 200 + np.arange(len(plain)) * 7919 % 800),
        request_throttle_max_ms=np.full(len(plain), 1000),
    )
    assert only(longer).winner.hypothesis == "request_quota"
    assert not only(longer).is_fault
    beyond = with_columns(longer, logged_ms=longer.logged_ms + 900)
    assert "request_quota" not in {e.winner.hypothesis for e in explained(beyond)}


def test_requests_before_the_end_of_their_throttle_are_counted_by_connection() -> None:
    honest = history(constant(50_000.0), constant(50_000.0))
    assert honest.early_ms().max() == 0
    deaf = with_columns(honest, logged_ms=honest.logged_ms + 500)
    assert (deaf.early_ms() > 100).mean() > 0.9


def test_a_broker_that_reads_throttled_connections_is_told_by_early_requests() -> None:
    honest = history(constant(50_000.0), constant(50_000.0))
    odd = 500 + np.arange(len(honest)) * 7919 % 900
    deaf = with_columns(honest, logged_ms=honest.logged_ms + odd)
    assert only(deaf).winner.hypothesis == "client_ignores_throttle"
