"""Rates of another version are told by what all throttles of a day say together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.judge.causes.counting_trials import (
    CountingTrial,
    Counts,
    counted_otherwise,
    counting_trial,
)
from spark_jobs.judge.causes.other_replays import connections_apart, other_profiles
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions, fields_of, history_of
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from tests.spark_jobs.judge.causes.sensor_builder import START_MS, constant, history, with_columns

RULES = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)
CHANGE_MS = 1_000


def sensor(client_id: str, broker_id: int = 1) -> SensorKey:
    return SensorKey(broker_id, "producer_byte_rate", "", client_id)


def told(
    key: SensorKey, broker_profile: RateProfile = RateProfile.RATE_3_3, seconds: int = 60
) -> list[CountingTrial]:
    """Return the trials of a sensor on a broker that counts by this profile, audited as 3.8."""
    found = history(
        constant(50_000.0), constant(50_000.0), broker_profile=broker_profile, seconds=seconds
    )
    return [
        counting_trial(key, "rate_3_8", found, replay, CHANGE_MS)
        for replay in other_profiles(found, RULES)
    ]


def trial(counts: Counts, name: str = "a", broker_id: int = 1, tried: str = "x") -> CountingTrial:
    found = told(sensor("any"))[0].told
    assert found is not None
    found = replace(found, evidence=found.evidence | {"detail": tried})
    return CountingTrial(sensor(name, broker_id), "own", "other_rate_profile", tried, counts, found)


CLEAR = Counts(100, 95, 50, 50, 45, 20)
FEW = Counts(12, 11, 6, 6, 5, 1)


def test_a_sensor_counted_by_another_rate_is_told_for_as_long_as_it_lived() -> None:
    (found,) = counted_otherwise(told(sensor("a"))).values()
    assert (found.hypothesis, found.evidence["detail"]) == ("other_rate_profile", "rate_3_3")
    assert found.share >= 0.9
    assert found.until_ms - found.from_ms > 30_000


def test_a_sound_broker_counts_by_no_other_rate() -> None:
    assert counted_otherwise(told(sensor("a"), RateProfile.RATE_3_8)) == {}


@pytest.mark.parametrize("other_broker", [1, 2])
def test_what_a_sensor_says_too_little_of_is_told_by_those_of_its_broker_or_version(
    other_broker: int,
) -> None:
    assert counted_otherwise([trial(FEW)]) == {}
    pooled = counted_otherwise([trial(FEW), trial(CLEAR, "b", other_broker)])
    assert set(pooled) == {sensor("a"), sensor("b", other_broker)}


def test_a_sensor_whose_own_throttles_deviate_otherwise_is_not_told_by_others() -> None:
    otherwise = Counts(12, 6, 4, 8, 4, 1)
    assert set(counted_otherwise([trial(otherwise), trial(CLEAR, "b")])) == {sensor("b")}


@pytest.mark.parametrize(("throttles", "is_told"), [(5, True), (4, False)])
def test_throttles_of_a_rate_that_others_tell_are_of_it_where_most_were_placed_elsewhere(
    throttles: int, *, is_told: bool
) -> None:
    few = Counts(24, 14, 10, 14, 5, throttles)
    assert counted_otherwise([trial(few)]) == {}
    pooled = counted_otherwise([trial(few), trial(CLEAR, "b")])
    assert (sensor("a") in pooled) == is_told


def test_a_sensor_told_in_part_of_a_rate_that_others_tell_is_told_for_as_long_as_it_lived() -> None:
    # Placed by its broker's own rate, few of its throttles are where the other one has them.
    mine = trial(Counts(250, 90, 60, 190, 30, 4))
    part = mine.told
    assert part is not None
    in_part = [replace(part, key=sensor("a"))]
    others = [trial(CLEAR, name) for name in "bcdefg"]
    assert counted_otherwise([mine], in_part) == {}
    assert sensor("a") in counted_otherwise([mine, *others], in_part)
    of_another = [replace(part, key=sensor("a"), evidence=part.evidence | {"detail": "y"})]
    assert set(counted_otherwise([mine, *others], of_another)) == {sensor(n) for n in "bcdefg"}


@pytest.mark.parametrize(("throttles", "is_told"), [(50, True), (49, False)])
def test_so_many_throttles_of_another_rate_are_told_with_three_in_five_of_all(
    throttles: int, *, is_told: bool
) -> None:
    many = Counts(200, 125, 60, 100, 65, throttles)
    assert bool(counted_otherwise([trial(many)])) == is_told


@pytest.mark.parametrize(
    "counts",
    [
        Counts(100, 79, 30, 50, 45, 20),  # more than a fifth is explained by neither
        Counts(100, 95, 66, 34, 33, 20),  # the configured rate explains nearly as much
        Counts(20, 20, 11, 9, 9, 9),  # too few
        Counts(100, 95, 50, 50, 45, 4),  # nothing was throttled at all
    ],
)
def test_what_is_not_clear_is_not_told(counts: Counts) -> None:
    assert counted_otherwise([trial(counts)]) == {}


@pytest.mark.parametrize(
    ("left", "throttles", "is_told"), [(0, 2, True), (1, 2, False), (0, 1, False)]
)
def test_two_throttles_tell_of_a_connection_apart_where_nothing_else_is_left(
    left: int, throttles: int, *, is_told: bool
) -> None:
    few = Counts(20, 19 - left, 1, 19, 19 - left, throttles)
    apart = replace(trial(few), hypothesis="counted_apart")
    assert bool(counted_otherwise([apart])) == is_told
    assert not counted_otherwise([trial(few)])


@pytest.mark.parametrize(
    ("left", "throttles", "is_told"), [(2, 10, True), (3, 10, False), (2, 9, False)]
)
def test_where_no_decision_is_wrong_a_connection_apart_is_told_by_nearly_all_that_deviates(
    left: int, throttles: int, *, is_told: bool
) -> None:
    counts = Counts(40, 40 - left, 20, 20, 20 - left, throttles)
    apart = replace(trial(counts), hypothesis="counted_apart", is_accused=False)
    assert bool(counted_otherwise([apart])) == is_told


@pytest.mark.parametrize(
    ("free", "is_accused", "is_told"),
    [(10, True, True), (9, True, False), (20, False, True), (19, False, False)],
)
def test_a_connection_that_is_free_between_throttles_of_the_others_is_told(
    free: int, *, is_accused: bool, is_told: bool
) -> None:
    counts = Counts(27, 26, 0, 27, 26, 2, free)
    apart = replace(trial(counts), hypothesis="counted_apart", is_accused=is_accused)
    assert bool(counted_otherwise([apart])) == is_told


@pytest.mark.parametrize(("other", "free"), [(1, 60), (6, 60), (7, 0)])
def test_only_a_connection_that_is_free_alone_is_free(other: int, free: int) -> None:
    # East is free between throttles of north but for its first time; so is south, a few times.
    n = 61 + other
    connection = np.zeros(2 * n + 1, int)
    connection[1::2] = [1] * 61 + [2] * other
    found = history_of(
        recorded_at_ms=np.arange(2 * n + 1) * 10 + START_MS,
        connection=connection,
        amount=1.0,
        bound=1_000.0,
        rate=1_100.0,
        logged_ms=np.where(connection == 0, 700, 0),
        is_wrong=True,
    )
    replays = {r.detail: r for r in connections_apart(found, CONNECTIONS[:3], RULES)}
    trial = counting_trial(sensor("a"), "rate_3_8", found, replays["east"], CHANGE_MS)
    assert trial.counts.free == free


def test_of_two_rates_the_one_that_explains_more_is_told_of_alike_ones_the_first() -> None:
    more = Counts(100, 99, 50, 50, 49, 20)
    for older, detail in ((CLEAR, "newer"), (more, "older")):
        trials = [trial(CLEAR, tried="newer"), trial(older, tried="older")]
        (found,) = counted_otherwise(trials).values()
        assert found.evidence["detail"] == detail


def test_throttles_that_a_request_quota_may_have_thrown_tell_nothing() -> None:
    older = history(constant(50_000.0), constant(50_000.0), broker_profile=RateProfile.RATE_3_3)
    n = len(older)
    shared = history_of(**{**fields_of(older), "request_throttle_max_ms": np.full(n, 1_000)})
    (replay, *_) = other_profiles(shared, RULES)
    assert counting_trial(sensor("a"), "rate_3_8", shared, replay, CHANGE_MS).counts == Counts()


CONNECTIONS = ["north", "east", "south", "west"]


def told_apart(of: SensorDecisions) -> list[tuple[str, str]]:
    """Return what is told of a sensor of four connections: the hypothesis, and the connection."""
    trials = [
        counting_trial(sensor("a"), "rate_3_8", of, replay, CHANGE_MS)
        for replay in connections_apart(of, CONNECTIONS, RULES)
    ]
    found = counted_otherwise(trials).values()
    return [(one.hypothesis, one.evidence["detail"]) for one in found]


@pytest.mark.parametrize("is_fetch", [False, True])
@pytest.mark.parametrize("apart", [0, 3])
def test_a_connection_that_is_counted_apart_is_told_by_name(apart: int, *, is_fetch: bool) -> None:
    split = history(constant(50_000.0), constant(50_000.0), apart=apart, is_fetch=is_fetch)
    assert told_apart(split.with_attempts()) == [("counted_apart", CONNECTIONS[apart])]


@pytest.mark.parametrize("enforced", [50_000.0, 40_000.0, 70_000.0, 1e9])
def test_another_quota_is_no_connection_counted_apart(enforced: float) -> None:
    assert told_apart(history(constant(enforced), constant(50_000.0))) == []


def test_a_connection_whose_own_throttles_tell_enough_needs_not_all_of_the_others() -> None:
    split = history(constant(50_000.0), constant(50_000.0), apart=0)
    # Two in three of the others were placed where another throttle is due.
    is_off = (split.connection != 0) & (np.arange(len(split)) % 3 > 0)
    shifted = with_columns(split, rate=np.where(is_off, split.rate + 700, split.rate))
    (replay, *_) = connections_apart(split, CONNECTIONS, RULES)
    off = replace(replay, rate=np.where(is_off, replay.rate + 700, replay.rate))
    trial = counting_trial(sensor("a"), "rate_3_8", shifted, off, CHANGE_MS)
    assert trial.counts.is_clear
    assert trial.counts.explained == trial.counts.decisions
    assert trial.counts.decisions <= np.count_nonzero(split.connection == 0)


def test_the_only_connection_of_a_sensor_is_apart_from_none() -> None:
    found = history(constant(50_000.0), constant(50_000.0))
    assert connections_apart(found, ["all"], RULES) == []


def test_a_connection_is_tried_from_its_first_request_until_its_last_is_forgotten() -> None:
    found = history(constant(50_000.0), constant(50_000.0), seconds=90)
    at_ms = found.recorded_at_ms - START_MS
    is_brief = (found.connection == 0) & ((at_ms < 20_000) | (at_ms > 40_000))
    brief = with_columns(found, connection=np.where(is_brief, 1, found.connection))
    replays = connections_apart(brief, CONNECTIONS, RULES)
    (rows,) = [r.rows for r in replays if r.detail == "north"]
    assert at_ms[rows.start] >= 20_000
    assert 52_000 < at_ms[rows.stop - 1] < 53_000
