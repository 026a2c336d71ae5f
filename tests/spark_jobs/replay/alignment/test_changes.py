"""When a broker learned of a quota change is told by the throttles around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.constants import CHANGE_LATEST_MS, ZOOKEEPER_RECONNECT_MS
from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import Events, Window
from spark_jobs.replay.locate_changes import late_changes
from spark_jobs.replay.sensors import change_trial
from spark_jobs.replay.sensors.change_moments import locate_changes
from spark_jobs.replay.sensors.change_trial import LATER_MS
from spark_jobs.replay.sensors.client_requests import NO_SENSOR, ClientRequests
from spark_jobs.replay.sensors.line_lags import NO_STOPS, Stops
from spark_jobs.replay.sensors.located_changes import latest_in_force_ms, latest_reconnected_ms
from spark_jobs.warehouse.tables import LOCATED_CHANGES
from tests.builders.synthetic_broker import (
    EPOCH_MS,
    PROFILES,
    Log,
    Traffic,
    log_of,
    logged,
    with_throttles,
)

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
    for connection in np.unique(log.events.connection):
        own = chosen[log.events.connection[chosen] == connection]
        own = own[np.argsort(log.events.latest_ms[own], kind="stable")]
        events = Events(*(column[own] for column in log.events))
        clients.append(ClientRequests(events, events.latest_ms, sensors, bounds))
    return clients


def located(
    clients: list[ClientRequests],
    answered_ms: Int64s,
    window: Window,
    restarts_ms: Sequence[int] = (),
) -> Int64s:
    """Return when changes were in force on a broker that ran all the while."""
    bounds_ms = answered_ms, answered_ms + CHANGE_LATEST_MS
    return locate_changes(clients, answered_ms, bounds_ms, window, restarts_ms)


def found_late(log: Log, true_ms: int, late_ms: int) -> int:
    """Return when a quota was lowered that was answered ``late_ms`` before ``true_ms``."""
    answered = np.array([EPOCH_MS + true_ms - late_ms])
    clients = clients_of(log, sensors=(0, 0), bounds=(HIGH, LOW))
    (found,) = located(clients, answered, log.window).tolist()
    return int(found)


def is_between_the_same_requests(log: Log, moment_ms: int, true_ms: int) -> bool:
    """Return whether no request's record lies between both, but for one as they were made."""
    lowest, highest = sorted((moment_ms, true_ms))
    inside = (log.events.earliest_ms > lowest) & (log.events.latest_ms < highest)
    return not inside.any()


@pytest.mark.parametrize("late_ms", [0, 90, 310, 1_184, 2_400])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_changed_value_is_in_force_when_throttles_begin_to_follow_it(
    profile: str, late_ms: int
) -> None:
    true_ms = 5_000
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), profile=profile, seed=late_ms))
    assert is_between_the_same_requests(log, found_late(log, true_ms, late_ms), EPOCH_MS + true_ms)


