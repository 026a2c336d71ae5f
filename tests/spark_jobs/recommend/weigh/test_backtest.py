"""The backtest replays as the replay does, and a value above the peak lets everything through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.recommend.weigh.backtest import BrokerRule, broker_rules, throttle_with
from spark_jobs.recommend.weigh.observation import observe
from spark_jobs.recommend.weigh.traffic import QuotaSensor, SensorTraffic, split_by_sensor
from tests.builders.tables_builder import NOON_MS, Row, row, table_of
from tests.spark_jobs.recommend.day import fetches, mutations, produces, steady

# The first example compiles the kernel, which takes seconds: no deadline.
rule_settings = settings(max_examples=25)
profiles = st.sampled_from(list(RateProfile))
bounds = st.sampled_from([100.0, 1_000.0, 7_777.0])
# Gaps below, at and above a sample, a window of 11 and the end of everything remembered.
gaps_ms = st.sampled_from([0, 1, 40, 999, 1_000, 1_001, 3_700, 10_999, 11_000, 12_001, 40_000])
amounts = st.integers(0, 30_000).map(float)


@st.composite
def recorded(draw: st.DrawFn, values: st.SearchStrategy[float] = amounts) -> list[tuple]:
    gaps = draw(st.lists(gaps_ms, min_size=1, max_size=40))
    times = np.cumsum(gaps).tolist()
    return [(at_ms, draw(values)) for at_ms in times]


def rule(profile: RateProfile = RateProfile.RATE_3_8) -> BrokerRule:
    return BrokerRule(profile, 11, 1000, 11, 1000)


def traffic_of(rows: list[Row]) -> SensorTraffic:
    (traffic,) = split_by_sensor(table_of("decisions", rows))
    return traffic


def throttles(rows: list[Row], bound: float, profile: RateProfile = RateProfile.RATE_3_8) -> list:
    return throttle_with(traffic_of(rows), bound, {1: rule(profile), 2: rule(profile)}).tolist()


def replayed(rows: list[Row]) -> list[int]:
    return [r["replayed_throttle_time_ms"] or 0 for r in rows]


def peak_rate(rows: list[Row], profile: RateProfile = RateProfile.RATE_3_8) -> float:
    traffic = traffic_of(rows)
    sensor = QuotaSensor(traffic.key, len(rows), rows[-1]["recorded_at_ms"], "user", 1.0)
    return observe(sensor, traffic, 1, {1: rule(profile)}).hottest.peak_rate


@given(recorded(), bounds, profiles)
@rule_settings
def test_with_the_present_value_producers_are_throttled_as_in_the_replay(
    day: list, bound: float, profile: RateProfile
) -> None:
    rows = produces(day, bound, profile)
    assert throttles(rows, bound, profile) == replayed(rows)


@given(recorded(st.integers(0, 5_000).map(float)), bounds, profiles)
@rule_settings
def test_with_the_present_value_consumers_are_throttled_as_in_the_replay(
    day: list, bound: float, profile: RateProfile
) -> None:
    # A fetch above ten seconds of its quota never goes through (KAFKA-9677): not such ones.
    rows = fetches([(at_ms, min(amount, 9 * bound)) for at_ms, amount in day], bound, profile)
    assert throttles(rows, bound, profile) == replayed(rows)


@given(recorded(st.integers(1, 60).map(float)), st.sampled_from([0.5, 2.0, 10.0]), st.booleans())
@rule_settings
def test_with_the_present_value_mutations_are_decided_as_in_the_replay(
    day: list, bound: float, is_strict: bool
) -> None:
    rows = mutations(day, bound, is_strict=is_strict)
    assert throttles(rows, bound) == replayed(rows)


@given(recorded(), bounds, profiles, st.sampled_from([1.0, 1.01, 3.0]))
@rule_settings
def test_a_value_at_or_above_the_peak_rate_never_throttles_a_producer(
    day: list, bound: float, profile: RateProfile, factor: float
) -> None:
    rows = produces(day, bound, profile)
    peak = peak_rate(rows, profile)
    assert not any(throttles(rows, max(peak * factor, 1.0), profile))


@given(recorded(st.integers(1, 60).map(float)), st.sampled_from([0.5, 2.0]), st.booleans())
@rule_settings
def test_a_value_at_or_above_the_peak_rate_never_refuses_a_mutation(
    day: list, bound: float, is_strict: bool
) -> None:
    rows = mutations(day, bound, is_strict=is_strict)
    # A hair of headroom: tokens are added up in another order than the rolling rate.
    assert not any(throttles(rows, peak_rate(rows) * (1 + 1e-9)))


@given(recorded(), bounds, st.sampled_from([0.3, 0.9, 1.0]))
@rule_settings
def test_a_producer_is_throttled_the_longer_the_lower_the_value(
    day: list, bound: float, factor: float
) -> None:
    rows = produces(day, bound)
    lower, higher = throttles(rows, bound * factor), throttles(rows, bound)
    assert all(low >= high for low, high in zip(lower, higher, strict=True))


def test_attempts_that_repeat_a_throttled_fetch_vanish_once_the_first_goes_through() -> None:
    rows = fetches(steady(40_000.0, seconds=30, per_second=2), bound=10_000.0)
    attempts, asks = len(rows), 60
    assert attempts > asks
    # Twice what was delivered per second of the slowed day, but only as much as was asked for.
    assert not any(throttles(rows, bound=45_000.0))


def test_a_consumer_still_throttled_by_the_proposal_is_replayed_attempt_by_attempt() -> None:
    rows = fetches(steady(40_000.0, seconds=30, per_second=2), bound=10_000.0)
    before, after = sum(replayed(rows)), sum(throttles(rows, bound=10_100.0))
    assert 0 < after < before


def test_where_no_value_was_in_force_the_proposal_is_not_either() -> None:
    free = produces(steady(50_000.0, seconds=20), bound=None)
    assert not any(throttles(free, bound=1_000.0))


def test_every_broker_has_the_value_for_itself() -> None:
    day = steady(900.0, seconds=60)
    rows = produces(day, 1_000.0, broker_id=1) + produces(day, 1_000.0, broker_id=2)
    assert not any(throttles(rows, bound=1_000.0))
    together = throttles(produces(sorted(day + day), 1_000.0), bound=1_000.0)
    assert any(together)


def test_a_restarted_broker_has_forgotten_what_it_had_recorded() -> None:
    before, after = produces([(0, 9_000.0)], 1_000.0), produces([(100, 9_000.0)], 1_000.0)
    restarted = before + [r | {"sensor_epoch": 1} for r in after]
    assert not any(throttles(restarted, bound=1_000.0))
    assert any(throttles(before + [r | {"sensor_seq": 1} for r in after], bound=1_000.0))


def test_a_request_quota_throttles_for_one_window_at_most() -> None:
    rows = produces([(0, 500.0)], 1.0, quota_type="request_percentage")
    assert throttles(rows, bound=1.0) == [1_000]


def test_a_broker_of_unknown_profile_follows_the_newest() -> None:
    brokers = table_of("brokers", [row("brokers", rate_profile=None)])
    assert broker_rules(brokers)[1].profile is RateProfile.RATE_3_8


def test_decisions_of_a_broker_without_rules_are_an_error() -> None:
    with pytest.raises(KeyError):
        throttles(produces([(0, 1.0)], 1.0, broker_id=3), bound=1.0)


def fetch(seq: int, after_ms: int, amount: float, throttle_ms: int) -> Row:
    return row(
        "decisions",
        quota_type="consumer_byte_rate",
        api_name="FETCH",
        sensor_seq=seq,
        recorded_at_ms=NOON_MS + after_ms,
        amount=amount,
        bound=1_000.0,
        is_unrecorded=throttle_ms > 0,
        logged_throttle_time_ms=throttle_ms,
        replayed_throttle_time_ms=throttle_ms,
    )


def test_what_was_asked_twice_counts_once_also_where_the_proposal_throttles() -> None:
    rows = [fetch(0, 0, 15e3, 5_000), fetch(1, 5_000, 15e3, 0), fetch(2, 6_000, 9e3, 0)]
    # 24,000 bytes in ten seconds against 2,000 a second: two seconds too many.
    assert throttles(rows, bound=2_000.0) == [0, 0, 2_000]


def test_a_refused_mutation_that_is_tried_again_is_one_demand() -> None:
    rows = mutations([(0, 150.0), (1, 60.0)], bound=10.0)
    assert len(rows) == 3
    assert peak_rate(rows) == pytest.approx((150.0 + 60.0) / 11.0)
