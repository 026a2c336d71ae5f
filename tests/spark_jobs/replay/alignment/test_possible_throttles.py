"""What a sound broker may have thrown holds what it threw, whatever the times of its requests."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.replay.alignment.events import EXACT, NOTHING, UP_TO, Events, Window
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.possible_throttles import impossible, possible_throttles_ms
from spark_jobs.replay.alignment.sample_beginnings import Beginnings

WINDOW_MS, SAMPLES, BOUND = 1_000, 5, 10_000.0
Request = tuple[int, int, int, float]
NONE = Beginnings(np.zeros(0, np.int64), np.zeros(0, np.int64))


def placed_requests(
    profile: RateProfile, requests: list[Request], before_log: int = 0
) -> tuple[Placed, Events, np.ndarray, Window, list[int]]:
    """Return requests (recorded ms, early ms, late ms, amount) as a sound broker throttles them.

    A request's line says that it was recorded up to so much earlier or later. The first ones came
    before the log. With them, return when samples began (ms) since the log did.
    """
    rate = Rate(profile, SAMPLES, WINDOW_MS)
    thrown, begun = [], []
    for now_ms, _, _, amount in requests:
        rate.record(amount, now_ms)
        begun.append(rate.slots[rate.index].start_ms)
        found = rate.measure(now_ms)
        is_free = is_acceptable(found, BOUND)
        thrown.append(0 if is_free else throttle_time_ms(found, BOUND, rate.window_size_ms(now_ms)))
    requests, thrown = requests[before_log:], thrown[before_log:]
    at_ms = np.array([r[0] for r in requests])
    earliest_ms = at_ms - [r[1] for r in requests]
    latest_ms = at_ms + [r[2] for r in requests]
    order = np.argsort(latest_ms, kind="stable")
    n = len(requests)
    events = Events(
        earliest_ms=earliest_ms[order],
        latest_ms=latest_ms[order],
        likely_from_ms=earliest_ms[order],
        likely_until_ms=latest_ms[order],
        amount=np.array([r[3] for r in requests])[order],
        bound=np.full(n, BOUND),
        logged_throttle_time_ms=np.array(thrown)[order],
        evidence=np.full(n, EXACT, np.int8),
        line_lag_max_ms=np.zeros(n, np.int64),
        connection=np.arange(n),
    )
    placed = Placed(np.arange(n), latest_ms[order], np.zeros(n, np.int8), np.zeros(n, bool))
    window = Window(SAMPLES, WINDOW_MS, profile.keeps_overlapping_sample)
    return placed, events, window, sorted({at for at in begun if at >= at_ms[0]})


@given(
    st.sampled_from(RateProfile),
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 30), st.integers(0, 1_500), st.integers(0, 15_000)),
            st.integers(0, 80),
            st.integers(0, 80),
            st.floats(1.0, 12_000.0),
        ),
        min_size=1,
        max_size=150,
    ),
    st.randoms(use_true_random=False),
)
def test_no_throttle_of_a_sound_broker_is_impossible(
    profile: RateProfile, drawn: list[Request], random: Random
) -> None:
    moments = np.cumsum([gap_ms for gap_ms, *_ in drawn]) + 1_000_000
    requests = [(int(at), *line[1:]) for at, line in zip(moments, drawn, strict=True)]
    before_log = random.choice((0, random.randrange(len(requests))))
    placed, events, window, begun_ms = placed_requests(profile, requests, before_log)
    is_asked = np.ones(len(events.amount), bool)
    known_ms = np.array(sorted(random.sample(begun_ms, random.randint(0, len(begun_ms)))), np.int64)
    told = Beginnings(known_ms - random.randint(0, 9), known_ms + 3)
    for known, held_nothing in product((NONE, told), {False, before_log == 0}):
        is_sure = np.array([random.random() < 0.8 for _ in is_asked])
        found = possible_throttles_ms(
            placed, events, window, known, is_asked, is_sure, held_nothing=held_nothing
        )
        assert not impossible(placed, events, *found).any()


def steady(every_ms: int) -> list[Request]:
    """Return requests a little above the quota, recorded up to 2 ms beside what lines say."""
    random = Random(7)
    return [
        (at_ms + random.randrange(20), 2, 2, BOUND * every_ms / 900)
        for at_ms in range(1_000_000, 1_040_000, every_ms)
    ]


@pytest.mark.parametrize("profile", RateProfile)
@pytest.mark.parametrize("every_ms", [70, 170, 450])
def test_a_sample_may_have_begun_with_a_request_before_those_that_are_looked_at(
    profile: RateProfile, every_ms: int
) -> None:
    for before in range(20, 40):
        placed, events, window, _ = placed_requests(profile, steady(every_ms), before)
        is_asked = np.ones(len(events.amount), bool)
        found = possible_throttles_ms(
            placed, events, window, NONE, is_asked, is_asked, held_nothing=False
        )
        assert not impossible(placed, events, *found).any(), before


def possible(
    profile: RateProfile,
    every_ms: int,
    *,
    held_nothing: bool,
    knows_from: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return least and most of ``steady`` requests; samples from this number on are known."""
    placed, events, window, begun_ms = placed_requests(profile, steady(every_ms))
    is_asked = np.ones(len(events.amount), bool)
    known_ms = np.array([] if knows_from is None else begun_ms[knows_from:], np.int64)
    known = Beginnings(known_ms - 2, known_ms + 2)
    return possible_throttles_ms(
        placed, events, window, known, is_asked, is_asked,
        held_nothing=held_nothing,
    )  # fmt: skip


