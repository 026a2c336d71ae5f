"""With the truth inside the intervals, the search finds times that explain every throttle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.replay.alignment.events import Events, Samples
from spark_jobs.replay.alignment.explanation import (
    BEGINS,
    EXPLAINED,
    LATE_LINE,
    NOT_ASKED,
    UNEXPLAINED_COST,
    WAY,
)
from spark_jobs.replay.alignment.placement import place
from spark_jobs.replay.alignment.search import search
from tests.builders.synthetic_broker import (
    EPOCH_MS,
    NO_QUOTA,
    PROFILES,
    Audited,
    Log,
    Traffic,
    audited,
    fresh_states,
    is_throttled,
    log_of,
    logged,
    replay_into,
    replayed_plainly,
    replayed_truth,
    samples_of,
    share_within,
)

WIDTHS = (128, 512)
REQUESTS = 250
# Odd, so that no throttle is half a millisecond: there the broker's own rounding decides.
BOUND, HIGHER, LOWER = 199_999.0, 250_001.0, 149_999.0


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    """Clients that fill a window with 40 to 120 requests, so that most logs hold throttles."""
    samples, window_ms = (
        draw(st.integers(3, 20)),
        draw(st.sampled_from((100, 200, 500, 1000, 2000))),
    )
    kept_ms = samples * window_ms
    bounds = draw(
        st.sampled_from(
            (
                ((0, BOUND),),
                ((kept_ms // 2, BOUND),),  # no quota at first
                ((0, BOUND), (kept_ms, HIGHER), (2 * kept_ms, LOWER)),
            )
        )
    )
    is_on_off = draw(st.booleans())
    return Traffic(
        seed=draw(st.integers(0, 2**32 - 1)),
        requests=REQUESTS,
        clients=draw(st.integers(1, 8)),
        profile=draw(st.sampled_from(PROFILES)),
        samples=samples,
        window_ms=window_ms,
        bounds=bounds,
        load=draw(st.sampled_from((1.5, 2.0, 4.0))),
        mean_gap_ms=kept_ms / draw(st.sampled_from((40, 80, 120))),
        on_ms=kept_ms if is_on_off else 0,
        # Up to one and a half times what the sensor remembers.
        off_ms=draw(st.integers(kept_ms // 5, kept_ms * 3 // 2)) if is_on_off else 0,
        slow_handler_share=draw(st.sampled_from((0.0, 0.02, 0.1))),
        replica_wait_share=draw(st.sampled_from((0.0, 0.3, 1.0))),
    )


def best_of_widths(log: Log) -> Audited:
    """Search with more hypotheses where few leave a throttle unexplained, as a run does."""
    for width in WIDTHS:
        found = audited(log, width)
        if found.found.cost < UNEXPLAINED_COST:
            break
    return found


@pytest.fixture(scope="module")
def various() -> list[tuple[Log, Audited]]:
    """Logs of both profiles and of windows of all sizes, each with what the search made of it."""
    logs = [
        logged(
            Traffic(
                seed=seed,
                requests=500,
                profile=profile,
                samples=samples,
                window_ms=window_ms,
                mean_gap_ms=samples * window_ms / 100,
            )
        )
        for seed, (samples, window_ms) in enumerate(((3, 200), (6, 500), (11, 1000), (20, 100)))
        for profile in PROFILES
    ]
    return [(log, audited(log)) for log in logs]


@settings(max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(traffic=traffics())
def test_every_throttle_is_explained_at_a_time_its_line_admits(traffic: Traffic) -> None:
    log = logged(traffic)
    result = best_of_widths(log)
    has_quota = ~np.isnan(log.events.bound)
    assert (result.status[has_quota] == EXPLAINED).all()
    assert (result.status[~has_quota] == NOT_ASKED).all()
    assert share_within(log, result.replayed_throttle_time_ms, off_ms=1) >= 0.97
    assert (log.events.earliest_ms <= result.recorded_at_ms).all()
    assert (result.recorded_at_ms <= log.events.latest_ms).all()


@settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(traffic=traffics())
def test_the_order_is_one_that_the_lines_admit(traffic: Traffic) -> None:
    log = logged(traffic)
    result = audited(log, width=32)
    order = result.placed.order
    assert sorted(order.tolist()) == list(range(REQUESTS))
    # The next request of a connection comes after the answer to the one before.
    for connection in range(traffic.clients):
        rows = np.flatnonzero(log.events.connection == connection)
        rows = rows[np.argsort(log.turn[rows])]
        assert (np.diff(result.turn[rows]) > 0).all(), f"connection {connection}"
    # A clock is read before the lock is had, so a step back of one millisecond is possible.
    is_on_time = result.placed.status != LATE_LINE
    assert (np.diff(result.placed.recorded_at_ms[is_on_time]) >= -1).all()


def test_pooled_over_windows_and_profiles_the_replay_agrees(
    various: list[tuple[Log, Audited]],
) -> None:
    ours = np.concatenate([r.replayed_throttle_time_ms for _, r in various])
    plain = np.concatenate([replayed_plainly(log).throttle_time_ms for log, _ in various])
    said = np.concatenate([log.events.logged_throttle_time_ms for log, _ in various])
    is_throttle = (said > 0) | (ours > 0)
    assert is_throttle.sum() > 800
    assert np.mean(np.abs(ours - said)[is_throttle] <= 1) >= 0.998
    assert np.mean((ours > 0) == (said > 0)) >= 0.999
    assert np.mean(np.abs(plain - said)[is_throttle] <= 1) < 0.95, "the lines hide too little"


def test_what_is_called_explained_replays_to_the_logged_throttle(
    various: list[tuple[Log, Audited]],
) -> None:
    explained = off = 0
    for log, result in various:
        is_explained = result.status == EXPLAINED
        gap_ms = np.abs(result.replayed_throttle_time_ms - log.events.logged_throttle_time_ms)
        explained += int(is_explained.sum())
        off += int((gap_ms > 0)[is_explained].sum())
    assert explained > 3_900
    assert off <= explained // 1000


def test_the_lines_of_the_synthetic_broker_admit_the_truth_and_replay_to_it(
    various: list[tuple[Log, Audited]],
) -> None:
    swapped = sum(int((np.diff(log.turn) < 0).sum()) for log, _ in various)
    assert swapped > 20, "too few lines are in another order than the recording"
    for log, _ in various:
        assert (log.events.earliest_ms <= log.recorded_at_ms).all()
        assert (log.recorded_at_ms <= log.events.latest_ms).all()
        said = log.events.logged_throttle_time_ms
        assert np.array_equal(replayed_truth(log).throttle_time_ms, said)


def test_a_search_that_begins_with_known_samples_goes_on_where_they_stood() -> None:
    log = logged(Traffic(seed=5, requests=900))
    cut = next(k for k in range(500, 900) if set(log.turn[:k].tolist()) == set(range(k)))
    states = fresh_states(log.window)
    by_turn = np.argsort(log.turn[:cut])
    replay_into(states, log, by_turn, log.recorded_at_ms[by_turn])
    known = samples_of(states)
    rest = Events(*(column[cut:] for column in log.events))
    placed = place(rest, known, log.window, search(rest, known, log.window, 128))
    assert (placed.status == EXPLAINED).all()
    assert (rest.logged_throttle_time_ms > 0).sum() > 50
    # From nothing the same rows cannot be explained: it is the samples that do.
    nothing = Samples.empty(log.window.slots)
    from_nothing = search(rest, nothing, log.window, 128)
    assert from_nothing.cost > 20 * UNEXPLAINED_COST


def test_steps_that_led_nowhere_are_forgotten() -> None:
    log = logged(Traffic(seed=5, requests=1_500))
    width, n = 128, len(log.turn)
    found = audited(log, width).found
    assert found is not None
    assert n <= len(found.steps) < n * width / 4
    assert found.cost == audited(log, 2 * width).found.cost


@pytest.mark.parametrize("control", ["bound", "profile"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_bound_five_percent_off_and_the_other_profile_stay_unexplained(
    profile: str, control: str
) -> None:
    log = logged(Traffic(requests=500, profile=profile, samples=6, window_ms=500, mean_gap_ms=30.0))
    if control == "bound":
        wrong = log._replace(events=log.events._replace(bound=log.events.bound * 1.05))
    else:
        other = not log.window.keeps_overlapping
        wrong = log._replace(window=log.window._replace(keeps_overlapping=other))
    right, worse = audited(log, 64), audited(wrong, 64)
    throttled = is_throttled(log)
    assert (right.status[throttled] == EXPLAINED).all()
    assert share_within(log, right.replayed_throttle_time_ms, off_ms=1) >= 0.99
    assert np.mean(worse.status[throttled] == EXPLAINED) < 0.7
    assert share_within(wrong, worse.replayed_throttle_time_ms, off_ms=1) < 0.6
    assert worse.found.cost > 50 * max(right.found.cost, UNEXPLAINED_COST)


def test_without_a_quota_nothing_is_asked_and_all_is_recorded() -> None:
    log = logged(Traffic(requests=200, bounds=((10**9, 100_001.0),)))
    assert np.isnan(log.events.bound).all()
    result = audited(log, 32)
    assert (result.status == NOT_ASKED).all()
    # An interval costs nothing where nothing speaks against the likely time.
    assert result.found.cost == 0.0


def test_a_pause_longer_than_the_window_empties_every_sample() -> None:
    times = [0, 150, 320, 470, 5_000, 5_120, 5_260]
    amounts = [400.0, 400.0, 400.0, 400.0, 900.0, 10.0, 400.0]
    for profile in PROFILES:
        window = Traffic(profile=profile, samples=5, window_ms=100).window
        log = log_of(times, amounts, 1_001.0, window, early_ms=6, late_ms=6)
        result = audited(log, 32)
        assert (result.status == EXPLAINED).all()
        assert np.array_equal(result.replayed_throttle_time_ms, log.events.logged_throttle_time_ms)
        assert is_throttled(log).tolist() == [False, True, True, True, True, True, True]


def test_the_first_request_begins_the_first_sample() -> None:
    log = log_of([7], [50.0], NO_QUOTA, Traffic().window, early_ms=2, late_ms=3)
    result = audited(log, 1)
    assert result.found.steps[result.found.leaf, WAY] == BEGINS
    assert abs(int(result.recorded_at_ms[0]) - EPOCH_MS - 7) <= 3
