"""How many requests may be missing from the stretch of a sensor's past a decision rests on."""

from __future__ import annotations

import doctest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.replay.sensors import lost_requests as module
from spark_jobs.replay.sensors.lost_requests import SensorGaps, missing_within

GAP = st.tuples(
    st.integers(0, 2), st.integers(0, 50), st.integers(0, 20), st.integers(1, 5), st.integers(0, 9)
)
# A window may begin before 1970; a decision is never that old.
STRETCH = st.tuples(st.integers(0, 3), st.integers(-5, 60), st.integers(0, 30)).filter(
    lambda stretch: stretch[1] + stretch[2] >= 0
)


def test_the_example_holds() -> None:
    results = doctest.testmod(module)
    assert (results.failed, results.attempted > 0) == (0, True)


@given(st.lists(GAP, max_size=12), st.lists(STRETCH, min_size=1, max_size=8))
def test_a_gap_counts_in_full_where_it_may_lie_in_the_stretch_at_all(
    gaps: list[tuple[int, int, int, int, int]], stretches: list[tuple[int, int, int]]
) -> None:
    sensor, after, length, missing, size = np.array(gaps, np.int64).reshape(-1, 5).T
    known = SensorGaps.of(sensor, after, after + length, missing, size.astype(float))
    of, begin, wide = np.array(stretches, np.int64).T
    found, sizes = missing_within(of, begin, begin + wide, known)
    for i, (s, a, w) in enumerate(stretches):
        inside = [g for g in gaps if g[0] == s and g[1] <= a + w and g[1] + g[2] >= max(a, 0)]
        assert found[i] == sum(g[3] for g in inside)
        assert sizes[i] == sum(g[3] * g[4] for g in inside)