@pytest.mark.parametrize("profile", RateProfile)
@pytest.mark.parametrize("every_ms", [300, 97])
def test_what_is_possible_is_as_wide_as_the_times_leave_open(
    profile: RateProfile, every_ms: int
) -> None:
    least, most = possible(profile, every_ms, held_nothing=True)
    is_told = np.isfinite(most)
    assert is_told.mean() > 0.7
    assert np.median((most - least)[is_told]) < 15


@pytest.mark.parametrize("profile", RateProfile)
def test_samples_known_later_narrow_what_a_known_first_one_leaves_open(
    profile: RateProfile,
) -> None:
    # Requests of 40 ms may begin a sample 40 ms later, each of which moves the next one.
    wide, narrow = (
        possible(profile, 40, held_nothing=True, knows_from=knows_from) for knows_from in (None, 20)
    )
    late = slice(-200, -30)
    open_ms, known_ms = ((most - least)[late] for least, most in (wide, narrow))
    assert np.median(known_ms) < 0.5 * np.median(open_ms)


@pytest.mark.parametrize(
    ("profile", "open_ms"), [(RateProfile.RATE_3_3, (800, 900)), (RateProfile.RATE_3_8, (100, 200))]
)
def test_without_a_known_beginning_steady_requests_leave_open_when_a_sample_left(
    profile: RateProfile, open_ms: tuple[int, int]
) -> None:
    # Just after that, a window that lacks a little of its length is one window longer (Rate).
    least, most = possible(profile, 300, held_nothing=False)
    is_told = np.isfinite(most)
    assert is_told.mean() > 0.8
    assert open_ms[0] < np.median((most - least)[is_told]) < open_ms[1]


@pytest.mark.parametrize("profile", RateProfile)
def test_which_request_began_a_sample_leaves_less_open_than_when_one_may_have_begun(
    profile: RateProfile,
) -> None:
    drawn = [(*times, amount * (0.4, 1.6)[i % 2]) for i, (*times, amount) in enumerate(steady(410))]
    placed, events, window, _ = placed_requests(profile, drawn)
    is_asked = np.ones(len(events.amount), bool)
    least, most = possible_throttles_ms(
        placed, events, window, NONE, is_asked, is_asked, held_nothing=False
    )
    is_told = np.isfinite(most)
    assert is_told.mean() > 0.8
    # A request is worth 182 or 729 ms: one more or less of either is open, and no two of them.
    assert np.median((most - least)[is_told]) < 350


@pytest.mark.parametrize(("is_sure", "is_told"), [(True, True), (False, False)])
@pytest.mark.parametrize("profile", RateProfile)
def test_what_was_just_recorded_counts_whatever_the_sensor_held(
    profile: RateProfile, *, is_sure: bool, is_told: bool
) -> None:
    # In 4 s of 5 s, ten times as much as the quota allows: more than 30 s of it.
    requests = [(1_000_000 + at_ms, 2, 2, BOUND) for at_ms in range(0, 3_900, 100)]
    placed, events, window, _ = placed_requests(profile, requests)
    is_asked = np.ones(len(requests), bool)
    least, most = possible_throttles_ms(
        placed, events, window, NONE, is_asked, is_asked & is_sure, held_nothing=False
    )
    assert np.isinf(most).all()
    assert (least[-1] > 30_000) == is_told
    assert (least <= events.logged_throttle_time_ms).all()


@pytest.mark.parametrize("profile", RateProfile)
def test_a_throttle_beyond_what_is_possible_is_impossible(profile: RateProfile) -> None:
    placed, events, window, _ = placed_requests(profile, steady(300))
    is_asked = np.ones(len(events.amount), bool)
    least, most = possible_throttles_ms(
        placed, events, window, NONE, is_asked, is_asked, held_nothing=True
    )
    row = int(np.flatnonzero(np.isfinite(most) & (least > 100))[-1])
    for logged_ms, evidence, is_found in (
        (0, EXACT, True),
        (int(least[row]) - 4, EXACT, True),
        (int(least[row]), EXACT, False),
        (int(most[row]) + 4, EXACT, True),
        (int(most[row]) + 4, UP_TO, False),
        (int(least[row]) - 4, UP_TO, True),
        (int(least[row]) - 4, NOTHING, False),
    ):
        events.logged_throttle_time_ms[row], events.evidence[row] = logged_ms, evidence
        assert impossible(placed, events, least, most)[row] == is_found