@pytest.mark.parametrize(
    ("clients", "seed"), [(4, 10), (4, 16), (4, 28), (2, 2), (2, 26), (1, 14), (1, 26)]
)
def test_the_first_request_looked_at_may_belong_to_a_sample_that_began_before(
    clients: int, seed: int
) -> None:
    """Of a client that sends all day, requests of some seconds before the change are looked at."""
    true_ms, late_ms, gap_ms = 12_000, (0, 40, 120)[seed % 3], {4: 20, 2: 40, 1: 60}[clients]
    steady = {"clients": clients, "mean_gap_ms": float(gap_ms), "requests": 14_500 // gap_ms}
    bounds = ((0, HIGH), (true_ms, LOW))
    log = logged(traffic(bounds, seed=seed, load=1.7, profile=PROFILES[seed % 2], **steady))
    answered = np.array([EPOCH_MS + true_ms - late_ms])
    told = clients_of(log, sensors=(0, 0), bounds=(HIGH, LOW))
    (found,) = located(told, answered, log.window).tolist()
    assert is_between_the_same_requests(log, found, EPOCH_MS + true_ms)


@pytest.mark.parametrize("late_ms", [310, 640])
@pytest.mark.parametrize("profile", PROFILES)
def test_as_many_requests_are_looked_at_as_it_takes_to_know_what_a_window_holds(
    profile: str, late_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 4 s before the change, some 200, where otherwise 60 would do."""
    monkeypatch.setattr(change_trial, "_ROWS_BEFORE_MAX", 60)
    monkeypatch.setattr(change_trial, "_ROWS_MAX", 150)
    true_ms = 12_000
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), profile=profile, seed=late_ms))
    assert is_between_the_same_requests(log, found_late(log, true_ms, late_ms), EPOCH_MS + true_ms)


def test_a_change_is_not_looked_for_later_than_a_broker_that_runs_follows() -> None:
    true_ms, late_ms = 5_000, 2_400
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), seed=late_ms))
    answered = np.array([EPOCH_MS + true_ms - late_ms])
    clients = clients_of(log, sensors=(0, 0), bounds=(HIGH, LOW))
    (found,) = located(clients, answered, log.window).tolist()
    assert is_between_the_same_requests(log, found, EPOCH_MS + true_ms)
    soon = answered + late_ms - 400
    (held,) = locate_changes(clients, answered, (answered, soon), log.window).tolist()
    assert answered[0] <= held <= soon[0]


@given(
    st.integers(0, 20_000),
    st.lists(st.integers(500, 4_000), min_size=2, max_size=200),
    st.integers(1, 3_000),
)
def test_a_broker_has_as_long_to_follow_as_its_log_was_silent(
    answered_ms: int, gaps_ms: list[int], more_ms: int
) -> None:
    def until_ms(gaps: list[int]) -> int:
        written_ms = np.cumsum(gaps)
        return int(latest_in_force_ms(np.array([answered_ms]), written_ms)[0])

    soon = until_ms(gaps_ms)
    assert soon >= answered_ms + CHANGE_LATEST_MS
    busy = until_ms([50] * 1_000)
    assert busy <= answered_ms + CHANGE_LATEST_MS + 50
    # A silence of before the answer gives no time.
    later = [gaps_ms[0] + answered_ms, *gaps_ms[1:]]
    stopped = [later[0], later[1] + more_ms, *later[2:]]
    assert until_ms(later) <= until_ms(stopped) <= until_ms(later) + more_ms


def test_a_stopped_broker_has_as_long_to_follow_as_it_takes_to_reach_zookeeper_again() -> None:
    """A broker of Kafka 2.8.2, stopped from 22.0 to 23.95 s, followed one of 23.35 s at 29.4 s."""
    answered_ms = np.array([15_742, 23_350, 41_922])
    latest_ms = answered_ms + CHANGE_LATEST_MS
    stopped = Stops(np.array([[22_000, 23_950]]))
    found = latest_reconnected_ms(answered_ms, latest_ms, stopped)
    assert found.tolist() == [18_742, 23_950 + ZOOKEEPER_RECONNECT_MS + 3_000, 44_922]
    assert found[1] > 29_396
    assert latest_reconnected_ms(answered_ms, latest_ms, NO_STOPS).tolist() == latest_ms.tolist()


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_restart_forgot_says_nothing_of_a_change_before_it(is_known: bool) -> None:
    before = logged(traffic(((0, HIGH),), load=0.2, requests=250, seed=3))
    restart_ms = int(before.events.latest_ms.max()) + 100
    after = logged(traffic(((0, LOW),), requests=400, seed=4))
    # Requests of before the restart, and the throttled ones of after it, fall to one sensor.
    clients = clients_of(before, sensors=(1, 0), bounds=(NOT_BOUND, LOW))
    shift_ms = restart_ms - EPOCH_MS
    for client in clients_of(after, sensors=(1, 0), bounds=(NOT_BOUND, LOW)):
        times = ("earliest_ms", "latest_ms", "likely_from_ms", "likely_until_ms")
        moved = {name: getattr(client.events, name) + shift_ms for name in times}
        events = client.events._replace(**moved)
        clients.append(ClientRequests(events, events.latest_ms, client.sensors, client.bounds))
    answered = np.array([restart_ms - 1_500])
    restarts_ms = [restart_ms] if is_known else []
    (found,) = located(clients, answered, before.window, restarts_ms).tolist()
    assert (found == answered[0]) == is_known


def test_a_broker_that_never_follows_a_change_is_not_late() -> None:
    log = logged(traffic(((0, LOW),), seed=5))
    answered = np.array([EPOCH_MS + 5_000])
    clients = clients_of(log, sensors=(0, 0), bounds=(LOW, HIGH))
    (found,) = located(clients, answered, log.window).tolist()
    assert found <= answered[0] + LATER_MS


# The controller answered in the midst of the requests, and the broker learned of it later.
BOUND, REQUESTS, MEAN_GAP_MS, MEAN_AMOUNT = 20_000.0, 400, 20, 460.0
ANSWERED_MS, LATE_MS = 1_500, 90


def events_at(at_ms: Int64s, amounts: np.ndarray, throttle_time_ms: Int64s) -> Events:
    """Return requests recorded at ``at_ms`` that no line tells better than to 3 ms."""
    n = len(at_ms)
    return Events(
        earliest_ms=at_ms - 2,
        latest_ms=at_ms + 1,
        likely_from_ms=at_ms - 1,
        likely_until_ms=at_ms + 1,
        amount=amounts,
        bound=np.full(n, np.nan),
        logged_throttle_time_ms=throttle_time_ms,
        evidence=np.zeros(n, np.int8),
        line_lag_max_ms=np.zeros(n, np.int64),
        connection=np.arange(n),
    )


def first_quota(window: Window, lies: int) -> tuple[ClientRequests, Int64s]:
    """Return requests of which the sensor saw only the last, and when each was recorded.

    The first ``lies`` throttles are missing from the log.
    """
    rng = np.random.default_rng(7)
    times_ms = np.cumsum(rng.integers(1, 2 * MEAN_GAP_MS, REQUESTS))
    amounts = rng.integers(MEAN_AMOUNT / 2, 2 * MEAN_AMOUNT, REQUESTS).astype(float)
    first = int(np.searchsorted(times_ms, ANSWERED_MS + LATE_MS))
    log = log_of(times_ms[first:].tolist(), amounts[first:].tolist(), BOUND, window)
    throttles = np.concatenate([np.zeros(first, np.int64), log.events.logged_throttle_time_ms])
    throttles[np.flatnonzero(throttles)[:lies]] = 0
    at_ms = EPOCH_MS + times_ms
    events = events_at(at_ms, amounts, throttles)
    return ClientRequests(events, at_ms, [NO_SENSOR, 0], [np.nan, BOUND]), at_ms


@pytest.mark.parametrize("lies", [0, 1, 4])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_first_quota_is_in_force_between_the_last_request_not_counted_and_the_first_that_was(
    profile: str, lies: int
) -> None:
    window = Window(5, 500, keeps_overlapping=profile == PROFILES[1])
    client, at_ms = first_quota(window, lies)
    assert (client.events.logged_throttle_time_ms > 0).sum() > 50
    found_ms = located([client], np.array([EPOCH_MS + ANSWERED_MS]), window)
    in_force_ms = EPOCH_MS + ANSWERED_MS + LATE_MS
    before, after = at_ms[at_ms < in_force_ms].max(), at_ms[at_ms >= in_force_ms].min()
    assert before < found_ms[0] <= after


@pytest.mark.parametrize("profile", PROFILES)
def test_two_of_one_millisecond_may_be_on_either_side_of_a_first_quota(profile: str) -> None:
    """The one that was let through had no quota; the one beside it was throttled, and had it."""
    window = Window(3, 1_000, profile == PROFILES[1])
    times_ms, amounts = np.array([0, 1_000, 2_000, 2_500, 3_200, 3_200, 3_300]), np.full(7, 900.0)
    at_ms = EPOCH_MS + times_ms
    log = log_of(times_ms.tolist(), amounts.tolist(), 1_000.0, window)
    logged_ms = np.where(np.arange(7) < 5, 0, log.events.logged_throttle_time_ms)
    # Of both the log says 3,200 ms; that one may have been 1 ms before, the other 90 ms.
    events = events_at(at_ms, amounts, logged_ms)
    events = events._replace(earliest_ms=at_ms - np.array([1, 1, 1, 1, 1, 90, 1]))
    client = ClientRequests(events, at_ms, (0, 0), (math.nan, 1_000.0))
    answered = EPOCH_MS + np.array([3_190])
    assert located([client], answered, window).tolist() == [EPOCH_MS + 3_200]
    moved = client.changes_before(slice(None), np.array([EPOCH_MS + 3_200]))
    assert moved.tolist() == [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("profile", PROFILES)
def test_requests_let_through_by_a_lie_do_not_move_a_first_quota(profile: str) -> None:
    window = Window(5, 500, keeps_overlapping=profile == PROFILES[1])
    client, at_ms = first_quota(window, lies=0)
    throttles = client.events.logged_throttle_time_ms
    # From then on nothing is throttled any more: were the quota not in force yet, neither.
    throttles[np.flatnonzero(throttles)[12:]] = 0
    found_ms = located([client], np.array([EPOCH_MS + ANSWERED_MS]), window)
    in_force_ms = EPOCH_MS + ANSWERED_MS + LATE_MS
    before, after = at_ms[at_ms < in_force_ms].max(), at_ms[at_ms >= in_force_ms].min()
    assert before < found_ms[0] <= after


@pytest.mark.parametrize("bound_before", [100.0, 1e9])
def test_requests_that_the_quota_of_before_would_have_held_up_tell_that_it_was_not_in_force(
    bound_before: float,
) -> None:
    window = Window(5, 500, keeps_overlapping=True)
    client, at_ms = first_quota(window, lies=0)
    client = replace(client, sensors=[1, 0], bounds=[bound_before, BOUND])
    in_force_ms = EPOCH_MS + ANSWERED_MS + LATE_MS
    answered = np.array([in_force_ms - 1_200])
    (found_ms,) = located([client], answered, window).tolist()
    before, after = at_ms[at_ms < in_force_ms].max(), at_ms[at_ms >= in_force_ms].min()
    # By 100 B/s nothing would have passed unthrottled for 1.2 s: what throttles tell is not so.
    assert (before < found_ms <= after) == (bound_before == 1e9)


@pytest.mark.parametrize("early_ms", [30, 167])
def test_a_first_quota_may_be_in_force_before_it_was_answered(early_ms: int) -> None:
    window = Window(5, 500, keeps_overlapping=True)
    client, at_ms = first_quota(window, lies=0)
    in_force_ms = EPOCH_MS + ANSWERED_MS + LATE_MS
    answered = np.array([in_force_ms + early_ms])
    bounds_ms = answered - early_ms - 5, answered + CHANGE_LATEST_MS
    (found_ms,) = locate_changes([client], answered, bounds_ms, window).tolist()
    before, after = at_ms[at_ms < in_force_ms].max(), at_ms[at_ms >= in_force_ms].min()
    assert before < found_ms <= after


@pytest.mark.parametrize("profile", PROFILES)
def test_two_changes_that_came_late_explain_together_what_neither_does_alone(profile: str) -> None:
    """A quota is taken away, and nothing is counted until there is another one."""
    removed_ms, set_ms, late_ms = 4_000, 5_000, (60, 210)
    dense = np.arange(2_000, 5_200, 10)
    # Then the client waits for its throttles.
    times_ms = np.concatenate([dense, [5_212, 5_263, 5_341, 5_395], np.arange(9_000, 12_000, 300)])
    amounts = np.random.default_rng(3).integers(500, 2_000, len(times_ms)).astype(float)
    window = Window(SAMPLES, WINDOW_MS, keeps_overlapping=profile == PROFILES[1])
    is_set = times_ms >= set_ms + late_ms[1]
    is_counted = (times_ms < removed_ms + late_ms[0]) | is_set
    log = log_of(times_ms[is_counted].tolist(), amounts[is_counted].tolist(), 2_000.0, window)
    throttles = np.zeros(len(times_ms), np.int64)
    throttles[is_counted] = log.events.logged_throttle_time_ms
    throttles[~is_set] = 0
    assert (throttles[times_ms < 9_000] > 0).sum() == 4
    at_ms = EPOCH_MS + times_ms
    events = events_at(at_ms, amounts, throttles)
    client = ClientRequests(events, at_ms, [0, NO_SENSOR, 0], [1e12, np.nan, 2_000.0])
    answered = EPOCH_MS + np.array([removed_ms, set_ms])
    found_ms = located([client], answered, window) - EPOCH_MS
    for true_ms, moment_ms in zip((4_060, 5_210), found_ms.tolist(), strict=True):
        before, after = times_ms[times_ms < true_ms].max(), times_ms[times_ms >= true_ms].min()
        assert before < moment_ms <= after


@pytest.mark.parametrize("profile", PROFILES)
def test_a_change_keeps_its_answer_s_moment_where_another_one_s_explains_more(profile: str) -> None:
    """A request between a second quota's answer and its moment counts as one before it was removed.

    As long as the samples of both hold, a removal that came a request sooner explains as much.
    """
    removed_ms, set_ms, late_ms = 4_000, 6_400, 20
    times_ms = np.arange(2_005, 18_000, 19)
    amounts = np.full(len(times_ms), 700.0)
    window = Window(11, 1_000, keeps_overlapping=profile == PROFILES[1])
    is_counted = (times_ms < removed_ms) | (times_ms >= set_ms + late_ms)
    log = log_of(times_ms[is_counted].tolist(), amounts[is_counted].tolist(), 22_000.0, window)
    throttles = np.zeros(len(times_ms), np.int64)
    throttles[is_counted] = log.events.logged_throttle_time_ms
    assert 0 < (throttles > 0).argmax() < len(times_ms) - 100
    at_ms = EPOCH_MS + times_ms
    client = ClientRequests(
        events_at(at_ms, amounts, throttles), at_ms, [0, NO_SENSOR, 0], [1e12, np.nan, 22_000.0]
    )
    answered = EPOCH_MS + np.array([removed_ms, set_ms])
    found_ms = located([client], answered, window) - EPOCH_MS
    for true_ms, moment_ms in zip((removed_ms, set_ms + late_ms), found_ms.tolist(), strict=True):
        before, after = times_ms[times_ms < true_ms].max(), times_ms[times_ms >= true_ms].min()
        assert before < moment_ms <= after


@pytest.mark.parametrize(("lag_max_ms", "is_found"), [(20, True), (4, False)])
@pytest.mark.parametrize("keeps_overlapping", [False, True])
def test_a_first_quota_s_first_request_may_have_a_late_line(
    lag_max_ms: int, *, keeps_overlapping: bool, is_found: bool
) -> None:
    """Three requests are as much of the quota as the time until the fourth, which may begin it.

    That explains most throttles, and more than the first one at the time of its line does.
    """
    answered_ms, first_ms = 1_700, 2_000
    times_ms = np.append([first_ms, 2_093, 2_098], np.arange(2_146, 16_000, 50))
    amounts = np.append([744.0, 2_592.0, 744.0], np.full(len(times_ms) - 3, 3_000.0))
    window = Window(11, 1_000, keeps_overlapping)
    log = log_of(times_ms.tolist(), amounts.tolist(), 28_000.0, window)
    line_ms, lags_ms = log.events.latest_ms.copy(), log.events.line_lag_max_ms.copy()
    line_ms[0], lags_ms[0] = line_ms[0] + 8, lag_max_ms
    events = log.events._replace(
        earliest_ms=line_ms, latest_ms=line_ms, likely_from_ms=line_ms, likely_until_ms=line_ms,
        line_lag_max_ms=lags_ms,
    )  # fmt: skip
    client = ClientRequests(events, line_ms, [NO_SENSOR, 0], [NOT_BOUND, 28_000.0])
    (found_ms,) = located([client], EPOCH_MS + np.array([answered_ms]), window).tolist()
    assert (found_ms <= EPOCH_MS + first_ms) == is_found


def with_silent(log: Log, rows: Int64s) -> Log:
    def lie(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[rows] = 0

    return with_throttles(log, lie)


@pytest.mark.parametrize("seed", range(4))
def test_a_client_that_gets_a_quota_is_throttled_from_then_on(seed: int) -> None:
    true_ms, lies = 5_000, 12

    def lie(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[np.flatnonzero(throttle_time_ms)[:lies]] += 400

    bounds = ((0, 1e12), (true_ms, LOW))
    log = with_throttles(logged(traffic(bounds, seed=seed, load=1.7)), lie)
    answered = np.array([EPOCH_MS + true_ms - 20])
    told = clients_of(log, sensors=(0, 0), bounds=(NOT_BOUND, LOW))
    (found,) = located(told, answered, log.window).tolist()
    throttled_ms = log.events.latest_ms[log.events.logged_throttle_time_ms > 0]
    # Were the quota in force after the lies, all else would be as it was thrown.
    assert found <= throttled_ms.min()


@pytest.mark.parametrize("seed", range(4))
def test_one_throttle_of_the_quota_before_tells_that_the_one_after_was_not_yet_in_force(
    seed: int,
) -> None:
    # By its new quota the client is never throttled: that sensor has no other throttle.
    true_ms = 5_000
    log = logged(traffic(((0, LOW),), seed=seed, load=1.7))
    is_after = log.events.latest_ms > EPOCH_MS + true_ms
    events = log.events._replace(
        amount=np.where(is_after, 1.0, log.events.amount),
        logged_throttle_time_ms=np.where(is_after, 0, log.events.logged_throttle_time_ms),
    )
    last_ms = int(events.latest_ms[events.logged_throttle_time_ms > 0].max())
    log = log._replace(events=events)
    clients = clients_of(log, sensors=(0, 1), bounds=(LOW, HIGH))
    (found,) = located(clients, np.array([last_ms - 8]), log.window).tolist()
    assert found >= last_ms


def test_throttles_that_lie_beside_the_change_do_not_move_it() -> None:
    true_ms = 5_000
    log = logged(traffic(((0, HIGH), (true_ms, LOW)), seed=7))
    throttled = np.flatnonzero(log.events.logged_throttle_time_ms > 60)
    after = throttled[log.events.latest_ms[throttled] > EPOCH_MS + true_ms]
    answered = np.array([EPOCH_MS + true_ms - 120])
    for lies in (after[:1], after[1:2], after[[0, 2, 5]]):
        liar = with_silent(log, lies)
        clients = clients_of(liar, sensors=(0, 0), bounds=(HIGH, LOW))
        (found,) = located(clients, answered, log.window).tolist()
        assert is_between_the_same_requests(log, found, EPOCH_MS + true_ms)


def test_a_change_that_nobody_was_throttled_by_keeps_the_moment_of_its_answer() -> None:
    log = logged(traffic(((0, 100 * HIGH),), load=0.001))
    assert not log.events.logged_throttle_time_ms.any()
    answered = np.array([EPOCH_MS + 2_000])
    clients = clients_of(log, sensors=(0, 0), bounds=(100 * HIGH, 90 * HIGH))
    assert located(clients, answered, log.window).tolist() == answered.tolist()


@pytest.mark.parametrize("seed", [2, 51, 75])
def test_a_change_whose_throttles_no_moment_explains_keeps_the_moment_of_its_answer(
    seed: int,
) -> None:
    # Nobody was throttled before it, so nothing tells when the samples of a sensor began that is
    # older than what is looked at: they are off, at every moment.
    changed_ms, unbound = 20_000, 20 * HIGH
    log = logged(traffic(((0, unbound), (changed_ms, LOW)), seed=seed, requests=1_060))
    answered = np.array([EPOCH_MS + changed_ms])
    clients = clients_of(log, sensors=(0, 0), bounds=(unbound, LOW))
    assert located(clients, answered, log.window).tolist() == answered.tolist()


@pytest.mark.parametrize("few", [(2, 4), (8, 16)])
def test_the_moment_of_the_answer_is_looked_at_with_the_most_hypotheses(
    few: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few keep no true one until the first throttle: a moment long after it explains most then.
    monkeypatch.setattr(change_trial, "_WIDTHS", few)
    changed_ms, unbound = 9_500, 20 * HIGH
    bounds = ((0, unbound), (changed_ms, LOW))
    log = logged(traffic(bounds, seed=11, load=1.15, requests=900))
    answered = np.array([EPOCH_MS + changed_ms])
    clients = clients_of(log, sensors=(0, 0), bounds=(unbound, LOW))
    assert located(clients, answered, log.window).tolist() == answered.tolist()


def test_changes_stay_in_the_order_of_their_answers() -> None:
    log = logged(traffic(((0, HIGH), (5_000, LOW), (5_200, HIGH)), seed=3))
    answered = EPOCH_MS + np.array([4_950, 4_960])
    clients = clients_of(log, sensors=(0, 0, 0), bounds=(HIGH, LOW, HIGH))
    first, second = located(clients, answered, log.window).tolist()
    assert answered[0] - 20 <= first <= second <= answered[1] + LATER_MS
    assert is_between_the_same_requests(log, second, EPOCH_MS + 5_200)


def test_a_broker_without_requests_keeps_every_moment() -> None:
    answered = np.array([5, 9])
    assert located([], answered, Window(11, 1000, True)).tolist() == [5, 9]


def test_changes_that_came_late_are_told_with_the_latest() -> None:
    def told(*late_ms: int) -> str:
        rows = [
            {"broker_id": broker_id, "answered_ms": EPOCH_MS, "in_force_ms": EPOCH_MS + each_ms}
            for broker_id, each_ms in enumerate(late_ms)
        ]
        return late_changes(pa.Table.from_pylist(rows, schema=LOCATED_CHANGES))

    assert told(LATER_MS, -5) == ""
    said = told(6_334, 0, LATER_MS + 1)
    assert "answer: 2, the latest after 6,334 ms (broker 0)" in said
