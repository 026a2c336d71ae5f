from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.judge.causes.hypotheses import OtherReplay, explain_stretch
from spark_jobs.judge.causes.other_replays import lost_at, lost_state, other_profiles
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretches import Stretch, find_stretches, losses_before, losses_between
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from tests.spark_jobs.judge.causes.sensor_builder import START_MS, constant, history

RULES = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)


@pytest.mark.parametrize("is_fetch", [False, True])
def test_another_rate_profile_is_told_by_its_throttles(is_fetch: bool) -> None:
    older = history(
        constant(50_000.0),
        constant(50_000.0),
        broker_profile=RateProfile.RATE_3_3,
        is_fetch=is_fetch,
    ).with_attempts()
    stretches = find_stretches(older, 5, 10)
    assert stretches
    replays = other_profiles(older, RULES)
    told = [explain_stretch(older, s, (), replays) for s in stretches]
    assert {(t.winner.hypothesis, t.winner.detail) for t in told if t} == {
        ("other_rate_profile", "rate_3_3")
    }


def test_a_replay_by_the_same_profile_is_the_replay() -> None:
    honest = history(constant(50_000.0), constant(50_000.0), broker_profile=RateProfile.RATE_3_8)
    as_older = BrokerRules(RateProfile.RATE_3_3, 11, 1000, 11, 1000)
    same = next(r for r in other_profiles(honest, as_older) if r.detail == "rate_3_8")
    np.testing.assert_array_equal(same.rate, honest.rate)
    np.testing.assert_array_equal(same.window_size_ms, honest.window_size_ms)


def lost(of: SensorDecisions, stretch: Stretch, losses: range) -> tuple[int, OtherReplay]:
    first = lost_at(of, stretch, RULES, losses)
    assert first is not None
    return first, lost_state(of, stretch, RULES, first)


def test_a_lost_state_is_told_until_the_windows_have_passed() -> None:
    forgetful = history(constant(50_000.0), constant(50_000.0), forgets_at_ms=30_000)
    (stretch,) = find_stretches(forgetful, 5, 10)
    losses = losses_before(forgetful, stretch, 5, memory_ms=13_000)
    first, replay = lost(forgetful, stretch, losses)
    # A sample begun at another record looks the same: nothing is told without a wrong decision.
    assert explain_stretch(forgetful, stretch, (), [replay]) is None
    accused = replace(forgetful, is_wrong=forgetful.logged_ms == 0)
    explanation = explain_stretch(accused, stretch, (), [replay])
    assert explanation is not None
    assert explanation.winner.hypothesis == "state_lost"
    assert explanation.winner.share > 0.95
    assert 29_000 < forgetful.recorded_at_ms[stretch.first] - START_MS < 33_000
    before, since = forgetful.recorded_at_ms[first - 1 : first + 1] - START_MS
    assert before < 30_000 <= since


@pytest.mark.parametrize(("known_ms", "is_told"), [(29_990, True), (50_000, False)])
def test_a_loss_that_another_sensor_tells_needs_no_wrong_decision(
    known_ms: int, *, is_told: bool
) -> None:
    forgetful = history(constant(50_000.0), constant(50_000.0), forgets_at_ms=30_000)
    (stretch,) = find_stretches(forgetful, 5, 10)
    known = (START_MS + known_ms, START_MS + known_ms + 60)
    losses = losses_between(forgetful, stretch, [known])
    assert bool(losses) == is_told
    if is_told:
        _, replay = lost(forgetful, stretch, losses)
        assert explain_stretch(forgetful, stretch, (), [replay]) is None
        told = explain_stretch(forgetful, stretch, (), [replay], is_loss_known=True)
        assert told is not None
        assert told.winner.hypothesis == "state_lost"


def test_a_known_loss_explains_no_other_deviation() -> None:
    late = history(constant(50_000.0), constant(40_000.0))
    (stretch, *_) = find_stretches(late, 5, 10)
    at_ms = int(late.recorded_at_ms[stretch.first]) - 500
    _, replay = lost(late, stretch, losses_between(late, stretch, [(at_ms, at_ms + 100)]))
    told = explain_stretch(late, stretch, (), [replay], is_loss_known=True)
    assert told is None or told.winner.hypothesis != "state_lost"
