"""Looking at samples only when something comes of it is looking at them each time, bit for bit."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.kernels import NO_THROTTLE_MAX
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, RECORD_ONLY
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from tests.endurance.fuzz_rates import wrong
from tests.spark_jobs.quota.amounts import BOUNDS, EPOCH_MS, SENSORS, Settings, step
from tests.spark_jobs.quota.rate_streams import (
    SAMPLES_MAX,
    RateStream,
    differences,
    replayed,
    replayed_literally,
    state_differences,
)

STREAM_ROWS = 20_000
EXACT_MAX = 2.0**53
KINDS = {"amount": np.float64, "bound": np.float64}

whole_numbers = st.integers(-20_000, 20_000).map(float)
fractions = st.floats(-1e6, 1e6)
near_the_largest_exact = st.integers(-3, 3).flatmap(
    lambda d: st.sampled_from([EXACT_MAX + d, EXACT_MAX / 2 + d, -EXACT_MAX + d, EXACT_MAX * 2])
)
not_logged = st.just(math.nan)


def each(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(values, min_size=SENSORS, max_size=SENSORS)


any_settings = st.builds(
    Settings,
    each(st.sampled_from(list(RateProfile))),
    each(st.integers(1, SAMPLES_MAX)),
    each(st.sampled_from([1, 7, 1000, 1000])),
)


@st.composite
def streams(draw: st.DrawFn) -> RateStream:
    """Draw rows of interleaved sensors; times also go back, by all samples too."""
    amounts = draw(
        st.lists(
            st.sampled_from([whole_numbers, fractions, near_the_largest_exact, not_logged]),
            min_size=1,
            unique=True,
        )
    )
    back = draw(st.sampled_from([st.just(0), st.integers(-5, 0), st.integers(-12_000, 0)]))
    row = st.tuples(
        st.integers(0, SENSORS - 1),
        st.one_of(step(1000), step(7), step(1000), back),
        st.one_of(amounts),
        BOUNDS,
        st.sampled_from([RECORD, RECORD, RECORD_AND_UNRECORD, RECORD_ONLY]),
        st.one_of(st.just(0), st.integers(0, 40_000)),
        st.sampled_from([NO_THROTTLE_MAX, 1000]),
    )
    rows = draw(st.lists(row, max_size=60))
    values = zip(*rows, strict=True) if rows else [()] * len(fields(RateStream))
    columns = {
        field.name: np.array(column, KINDS.get(field.name, np.int64))
        for field, column in zip(fields(RateStream), values, strict=True)
    }
    columns["recorded_at_ms"] = EPOCH_MS + np.cumsum(columns["recorded_at_ms"])
    return RateStream(**columns)


@given(settings=any_settings, stream=streams(), data=st.data())
def test_the_replay_is_the_literal_rule_wherever_the_rows_are_cut(
    settings: Settings, stream: RateStream, data: st.DataObject
) -> None:
    literal, states = settings.states(), settings.states()
    expected = replayed_literally(stream, literal)
    cut = data.draw(st.integers(0, len(stream)))
    found = replayed(stream.part(0, cut), states)
    found = found.joined(replayed(stream.part(cut, len(stream)), states))
    assert differences(found, expected) == []
    assert state_differences(states, literal) == []


@pytest.mark.parametrize("seed", range(8))
def test_long_streams_are_replayed_as_by_the_literal_rule(seed: int) -> None:
    assert wrong(seed, STREAM_ROWS) == []


def one_sensor(amounts: list[float], *, step_ms: int) -> list[RateStream]:
    """Return a stream of these amounts, and the same cut into single rows."""
    n = len(amounts)
    zeros = np.zeros(n, np.int64)
    at_ms = EPOCH_MS + np.arange(n) * step_ms
    no_maximum = np.full(n, NO_THROTTLE_MAX)
    stream = RateStream(zeros, at_ms, np.array(amounts), zeros + 1.0, zeros, zeros, no_maximum)
    return [stream, *(stream.part(i, i + 1) for i in range(n))]


@pytest.mark.parametrize(
    "amounts",
    [
        [EXACT_MAX, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, EXACT_MAX],
        [EXACT_MAX - 1.0, 1.0, 1.0],
        [-EXACT_MAX, 1.0, EXACT_MAX, 1.0, -1.0],
        [0.1, 0.2, 0.3, 1e16, 0.4, -1e16],
        [0.5, 0.5, 3.0, 2.0**52, 2.0**52, 1.0],
    ],
)
@pytest.mark.parametrize("step_ms", [0, 700, 1000])
def test_a_sum_that_rounds_is_rounded_in_the_order_of_the_slots(
    amounts: list[float], step_ms: int
) -> None:
    literal = SensorStates.allocate([RateProfile.RATE_3_8], [3], [1000])
    whole, singly = literal.take(np.array([0])), literal.take(np.array([0]))
    stream, *rows = one_sensor(amounts * 3, step_ms=step_ms)
    expected = replayed_literally(stream, literal)
    assert differences(replayed(stream, whole), expected) == []
    found = [replayed(row, singly) for row in rows]
    assert [part.rate[0] for part in found] == expected.rate.tolist()
    assert state_differences(singly, literal) == []
