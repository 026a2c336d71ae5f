from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.judge.causes.sensor_decisions import SensorDecisions, history_of
from spark_jobs.judge.causes.stretches import find_stretches, losses_before, maximal_runs
from tests.spark_jobs.judge.causes.sensor_builder import changing, constant, history

SCORES = st.lists(st.integers(-4, 4).filter(bool), max_size=14)


def decisions(off: list[bool], **columns: object) -> SensorDecisions:
    """Return decisions a second apart that all ask for 1000 ms; those ``off`` got 2000 ms."""
    seconds = np.arange(len(off))
    each = {
        "recorded_at_ms": seconds * 1000,
        "rate": 1_100.0,
        "bound": 1_000.0,
        "logged_ms": np.where(off, 2000, 1000),
    }
    return history_of(**{**each, **columns})


def found(of: SensorDecisions, min_decisions: int = 3) -> list[tuple[int, int]]:
    return [(s.first, s.end) for s in find_stretches(of, 5, min_decisions)]


@given(SCORES)
def test_maximal_runs_are_those_of_their_definition(scores: list[int]) -> None:
    # Ruzzo and Tompa: the best run is maximal, and so are those of what is left on either side.
    def best(first: int, end: int) -> list[tuple[int, int]]:
        runs = [(a, b) for a in range(first, end) for b in range(a + 1, end + 1)]
        runs = [run for run in runs if sum(scores[slice(*run)]) > 0]
        if not runs:
            return []
        a, b = max(runs, key=lambda r: (sum(scores[slice(*r)]), r[0] - r[1]))
        return [*best(first, a), (a, b), *best(b, end)]

    sums = [sum(scores[a:b]) for a, b in maximal_runs(scores)]
    assert sums == [sum(scores[a:b]) for a, b in best(0, len(scores))]


def test_what_agrees_is_no_stretch() -> None:
    assert found(decisions([False] * 50)) == []
    assert find_stretches(history(constant(50_000.0), constant(50_000.0)), 5, 1) == []


def test_a_stretch_is_where_most_decisions_disagree() -> None:
    assert found(decisions([False] * 9 + [True, True, False, True, True] + [False] * 9)) == [
        (9, 14)
    ]


def test_a_few_wrong_decisions_among_right_ones_are_no_stretch() -> None:
    assert found(decisions(([True] + [False] * 9) * 20)) == []


def test_a_stretch_ends_with_its_bound_and_with_the_sensors_life() -> None:
    off = [True] * 12
    bound = np.repeat([1_000.0, 1_001.0], 6)
    assert found(decisions(off, bound=bound)) == [(0, 6), (6, 12)]
    epoch = np.repeat([0, 1], 6)
    assert found(decisions(off, sensor_epoch=epoch)) == [(0, 6), (6, 12)]


def test_decisions_without_any_throttle_say_nothing() -> None:
    quiet = {"rate": np.where(np.arange(12) % 2, 900.0, 1_100.0)}
    logged_ms = np.where(np.arange(12) % 2, 0, 2000)
    assert found(decisions([True] * 12, logged_ms=logged_ms, **quiet)) == [(0, 11)]


def test_a_throttle_without_a_quota_disagrees() -> None:
    assert found(decisions([True] * 12, bound=np.nan)) == [(0, 12)]


def test_a_late_change_is_a_stretch_from_the_change_to_its_arrival() -> None:
    late = history(changing(50_000.0, 40_000, 30_000.0), changing(50_000.0, 20_000, 30_000.0))
    ((first, end),) = found(late, 10)
    begin, finish = (late.recorded_at_ms[[first, end - 1]] - late.recorded_at_ms[0]) / 1000
    assert 19 < begin < 22
    assert 37 < finish < 41


def test_a_state_is_lost_after_the_last_decision_that_agrees() -> None:
    at_ms = np.concatenate((np.arange(20), np.arange(25, 45))) * 1000
    lost = decisions([False] * 18 + [True] * 22, recorded_at_ms=at_ms)
    (stretch,) = find_stretches(lost, 5, 3)
    assert losses_before(lost, stretch, 5, memory_ms=13_000) == range(18, 19)
    quiet = np.where((at_ms > 16_000) & (at_ms < 27_000), 900.0, 1_100.0)
    silent = decisions([False] * 18 + [True] * 22, recorded_at_ms=at_ms, rate=quiet)
    silent.logged_ms[quiet < 1_000] = 0
    (stretch,) = find_stretches(silent, 5, 3)
    assert losses_before(silent, stretch, 5, memory_ms=13_000) == range(17, 23)
    assert losses_before(silent, stretch, 5, memory_ms=4_000) == range(20, 23)


def test_the_past_of_a_young_sensor_is_not_lost_but_unknown() -> None:
    young = decisions([False] * 5 + [True] * 22)
    (stretch,) = find_stretches(young, 5, 3)
    assert losses_before(young, stretch, 5, memory_ms=13_000) == range(0)
