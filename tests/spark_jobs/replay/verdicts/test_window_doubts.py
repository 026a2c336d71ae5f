"""Where record times leave open which window a broker measured, that is said."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.verdicts.window_doubts import WindowDoubts, WindowRule, window_doubts

PROFILES = (RateProfile.RATE_3_3, RateProfile.RATE_3_8)
NOON_MS = 1_794_312_000_000
SAMPLES = 4


def doubts(
    *at_ms: int, width_ms: int = 3, profile: RateProfile = RateProfile.RATE_3_8
) -> WindowDoubts:
    """Return the doubts of records at these times, each known to ``width_ms``; samples of 1 s."""
    rule = WindowRule(SAMPLES, 1_000, profile.keeps_overlapping_sample)
    return window_doubts(NOON_MS + np.array(at_ms), np.full(len(at_ms), width_ms), rule)


@pytest.mark.parametrize(
    ("at_ms", "expected"), [(993, False), (994, True), (1_005, True), (1_006, False)]
)
def test_a_record_at_a_sample_s_end_may_begin_the_next(at_ms: int, expected: bool) -> None:
    assert doubts(0, at_ms).begins[1] == expected


def test_a_sample_that_may_have_begun_a_record_later_may_end_one_later_too() -> None:
    # The second sample began at 1,001 or at 1,050 ms, the third at 2,020 or at 2,100 ms, the fourth
    # at 3,500 ms in either case.
    found = doubts(0, 500, 1_001, 1_050, 2_020, 2_100, 3_500, 3_900)
    assert found.begins.tolist() == [False, False, True, True, True, True, False, False]


@pytest.mark.parametrize(
    ("profile", "at_ms", "expected"),
    [
        # The first sample is from 0 to 500 ms.
        (RateProfile.RATE_3_3, 3_993, False),
        (RateProfile.RATE_3_3, 3_994, True),
        (RateProfile.RATE_3_3, 4_005, True),
        (RateProfile.RATE_3_3, 4_006, False),
        (RateProfile.RATE_3_8, 4_000, False),
        (RateProfile.RATE_3_8, 4_494, True),
        (RateProfile.RATE_3_8, 4_505, True),
        (RateProfile.RATE_3_8, 4_506, False),
    ],
)
def test_a_sample_leaves_with_its_start_or_with_its_last_event(
    profile: RateProfile, at_ms: int, expected: bool
) -> None:
    assert doubts(0, 500, 2_200, at_ms, profile=profile).leaves[3] == expected


@pytest.mark.parametrize(
    ("at_ms", "longer", "shorter"),
    [
        (5, False, False),  # nothing comes before the first
        (993, False, False),
        (994, False, True),
        (999, False, True),
        (1_000, True, False),
        (2_005, True, False),
        (2_006, False, False),
        (3_005, True, False),
        # Three whole samples and more: the time is what it is.
        (3_500, False, False),
        (3_999, False, False),
    ],
)
def test_a_window_at_whole_samples_may_be_one_longer_or_shorter(
    at_ms: int, longer: bool, shorter: bool
) -> None:
    found = doubts(0, at_ms)
    assert (found.longer[1], found.shorter[1]) == (longer, shorter)


def test_a_window_may_be_either_where_times_are_known_to_half_a_sample() -> None:
    found = doubts(0, 1_200, width_ms=500)
    assert (found.longer[1], found.shorter[1]) == (True, True)


def test_times_that_are_known_leave_no_doubt() -> None:
    found = doubts(0, 1_000, 2_000, 4_000, 5_000, 6_000, width_ms=0)
    assert not np.any(found)


class Measured(NamedTuple):
    """What a sensor held and how long its window was, per record."""

    held: list[float]
    window_ms: list[int]


def measured(at_ms: np.ndarray, profile: RateProfile) -> Measured:
    """Return what Kafka's rule measures where the i-th record is of 2 to the power of i."""
    rate = Rate(profile, SAMPLES, 1_000)
    found = Measured([], [])
    for i, now_ms in enumerate(at_ms.tolist()):
        rate.record(float(2**i), now_ms)
        rate.measure(now_ms)
        found.held.append(sum(slot.value for slot in rate.slots))
        found.window_ms.append(rate.window_size_ms(now_ms))
    return found


GAPS = st.one_of(st.integers(0, 300), st.integers(300, 3_000), st.sampled_from([996, 1_000, 1_003]))
RECORDS = st.lists(st.tuples(GAPS, st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=14)


@pytest.mark.parametrize("profile", PROFILES)
@given(records=RECORDS)
@settings(max_examples=400)
def test_without_a_doubt_all_admissible_times_give_one_window(
    profile: RateProfile, records: list[tuple[int, int, int]]
) -> None:
    gaps, early, late = (np.array(column) for column in zip(*records, strict=True))
    said_ms = NOON_MS + np.cumsum(gaps)
    true_ms = np.maximum.accumulate(said_ms - early + late)
    rule = WindowRule(SAMPLES, 1_000, profile.keeps_overlapping_sample)
    found = window_doubts(said_ms, np.full(len(gaps), 9), rule)
    is_sure = ~(np.maximum.accumulate(found.begins) | found.leaves)
    said, true = measured(said_ms, profile), measured(true_ms, profile)
    for i in np.flatnonzero(is_sure).tolist():
        assert true.held[i] == said.held[i]
        longer_ms = true.window_ms[i] - said.window_ms[i]
        # What the times themselves are off by, and a sample where that is said.
        assert -12 - 1_000 * found.shorter[i] <= longer_ms <= 12 + 1_000 * found.longer[i]
