"""A log that begins amid a sensor's requests does not tell what they had recorded before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import remembered_ms
from spark_jobs.replay.rates.fixed_times import ProduceFixing
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from tests.spark_jobs.replay.rates.stream_logs import Row, decided, produce, produces_of

BOUND = 100_000.0


def throttled(
    rules: BrokerRules, *, gap_ms: int, load: float, seed: int, until_ms: int
) -> list[Row]:
    """Return the produces of one steady client, a gap after each other, as a broker throttles."""
    rng = np.random.default_rng(seed)
    rate = Rate(rules.profile, rules.samples, rules.window_ms)
    rows: list[Row] = []
    at_ms = 0
    while at_ms < until_ms:
        size = float(int(load * BOUND * gap_ms / 1000 * rng.uniform(0.5, 1.5)))
        rate.record(size, at_ms)
        window_ms = rate.window_size_ms(at_ms)
        over = max(rate.measure(at_ms) - BOUND, 0.0) / BOUND * window_ms
        throttle_ms = int(over + 0.5)
        rows.append(produce(at_ms, size, bound=BOUND, logged_throttle_time_ms=throttle_ms))
        at_ms += gap_ms + min(throttle_ms, 2_000)
    return rows


def decided_from(
    rules: BrokerRules, rows: list[Row], begin_ms: int, set_again_ms: int = 0
) -> list[Row]:
    """Return the decisions of the rows from ``begin_ms`` on, of a log that begins with them.

    From ``set_again_ms`` on its clients may have had the quota before, or not.
    """
    told = [row for row in rows if row["recorded_at_ms"] >= begin_ms + rows[0]["recorded_at_ms"]]
    begun_ms = told[0]["recorded_at_ms"]
    known_ms = (begun_ms, begun_ms + set_again_ms)
    told = [
        row | {"known_for_ms": at_ms - max(ms for ms in known_ms if ms <= at_ms)}
        for row in told
        for at_ms in [row["recorded_at_ms"]]
    ]
    return decided(produces_of(rules), told)


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
@pytest.mark.parametrize(("gap_ms", "load"), [(25, 1.02), (40, 1.2), (264, 0.99)])
@pytest.mark.parametrize("begin_ms", [20_333, 31_777])
def test_nobody_is_accused_and_all_agree_once_what_was_held_before_has_left(
    profile: RateProfile, gap_ms: int, load: float, begin_ms: int
) -> None:
    rules = BrokerRules(profile, 11, 1000, 11, 1000)
    rows = throttled(rules, gap_ms=gap_ms, load=load, seed=begin_ms, until_ms=80_000)
    found = decided_from(rules, rows, begin_ms)
    assert not [row for row in found if row["verdict"] in WRONG_VERDICTS]
    known_ms = found[0]["recorded_at_ms"] + remembered_ms(rules.samples, rules.window_ms)
    known = [row for row in found if row["recorded_at_ms"] >= known_ms]
    assert any(row["logged_throttle_time_ms"] for row in known)
    assert np.mean([row["verdict"] == "agree" for row in known]) >= 0.99


def test_a_broker_that_remembers_for_a_minute_is_not_accused_by_the_first_minute() -> None:
    rules = BrokerRules(RateProfile.RATE_3_3, 31, 2000, 11, 1000)
    rows = throttled(rules, gap_ms=300, load=3.0, seed=7, until_ms=180_000)
    found = decided_from(rules, rows, 90_000)
    later = [r for r in found if r["recorded_at_ms"] > found[0]["recorded_at_ms"] + 13_000]
    assert any(r["logged_throttle_time_ms"] > r["replayed_throttle_time_ms"] + 1_000 for r in later)
    assert not [row for row in found if row["verdict"] in WRONG_VERDICTS]


def test_a_sensor_whose_first_request_the_log_holds_is_known_at_once() -> None:
    rules = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)
    rows = throttled(rules, gap_ms=40, load=1.5, seed=3, until_ms=30_000)
    found = decided_from(rules, rows, 0)
    assert {row["verdict"] for row in found} == {"agree"}


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
@pytest.mark.parametrize("set_again_ms", [0, 60_000])
def test_throttles_that_are_right_without_it_tell_that_nothing_was_held_before(
    profile: RateProfile, set_again_ms: int
) -> None:
    rules = BrokerRules(profile, 11, 1000, 11, 1000)
    rows = throttled(rules, gap_ms=5, load=1.5, seed=5, until_ms=set_again_ms + 40_000)
    known_ms = rows[0]["recorded_at_ms"] + set_again_ms
    owing = [
        i
        for i, row in enumerate(rows)
        if row["logged_throttle_time_ms"] > 0 and row["recorded_at_ms"] >= known_ms
    ]
    lies = [i for i in owing[10::15] if rows[i]["recorded_at_ms"] < known_ms + 12_500]
    assert len(lies) >= 3
    for lie in lies:
        rows[lie]["logged_throttle_time_ms"] += 700
    found = decided_from(rules, rows, 0, set_again_ms)
    assert {i for i, row in enumerate(found) if row["verdict"] in WRONG_VERDICTS} == set(lies)
    assert {row["verdict"] for i, row in enumerate(found) if i not in lies} == {"agree"}


def test_throttles_tell_of_a_sensor_that_a_sample_had_begun_in_before_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first sample began a millisecond before the first request, as throttles say."""
    rules = BrokerRules(RateProfile.RATE_3_3, 11, 1000, 11, 1000)
    rows = throttled(rules, gap_ms=5, load=1.5, seed=5, until_ms=40_000)
    first_ms = rows[0]["recorded_at_ms"]
    owing = [i for i, row in enumerate(rows) if row["logged_throttle_time_ms"] > 0]
    lies = [i for i in owing[10::15] if rows[i]["recorded_at_ms"] < first_ms + 12_500]
    for lie in lies:
        rows[lie]["logged_throttle_time_ms"] += 700
    as_found = ProduceFixing._found

    def begun_before(*given: Any, **how: Any) -> Any:
        return as_found(*given, **how)[0], first_ms - 1

    monkeypatch.setattr(ProduceFixing, "_found", begun_before)
    found = decided_from(rules, rows, 0)
    assert {found[lie]["verdict"] for lie in lies} == {"over_throttled"}
