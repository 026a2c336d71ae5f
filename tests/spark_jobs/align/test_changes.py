"""When a broker learned of a quota change is told by the throttles around it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_jobs.align.changes import LATER_MS, NO_SENSOR, ClientRequests, locate_changes
from spark_jobs.align.events import EXACT, Events, Int64s, Window
from tests.synthetic_broker import EPOCH_MS, PROFILES, Log, Traffic, logged, with_throttles

NOT_BOUND = math.nan
SAMPLES, WINDOW_MS = 6, 500
LOW, HIGH = 100_000.0, 200_000.0


def traffic(bounds: tuple[tuple[int, float], ...], **columns: object) -> Traffic:
    few = {"requests": 700, "samples": SAMPLES, "window_ms": WINDOW_MS, "mean_gap_ms": 20.0}
    return Traffic(bounds=bounds, **(few | columns))  # type: ignore[arg-type]


def clients_of(
    log: Log, sensors: tuple[int, ...], bounds: tuple[float, ...], rows: Int64s | None = None
) -> list[ClientRequests]:
    """Return the requests of a log as those of a client per connection."""
    chosen = np.arange(len(log.turn)) if rows is None else rows
    clients = []
    for connection in np.unique(log.connection):
        own = chosen[log.connection[chosen] == connection]
        own = own[np.argsort(log.events.latest_ms[own], kind="stable")]
        events = Events(*(column[own] for column in log.events))
        clients.append(ClientRequests(events, events.latest_ms, sensors, bounds))
    return clients


def is_between_the_same_requests(log: Log, moment_ms: int, true_ms: int) -> bool:
    """Return whether no request's record lies between both, but for one as they were made."""
    lowest, highest = sorted((moment_ms, true_ms))
    inside = (log.events.earliest_ms > lowest) & (log.events.latest_ms < highest)
    return not inside.any()


@pytest.mark.parametrize("late_ms", [0, 90, 310])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_changed_value_is_in_force_when_throttles_begin_to_follow_it(
    profile: str, late_ms: int
) -> None:
    true_ms = 5_000
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), profile=profile, seed=late_ms))
    answered = np.array([EPOCH_MS + true_ms - late_ms])
    clients = clients_of(log, sensors=(0, 0), bounds=(HIGH, LOW))
    (found,) = locate_changes(clients, answered, log.window).tolist()
    assert is_between_the_same_requests(log, found, EPOCH_MS + true_ms)


def with_requests_before(log: Log, at_ms: Int64s, amount: float) -> Log:
    """Return the log with requests of the first connection that no sensor counted."""
    n = len(at_ms)
    times = (at_ms - 1, at_ms, at_ms - 1, at_ms)
    others = (
        np.full(n, amount),
        np.full(n, LOW),
        np.zeros(n, np.int64),
        np.full(n, EXACT, np.int8),
    )
    events = Events(
        *(np.concatenate(pair) for pair in zip((*times, *others), log.events, strict=True))
    )
    first = np.full(n, log.connection.min())
    return log._replace(
        events=events,
        recorded_at_ms=np.concatenate([at_ms, log.recorded_at_ms]),
        turn=np.arange(len(events.amount)),
        connection=np.concatenate([first, log.connection]),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_first_quota_is_in_force_from_the_first_request_that_its_sensor_counted(
    seed: int,
) -> None:
    counted = logged(traffic(((0, LOW),), seed=seed))
    first_ms = int(counted.events.latest_ms.min())
    before = first_ms - np.array([60, 45, 30, 20, 12])
    log = with_requests_before(counted, before, amount=30_000.0)
    clients = clients_of(log, sensors=(NO_SENSOR, 0), bounds=(NOT_BOUND, LOW))
    (found,) = locate_changes(clients, np.array([first_ms - 70]), log.window).tolist()
    assert before[-1] < found <= first_ms


def with_silent(log: Log, rows: Int64s) -> Log:
    def lie(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[rows] = 0

    return with_throttles(log, lie)


def test_throttles_that_lie_beside_the_change_do_not_move_it() -> None:
    true_ms = 5_000
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), seed=7))
    throttled = np.flatnonzero(log.events.logged_throttle_time_ms > 60)
    after = throttled[log.events.latest_ms[throttled] > EPOCH_MS + true_ms]
    answered = np.array([EPOCH_MS + true_ms - 120])
    for lies in (after[:1], after[1:2], after[[0, 2, 5]]):
        liar = with_silent(log, lies)
        clients = clients_of(liar, sensors=(0, 0), bounds=(HIGH, LOW))
        (found,) = locate_changes(clients, answered, log.window).tolist()
        assert is_between_the_same_requests(log, found, EPOCH_MS + true_ms)


def test_a_change_that_nobody_was_throttled_by_keeps_the_moment_of_its_answer() -> None:
    log = logged(traffic(((0, 100 * HIGH),), load=0.001))
    assert not log.events.logged_throttle_time_ms.any()
    answered = np.array([EPOCH_MS + 2_000])
    clients = clients_of(log, sensors=(0, 0), bounds=(100 * HIGH, 90 * HIGH))
    assert locate_changes(clients, answered, log.window).tolist() == answered.tolist()


def test_changes_stay_in_the_order_of_their_answers() -> None:
    log = logged(traffic(((0, HIGH), (5_000, LOW), (5_200, HIGH)), seed=3))
    answered = EPOCH_MS + np.array([4_950, 4_960])
    clients = clients_of(log, sensors=(0, 0, 0), bounds=(HIGH, LOW, HIGH))
    first, second = locate_changes(clients, answered, log.window).tolist()
    assert answered[0] - 20 <= first <= second <= answered[1] + LATER_MS
    assert is_between_the_same_requests(log, second, EPOCH_MS + 5_200)


def test_a_broker_without_requests_keeps_every_moment() -> None:
    answered = np.array([5, 9])
    assert locate_changes([], answered, Window(11, 1000, True)).tolist() == [5, 9]
