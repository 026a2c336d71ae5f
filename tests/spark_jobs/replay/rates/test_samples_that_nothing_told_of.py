"""Throttles tell how samples began that nothing told of for long."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.stream_logs import PRODUCER, Row, decided, produce, produces_of

BOUND = 100_000.0
CLIENTS, LOUD_MS, UNTIL_MS = 20, 15_000, 25_000


def quiet_then_loud(rules: BrokerRules, seed: int) -> list[Row]:
    """Return the produces of clients that come each 200 ms; the first of them begins all samples.

    Whether a whole window is over by then hangs on a millisecond, which no line tells.
    """
    rng = np.random.default_rng(seed)
    phases_ms = np.arange(0, 200, 200 // CLIENTS)
    turns = np.arange(0, UNTIL_MS, 200)[:, np.newaxis] + phases_ms
    late_ms = rng.integers(0, 2, turns.shape) * (phases_ms > 0)
    times_ms = np.sort((turns + late_ms).ravel())
    rate = Rate(rules.profile, rules.samples, rules.window_ms)
    rows: list[Row] = []
    for at_ms in times_ms.tolist():
        size = float(rng.integers(100, 1_000)) * (3 if at_ms >= LOUD_MS else 1)
        rate.record(size, at_ms)
        thrown_ms = throttle_time_ms(rate.measure(at_ms), BOUND, rate.window_size_ms(at_ms))
        row = produce(at_ms, size, bound=BOUND, logged_throttle_time_ms=max(thrown_ms, 0))
        near_ms = {"recorded_at_ms": -1, "earliest_ms": -2, "latest_ms": 0, "likely_from_ms": -1}
        rows.append(row | {name: row["recorded_at_ms"] + by_ms for name, by_ms in near_ms.items()})
    return rows


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
@pytest.mark.parametrize("lies", [0, 5])
def test_samples_of_long_before_the_first_throttle_begin_as_throttles_tell(
    profile: RateProfile, lies: int
) -> None:
    """By the sample that is held the second request begins the next one, but the first one did."""
    rules = BrokerRules(profile, 11, 1000, 11, 1000)
    rows = quiet_then_loud(rules, seed=1)
    throttled = [i for i, row in enumerate(rows) if row["logged_throttle_time_ms"]]
    lying = throttled[100 : 100 + 10 * lies : 10]
    for i in lying:
        rows[i]["logged_throttle_time_ms"] += 500
    key = SensorKey(1, PRODUCER, rows[0]["quota_user"], rows[0]["quota_client_id"])
    held = CarriedState(0, 40, 0, ((NOON_MS - 996, NOON_MS - 17, 5_000.0),))
    found = decided(produces_of(rules, {key: held}), rows)
    wrong = {row["source_line"] for row in found if row["verdict"] in WRONG_VERDICTS}
    assert wrong == {rows[i]["source_line"] for i in lying}
    # One comes just as a sample leaves: its line does not tell which was first.
    assert sum(row["verdict"] == "agree" for row in found) >= len(found) - len(lying) - 1
