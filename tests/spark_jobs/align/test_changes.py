"""When a broker learned of a quota is found from the throttles that followed."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.align.changes import NO_SENSOR, ClientRequests, locate_changes
from spark_jobs.align.events import Events, Int64s, Window
from tests.synthetic_broker import EPOCH_MS, PROFILES, log_of

BOUND, REQUESTS, MEAN_GAP_MS, MEAN_AMOUNT = 20_000.0, 400, 20, 460.0
# The controller answered in the midst of the requests, and the broker learned of it later.
ANSWERED_MS, LATER_MS = 1_500, 90
WINDOW = Window(5, 500, keeps_overlapping=False)


def client_of(window: Window, lies: int) -> tuple[ClientRequests, Int64s]:
    """Return requests of which the sensor saw only the last, and when each was recorded.

    The first ``lies`` throttles are missing from the log.
    """
    rng = np.random.default_rng(7)
    times_ms = np.cumsum(rng.integers(1, 2 * MEAN_GAP_MS, REQUESTS))
    amounts = rng.integers(MEAN_AMOUNT / 2, 2 * MEAN_AMOUNT, REQUESTS).astype(float)
    first = int(np.searchsorted(times_ms, ANSWERED_MS + LATER_MS))
    log = log_of(times_ms[first:].tolist(), amounts[first:].tolist(), BOUND, window)
    throttles = np.concatenate([np.zeros(first, np.int64), log.events.logged_throttle_time_ms])
    throttles[np.flatnonzero(throttles)[:lies]] = 0
    at_ms = EPOCH_MS + times_ms
    events = Events(
        earliest_ms=at_ms - 2,
        latest_ms=at_ms + 1,
        likely_from_ms=at_ms - 1,
        likely_until_ms=at_ms + 1,
        amount=amounts,
        bound=np.full(REQUESTS, np.nan),
        logged_throttle_time_ms=throttles,
        evidence=np.zeros(REQUESTS, np.int8),
    )
    return ClientRequests(events, at_ms, [NO_SENSOR, 0], [np.nan, BOUND]), at_ms


@pytest.mark.parametrize("lies", [0, 1, 4])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_moment_lies_between_the_last_request_not_counted_and_the_first_that_was(
    profile: str, lies: int
) -> None:
    window = WINDOW._replace(keeps_overlapping=profile == PROFILES[1])
    client, at_ms = client_of(window, lies)
    assert (client.events.logged_throttle_time_ms > 0).sum() > 50
    found_ms = locate_changes([client], np.array([EPOCH_MS + ANSWERED_MS]), window)
    in_force_ms = EPOCH_MS + ANSWERED_MS + LATER_MS
    before, after = at_ms[at_ms < in_force_ms].max(), at_ms[at_ms >= in_force_ms].min()
    assert before < found_ms[0] <= after


def test_a_change_that_no_throttle_tells_of_keeps_its_own_moment() -> None:
    client, _ = client_of(WINDOW, lies=REQUESTS)
    answered_ms = np.array([EPOCH_MS + ANSWERED_MS])
    assert locate_changes([client], answered_ms, WINDOW).tolist() == answered_ms.tolist()
