from __future__ import annotations

import math

import pytest
from hypothesis import given

from spark_jobs.quota.kernels import replay_rate, replay_token_bucket
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import UNTOUCHED, BucketState, SensorStates
from tests.spark_jobs.quota.amounts import (
    RATE_COLUMNS,
    SENSORS,
    RateRow,
    Settings,
    columns,
    rate_rows,
    settings,
)

T = 1_700_000_000_000
RATE_3_3, RATE_3_8 = RateProfile.RATE_3_3, RateProfile.RATE_3_8


def one_sensor(profile: RateProfile = RATE_3_8, samples: int = 2) -> SensorStates:
    return SensorStates.allocate([profile], [samples], [1000])


def test_a_new_sensor_exports_nothing_recorded() -> None:
    assert one_sensor().export(0) == (0, [], UNTOUCHED)


def test_there_are_no_sensors_of_nothing() -> None:
    assert len(SensorStates.allocate([], [], [])) == 0


@given(settings=settings(), rows=rate_rows())
def test_restore_is_the_reverse_of_export(settings: Settings, rows: list[RateRow]) -> None:
    states = settings.states()
    replay_rate(*columns(rows, RATE_COLUMNS), *states.rate_arrays())
    restored = settings.states()
    for sensor in range(SENSORS):
        exported = states.export(sensor)
        restored.restore(sensor, *exported)
        assert restored.export(sensor) == exported


def test_tokens_that_are_not_known_are_handed_on_as_what_they_may_be() -> None:
    states = one_sensor()
    spend_unknown = ([0], [T], [math.nan], [10.0], [1], [1])
    replay_token_bucket(*spend_unknown, *states.bucket_arrays())
    index, samples, bucket = states.export(0)
    assert (bucket.tokens_min, bucket.tokens_max) == (-math.inf, 20.0)
    assert math.isnan(bucket.tokens)
    restored = one_sensor()
    restored.restore(0, index, samples, BucketState.of(bucket.tokens, bucket.last_update_ms))
    spend_one = ([0], [T + 60_000], [1.0], [10.0], [1], [1])
    replayed = replay_token_bucket(*spend_one, *restored.bucket_arrays())
    assert not replayed.is_state_known[0]
    assert replayed.tokens_before[0] == 20.0


HELD = (1, [(1, 2, 3.0), (4, 5, 6.0)], BucketState(-9.0, 7.0, 8, 40.0, 10.0))


def test_a_forgotten_sensor_is_a_new_one() -> None:
    states = one_sensor()
    states.restore(0, *HELD)
    states.forget(0)
    assert states.export(0) == one_sensor().export(0)


def test_more_samples_than_the_settings_keep_are_refused() -> None:
    samples = [(0, 0, 1.0), (1000, 1000, 1.0), (2000, 2000, 1.0)]
    one_sensor(RATE_3_8).restore(0, 0, samples)
    with pytest.raises(AssertionError, match="3 samples for a sensor of 2"):
        one_sensor(RATE_3_3).restore(0, 0, samples)


def test_a_sensor_that_there_is_no_state_of_is_refused() -> None:
    states = one_sensor()
    with pytest.raises(AssertionError):
        replay_rate([1], [T], [1.0], [1.0], [0], [0], [-1], *states.rate_arrays())
