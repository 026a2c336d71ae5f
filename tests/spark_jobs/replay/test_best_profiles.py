"""Which rate profile a log speaks for."""

from __future__ import annotations

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.broker_rules import ProfileScore, best_profiles


def score(profile: RateProfile, within_1ms: int, throttled: int = 100) -> ProfileScore:
    return ProfileScore(1, profile, 1000, 990, throttled, within_1ms)


OLD, MIDDLE, NEW = RateProfile


def test_the_profile_with_most_exact_throttles_is_the_best() -> None:
    assert best_profiles([score(OLD, 60), score(MIDDLE, 60), score(NEW, 90)]) == {1: (NEW,)}


def test_profiles_that_explain_a_log_equally_well_are_all_named() -> None:
    assert best_profiles([score(OLD, 90), score(MIDDLE, 90), score(NEW, 60)]) == {1: (OLD, MIDDLE)}


def test_a_log_that_all_explain_alike_speaks_for_none() -> None:
    assert best_profiles([score(p, 60) for p in RateProfile]) == {}
    assert best_profiles([score(p, 0, throttled=0) for p in RateProfile]) == {}
