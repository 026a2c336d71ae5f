"""What the hypotheses of a beam are to each other, and how evidence moves a base."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.alignment.beam import (
    AHEAD,
    BASE,
    BASE_FROM,
    BASE_UNTIL,
    COUNT,
    INDEX,
    LAST_FROM,
    LAST_UNTIL,
    NEXT_EVENT,
    NODE,
    OFFSET,
    Beam,
    allocate,
    copy_hypothesis,
    covers,
    fingerprint,
    move_base,
    move_samples_before,
    start_from,
    unlikely_cost,
)
from spark_jobs.replay.alignment.events import EventArrays, Samples, Window
from tests.builders.synthetic_broker import log_of

WINDOW = Window(samples=3, window_ms=100, keeps_overlapping=False)
FIRST, SECOND = 0, 1


@pytest.fixture
def events() -> EventArrays:
    """Two requests, each most likely recorded within three milliseconds."""
    return log_of([0, 100], [5.0, 7.0], 1_001.0, WINDOW, early_ms=1, late_ms=1).events.arrays()


@pytest.fixture
def beam(events: EventArrays) -> Beam:
    """One hypothesis twice: of its three samples, two hang on the first event."""
    two = allocate(2, WINDOW.slots)
    from_ms, until_ms = events.whole[:, 0], events.whole[:, 1]
    for h in range(2):
        two.heads[h, COUNT], two.heads[h, INDEX], two.heads[h, NEXT_EVENT] = 3, 2, 2
        two.values[h] = (12.0, 0.0, 7.0)
        two.moments[h, :, BASE] = (FIRST, FIRST, SECOND)
        two.moments[h, :, OFFSET] = (0, 40, 0)
        two.moments[h, :, BASE_FROM] = (from_ms[0], from_ms[0], from_ms[1])
        two.moments[h, :, BASE_UNTIL] = (until_ms[0], until_ms[0], until_ms[1])
        two.moments[h, :, LAST_FROM] = two.moments[h, :, BASE_FROM] + two.moments[h, :, OFFSET]
        two.moments[h, :, LAST_UNTIL] = two.moments[h, :, BASE_UNTIL] + two.moments[h, :, OFFSET]
    return two


def test_a_base_moves_in_every_sample_that_hangs_on_it_and_in_no_other(
    beam: Beam, events: EventArrays
) -> None:
    of_second = beam.moments[0, 2].copy()
    from_ms, until_ms = beam.moments[0, 0, BASE_FROM], beam.moments[0, 0, BASE_UNTIL]
    move_base(beam, 0, events, 1, from_ms + 1, until_ms - 1)
    for slot in (0, 1):
        assert beam.moments[0, slot, BASE_FROM] == from_ms + 1
        assert beam.moments[0, slot, BASE_UNTIL] == until_ms - 1
    assert np.array_equal(beam.moments[0, 2], of_second)
    assert beam.moments[0, 1, OFFSET] == 40
    assert beam.moments[1, 0, BASE_FROM] == from_ms, "the other hypothesis"


@pytest.mark.parametrize(
    ("starts_ms", "until_ms"),
    [
        pytest.param([(0, 20), (100, 130), (200, 210)], [10, 110, 210], id="one by one"),
        pytest.param([(0, 10), (100, 130), (200, 210)], [10, 110, 210], id="as far as it tells"),
        pytest.param([(0, 20), (100, 130), (200, 230)], [20, 130, 230], id="nothing to tell"),
        # The first one was purged, and began anew.
        pytest.param([(150, 180), (100, 130), (200, 210)], [180, 110, 210], id="began anew"),
        pytest.param([(0, 20), (150, 160), (200, 210)], [20, 160, 210], id="no window apart"),
    ],
)
def test_a_sample_began_a_window_before_the_next_one_at_the_latest(
    beam: Beam, events: EventArrays, starts_ms: list[tuple[int, int]], until_ms: list[int]
) -> None:
    beam.moments[0, :, BASE] = (FIRST, SECOND, len(events.whole))
    beam.moments[0, :, OFFSET] = (0, 0, 0)
    beam.moments[0, :, BASE_FROM], beam.moments[0, :, BASE_UNTIL] = np.transpose(starts_ms)
    move_samples_before(beam, 0, events, 2, WINDOW.window_ms)
    assert beam.moments[0, :, BASE_UNTIL].tolist() == until_ms
    assert beam.moments[0, :, BASE_FROM].tolist() == [from_ms for from_ms, _ in starts_ms]


def test_a_base_inside_its_likely_time_costs_nothing_and_outside_of_it_by_distance(
    beam: Beam, events: EventArrays
) -> None:
    until_ms = int(beam.moments[0, 0, BASE_UNTIL])
    move_base(beam, 0, events, 0, until_ms, until_ms)
    assert beam.costs[0] == 0.0
    move_base(beam, 0, events, 0, until_ms + 4, until_ms + 4)
    assert beam.costs[0] == pytest.approx(unlikely_cost(4))
    # Moved on, it costs what it is off now, not both.
    move_base(beam, 0, events, 0, until_ms + 7, until_ms + 7)
    assert beam.costs[0] == pytest.approx(unlikely_cost(7))
    move_base(beam, 0, events, 0, until_ms, until_ms)
    assert beam.costs[0] == pytest.approx(0.0)


def test_a_base_that_was_known_before_the_events_costs_nothing(
    beam: Beam, events: EventArrays
) -> None:
    beam.moments[0, 0, BASE] = len(events.whole)
    move_base(beam, 0, events, 0, 0, 0)
    assert beam.costs[0] == 0.0


def test_being_off_costs_more_the_farther_and_never_more_than_a_throttle_unexplained() -> None:
    costs = [unlikely_cost(off_ms) for off_ms in range(100)]
    assert costs[0] == 0.0
    assert costs == sorted(costs)
    assert 0 < costs[1] < costs[9] < costs[-1] < 2.0


def test_a_hypothesis_covers_itself_and_a_narrower_one(beam: Beam) -> None:
    assert covers(beam, 0, beam, 0, False)
    assert covers(beam, 0, beam, 1, False)
    beam.moments[1, 0, BASE_FROM] += 1
    assert covers(beam, 0, beam, 1, False)
    assert not covers(beam, 1, beam, 0, False)
    beam.moments[1, 0, BASE_UNTIL] += 1
    assert not covers(beam, 0, beam, 1, False)
    assert not covers(beam, 1, beam, 0, False)


def test_a_start_is_compared_as_a_moment_whatever_base_it_hangs_on(beam: Beam) -> None:
    beam.moments[1, 1, BASE] = SECOND
    beam.moments[1, 1, OFFSET] -= 25
    beam.moments[1, 1, BASE_FROM] += 25
    beam.moments[1, 1, BASE_UNTIL] += 25
    assert covers(beam, 0, beam, 1, False)
    assert covers(beam, 1, beam, 0, False)


@pytest.mark.parametrize("column", [COUNT, INDEX, NEXT_EVENT, AHEAD])
def test_hypotheses_that_recorded_other_events_do_not_cover_each_other(
    beam: Beam, column: int
) -> None:
    beam.heads[1, column] -= 1
    assert not covers(beam, 0, beam, 1, False)


def test_hypotheses_that_hold_other_amounts_do_not_cover_each_other(beam: Beam) -> None:
    beam.values[1, 1] = 3.0
    assert not covers(beam, 0, beam, 1, False)
    assert fingerprint(beam, 0) != fingerprint(beam, 1)


def test_the_fingerprint_tells_nothing_of_times_costs_and_history(beam: Beam) -> None:
    beam.moments[1, :, BASE_FROM] -= 3
    beam.costs[1] = 4.0
    beam.heads[1, NODE] = 17
    assert fingerprint(beam, 0) == fingerprint(beam, 1) >= 0


def test_a_sample_that_may_have_ended_later_is_not_covered(beam: Beam) -> None:
    beam.moments[1, 0, LAST_UNTIL] += 14
    assert not covers(beam, 0, beam, 1, True)


def test_a_copied_hypothesis_is_its_own(beam: Beam, events: EventArrays) -> None:
    other = allocate(3, WINDOW.slots)
    beam.costs[1] = 2.5
    copy_hypothesis(other, 2, beam, 1)
    assert covers(other, 2, beam, 1, False)
    assert covers(beam, 1, other, 2, False)
    assert other.costs[2] == 2.5
    until_ms = beam.moments[1, 0, BASE_UNTIL]
    move_base(other, 2, events, 0, until_ms, until_ms)
    assert beam.moments[1, 0, BASE_FROM] < until_ms


def test_known_samples_hang_on_bases_of_their_own(events: EventArrays) -> None:
    known = Samples(
        start_ms=np.array([10, 110, 210]),
        last_event_ms=np.array([90, 190, 215]),
        value=np.array([1.0, 2.0, 3.0]),
        count=3,
        index=2,
    )
    first = allocate(4, WINDOW.slots)
    start_from(first, known, len(events.whole))
    assert len(set(first.moments[0, :, BASE].tolist())) == 3
    assert first.moments[0, :, BASE].min() >= len(events.whole)
    assert first.moments[0, :, BASE_FROM].tolist() == first.moments[0, :, BASE_UNTIL].tolist()
    assert first.moments[0, :, BASE_FROM].tolist() == [10, 110, 210]
    assert first.moments[0, :, LAST_UNTIL].tolist() == [90, 190, 215]
    assert (first.heads[0, COUNT], first.heads[0, INDEX]) == (3, 2)
