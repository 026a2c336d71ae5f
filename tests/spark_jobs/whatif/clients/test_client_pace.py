"""What a client wanted while it was held back: what it had before, one after the other."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.clients.client_log import LoggedRequest, connection_log
from spark_jobs.whatif.clients.client_pace import wanted_bytes_per_us, wanted_times_us
from tests.spark_jobs.whatif.clients.client_requests import (
    Says,
    fetched,
    logged,
    replay_closed_loop,
)


def paces(log: list[LoggedRequest]) -> list[float]:
    return wanted_bytes_per_us(connection_log(log).asks)


def steady(from_ms: int, seconds: int, amount: float = 1_000) -> list[LoggedRequest]:
    return [logged(from_ms + 100 * i, amount) for i in range(10 * seconds)]


def test_the_pace_is_that_of_the_last_two_seconds_before_a_throttle() -> None:
    slow, fast = steady(0, 20, amount=100), steady(20_000, 3, amount=1_000)
    throttled = logged(23_000, 1_000, throttle_ms=2_000)
    behind = [logged(25_000 + i, 9_000) for i in range(9)]
    found = paces([*slow, *fast, throttled, *behind])
    assert found[-9:] == pytest.approx([0.01] * 9, rel=0.05)


def test_the_pace_is_of_twenty_requests_at_least() -> None:
    rare = [logged(1_000 * i, 1_000 if i < 30 else 3_000) for i in range(33)]
    found = paces([*rare, logged(33_000, 1_000, throttle_ms=500)])
    assert found[-1] == pytest.approx((17 * 1_000 + 3 * 3_000) / 20e6, rel=0.1)


def test_throttles_in_close_succession_leave_the_pace_before_the_first() -> None:
    first = logged(2_100, 1_000, throttle_ms=900)
    more = [logged(3_010 + 600 * i, 50_000, throttle_ms=590) for i in range(9)]
    found = paces([*steady(0, 2), first, *more])
    assert found[-1] == pytest.approx(0.01, rel=0.05)


def test_a_log_that_was_always_throttled_wants_what_it_got() -> None:
    assert paces([logged(100 * i, 1_000, throttle_ms=98) for i in range(21)]) == pytest.approx(
        [0.01] * 21
    )
    assert paces([logged(0, 1_000)]) == [math.inf]
    assert paces([]) == []


def test_bytes_are_wanted_no_later_than_they_were_logged() -> None:
    log = [logged(0, throttle_ms=50), logged(52), logged(200), logged(201)]
    wanted = wanted_times_us(connection_log(log).asks)
    assert all(at <= each.arrived_us for at, each in zip(wanted, log, strict=True))
    assert wanted[0] == 0


def test_without_its_throttle_a_consumer_reads_no_sooner_than_there_is_something() -> None:
    before = [fetched(100 * i, 1_000) for i in range(21)]
    # 10 bytes a millisecond; held back for 3 s, it then reads 30 000 bytes at once.
    tried = logged(2_100, math.nan, throttle_ms=3_000, api_name="FETCH")
    late = [fetched(5_100 + i * 2, 10_000, service_ms=1) for i in range(3)]
    found = replay_closed_loop(Says(), {"c-1": [*before, tried, *late]})
    arrived = [s.attempt.arrived_us / 1000 for s in found.sendings]
    assert arrived[-3:] == [2_100, 3_100, 4_100]
