"""Logs that were hard to explain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.replay.alignment.events import EXACT, Events, Samples, Window
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from spark_jobs.replay.alignment.window import align_window
from tests.builders.synthetic_broker import (
    EPOCH_MS,
    LINE_LAG_MAX_MS,
    Log,
    Traffic,
    audited,
    log_of,
    logged,
    replayed,
)

KEPT_LOGS = Path(__file__).parent / "kept_logs"
WINDOW = Window(samples=5, window_ms=200, keeps_overlapping=True)
TWO_PURGES = Traffic(
    seed=849693342,
    requests=280,
    clients=8,
    samples=15,
    window_ms=200,
    load=4.0,
    mean_gap_ms=60.0,
    on_ms=2342,
    off_ms=1246,
    bounds=((0, 199_999.0),),
    slow_handler_share=0.1,
)
FORGOTTEN_END = Traffic(
    seed=313721471,
    requests=350,
    clients=10,
    samples=17,
    window_ms=200,
    load=1.5,
    mean_gap_ms=68.0,
    bounds=((0, 99_999.0), (12_240, 149_999.0), (28_560, 79_999.0)),
    slow_handler_share=0.1,
    replica_wait_share=0.0,
)


def test_an_unthrottled_request_is_placed_where_it_is_unthrottled() -> None:
    """After 390 ms the window has 990 ms, and 2 ms earlier 988: that would be a throttle of 2."""
    log = log_of([0, 390], [500.0, 490.0], 1_000.0, WINDOW, early_ms=[0, 5], late_ms=[0, 1])
    assert log.events.logged_throttle_time_ms.tolist() == [0, 0]
    result = audited(log, 16)
    assert (result.status == EXPLAINED).all()
    assert np.array_equal(result.replayed_throttle_time_ms, log.events.logged_throttle_time_ms)


@pytest.mark.parametrize(
    "traffic",
    [
        pytest.param(TWO_PURGES, id="two samples that may be obsolete"),
        pytest.param(FORGOTTEN_END, id="a sample that may have ended later"),
    ],
)
def test_a_sound_log_leaves_nothing_unexplained_however_wide_the_search(traffic: Traffic) -> None:
    assert (audited(logged(traffic), 256).status == EXPLAINED).all()


@pytest.mark.parametrize("late_s", [[3], [12], [25], [3, 12], [30, 31], [3, 4.1, 25]])
@pytest.mark.parametrize("keeps_overlapping", [False, True])
def test_late_lines_long_before_the_first_throttle_move_every_sample_until_then(
    late_s: list[float], *, keeps_overlapping: bool
) -> None:
    """A steady client's request begins a sample, and its line is late; so is each sample after it.

    Nothing tells until the client is throttled after 40 s, and then each of its throttles does.
    """
    window = Window(samples=11, window_ms=1_000, keeps_overlapping=keeps_overlapping)
    times_ms = list(range(0, 60_000, 100))
    amounts = [90.0 if at_ms < 40_000 else 130.0 + at_ms // 100 % 7 for at_ms in times_ms]
    log = log_of(times_ms, amounts, 1_000.0, window)
    rows = [round(at_s * 10) for at_s in late_s]
    for column in log.events[:2]:
        column[rows] += LINE_LAG_MAX_MS - 5
    aligned = align_window(log.events, Samples.empty(window.slots), window, is_last=True)
    assert (aligned.placed.status == EXPLAINED).all()
    replay = replayed(log, aligned.placed.order, aligned.placed.recorded_at_ms)
    thrown_ms = log.events.logged_throttle_time_ms[aligned.placed.order]
    assert (thrown_ms > 0).sum() > 100
    assert np.abs(replay.throttle_time_ms - thrown_ms).max() <= 1


@pytest.mark.parametrize(
    ("name", "off_ms_max"),
    [
        ("samples_a_millisecond_apart", 1),
        ("late_line_that_ends_a_sample", 1),
        ("one_circle_after_another", 1),
        ("two_circles", PROVES_MS),
    ],
)
def test_what_the_search_explains_is_replayed_by_the_times_that_it_gives(
    name: str, off_ms_max: int
) -> None:
    """Logs of simulated brokers, each sound; the search forgets what two throttles say together.

    In one of them samples begin a millisecond earlier or later, in the other one a request's line
    is late, and the sample that it ends leaves sooner for it. In the third one, a circle
    of claims leads to another one, in the fourth there are two that have nothing in common.
    """
    kept = csv.read_csv(KEPT_LOGS / f"{name}.csv")
    columns = {column: kept[column].to_numpy() for column in kept.column_names}
    events = Events(
        earliest_ms=EPOCH_MS + columns["earliest_ms"],
        latest_ms=EPOCH_MS + columns["latest_ms"],
        likely_from_ms=EPOCH_MS + columns["likely_from_ms"],
        likely_until_ms=EPOCH_MS + columns["latest_ms"],
        amount=columns["amount"].astype(float),
        bound=columns["bound"].astype(float),
        logged_throttle_time_ms=columns["throttle_time_ms"],
        evidence=np.full(len(kept), EXACT, np.int8),
        line_lag_max_ms=columns["line_lag_max_ms"],
        connection=columns["connection"],
    )
    window = Window(samples=11, window_ms=1_000, keeps_overlapping=True)
    placed = align_window(events, Samples.empty(window.slots), window, is_last=True).placed
    assert (placed.status != UNEXPLAINED).all()
    nothing = np.zeros(len(kept), np.int64)
    replay = replayed(Log(events, window, nothing, nothing), placed.order, placed.recorded_at_ms)
    thrown_ms = events.logged_throttle_time_ms[placed.order]
    assert np.abs(replay.throttle_time_ms - thrown_ms).max() <= off_ms_max


@pytest.mark.parametrize("seed", [16, 19, 48, 55, 70])
def test_what_the_search_explains_is_replayed_where_a_period_divides_the_window(seed: int) -> None:
    """Two throttles tell that a request begins a sample; an interval for each leaves it open.

    A sample that began 999 ms after the one before moves all that follow it by a request.
    """
    rng = np.random.default_rng(seed)
    period_ms = float(rng.choice([1000 / 60, 1000 / 30, 1000 / 45, 1000 / 15]))
    clients = int(rng.integers(1, 4))
    sent_ms = [rng.uniform(0, period_ms) + np.arange(0, 30_000, period_ms) for _ in range(clients)]
    times_ms = np.sort(np.concatenate(sent_ms)).astype(int)
    load = np.where(times_ms < 12_000, 0.95, 1.06)
    amounts = np.round(load * 42.0 * period_ms / clients)
    window = Window(samples=11, window_ms=1_000, keeps_overlapping=True)
    log = log_of(times_ms.tolist(), amounts.tolist(), 42_000.0, window, early_ms=1, late_ms=1)
    aligned = align_window(log.events, Samples.empty(window.slots), window, is_last=True)
    replay = replayed(log, aligned.placed.order, aligned.placed.recorded_at_ms)
    thrown_ms = log.events.logged_throttle_time_ms[aligned.placed.order]
    assert (thrown_ms > 0).sum() > 500
    assert (np.abs(replay.throttle_time_ms - thrown_ms) <= 2).mean() >= 0.999


@pytest.mark.parametrize(("connection", "is_explained"), [([0, 1, 2], True), ([0, 1, 1], False)])
def test_requests_of_one_connection_are_recorded_in_the_order_of_their_lines(
    connection: list[int], *, is_explained: bool
) -> None:
    log = log_of([0, 100, 101], [1_500.0, 300.0, 83.0], 1_000.0, WINDOW, early_ms=2, late_ms=2)
    events = Events(*(column[[0, 2, 1]] for column in log.events))
    events = events._replace(connection=np.array(connection))
    assert events.logged_throttle_time_ms.tolist() == [700, 982, 900]
    status = audited(log._replace(events=events), 64).status
    assert (status == EXPLAINED).all() == is_explained


def test_a_throttle_of_half_a_millisecond_is_rounded_as_kafka_rounds_it() -> None:
    """Due are 1275.5 ms less 801: exactly half, but the product of the doubles is a bit less."""
    log = log_of([0, 200, 400, 600, 800, 1001], [100.0] * 5 + [2151.0], 2_000.0, WINDOW)
    assert log.events.logged_throttle_time_ms[-1] == 474
    assert (audited(log, 16).status == EXPLAINED).all()


@pytest.mark.parametrize("seed", [0, 10, 17])
def test_when_samples_begin_is_found_where_nothing_told_of_it_for_long(seed: int) -> None:
    """Each of some clients' requests may begin the samples, for their period divides the window.

    For 26 s no request is throttled, and each sample may begin a request later than a window.
    """
    rng = np.random.default_rng(seed)
    period_ms = float(rng.choice([1000 / 30, 100.0, 50.0]))
    clients = int(rng.integers(2, 7))
    sent_ms = []
    for _ in range(clients):
        own_ms = rng.uniform(0, period_ms) + np.arange(0, 36_000, period_ms)
        sent_ms.append(own_ms + rng.exponential(0.7, size=len(own_ms)))
    times_ms = np.sort(np.concatenate(sent_ms)).astype(int)
    load = np.where(times_ms < 26_000, 0.9, 1.04)
    amounts = np.round(
        load * 42.0 * period_ms / clients * rng.uniform(0.5, 1.5, size=len(times_ms))
    )
    window = Window(samples=5 if seed % 2 else 11, window_ms=1_000, keeps_overlapping=seed % 2 == 1)
    log = log_of(times_ms.tolist(), amounts.tolist(), 42_000.0, window, early_ms=1, late_ms=1)
    aligned = align_window(log.events, Samples.empty(window.slots), window, is_last=True)
    replay = replayed(log, aligned.placed.order, aligned.placed.recorded_at_ms)
    thrown_ms = log.events.logged_throttle_time_ms[aligned.placed.order]
    assert (thrown_ms > 0).sum() > 100
    assert np.abs(replay.throttle_time_ms - thrown_ms).max() <= PROVES_MS
