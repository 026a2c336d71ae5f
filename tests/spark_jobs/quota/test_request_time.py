"""Thread time of requests as the request quota counts it, as far as lines tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.quota.interval_states import IntervalStates
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import (
    RequestRows,
    network_time_max_us,
    record_interval_ms,
    replay_requests,
)
from spark_jobs.quota.states import SensorStates

T0 = 1_700_000_000_000


def requests(handler_us: list[float], network_us: float = 0.0, gap_ms: int = 100) -> RequestRows:
    n = len(handler_us)
    at_ms = T0 + gap_ms * np.arange(n)
    return RequestRows(
        sensor=np.zeros(n, np.int64),
        earliest_ms=at_ms,
        latest_ms=at_ms,
        log_time_ms=at_ms + 2,
        handler_time_us=np.array(handler_us),
        network_time_max_us=np.full(n, network_us),
        surely_counted=np.ones(n, bool),
        bound=np.full(n, 5.0),
        unlogged_max=np.zeros(n),
    )


def states() -> IntervalStates:
    return IntervalStates.of(SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000]))


@pytest.mark.parametrize(
    ("remote_us", "in_handler", "expected"),
    [
        # Handled at 989.7 ms; the line's stamp is cut, and up to a millisecond late.
        (300, True, (988, 990)),
        (300, False, (988, 990)),
        # A short wait: at either end of it.
        (10_000, False, (979, 990)),
        (10_000, True, (979, 980)),
        # A long wait: whoever ended it recorded then.
        (500_000, False, (984, 990)),
        (500_000, True, (489, 490)),
    ],
)
def test_the_quota_counts_where_the_handler_time_ends_or_the_wait(
    remote_us: int, in_handler: bool, expected: tuple[int, int]
) -> None:
    first, last = record_interval_ms([T0 + 1000], [remote_us], [4_000], [6_000], [in_handler])
    assert (first[0] - T0, last[0] - T0) == expected


def test_network_time_is_the_send_time_a_usual_read_the_bytes_and_a_handshake() -> None:
    found = network_time_max_us([50.0, 60.0], [np.nan, 10_000.0], 200.0, [20_000.0, 0.0])
    assert found.tolist() == [20_250.0, 280.0]


def test_handler_time_is_percent_of_a_second_and_a_cut_microsecond_more() -> None:
    found = replay_requests(requests([600_000.0]), states())
    assert found.rate_min[0] == pytest.approx(6.0)
    assert found.rate_max[0] == pytest.approx(6.00001)
    # (6 - 5) / 5 of 10 s is 2 s; one window is the most.
    assert (found.throttle_time_min_ms[0], found.throttle_time_max_ms[0]) == (1000, 1000)


def test_network_time_counts_from_the_next_request_on() -> None:
    found = replay_requests(requests([100_000.0, 100_000.0], network_us=50_000.0), states())
    assert found.rate_max[0] == pytest.approx(1.0, rel=1e-3)
    assert found.rate_min[1] == pytest.approx(20.0 / 10.1)
    assert found.rate_max[1] == pytest.approx(25.0 / 10.1, rel=1e-3)


def test_a_request_that_another_sensor_may_have_got_counts_at_most() -> None:
    rows = replace(requests([100_000.0, 100_000.0]), surely_counted=np.array([False, True]))
    found = replay_requests(rows, states())
    assert found.rate_min[1] == pytest.approx(10.0 / 10.1)
    assert found.rate_max[1] == pytest.approx(20.0 / 10.1, rel=1e-3)


def test_answers_come_in_the_order_asked_whatever_the_order_of_record() -> None:
    rows = requests([600_000.0, 0.0, 0.0])
    backwards = RequestRows(**{f: getattr(rows, f)[::-1] for f in RequestRows.__slots__})
    found, turned = replay_requests(rows, states()), replay_requests(backwards, states())
    assert found.throttle_time_min_ms.tolist() == turned.throttle_time_min_ms[::-1].tolist()
    assert found.rate_max.tolist() == turned.rate_max[::-1].tolist()
