"""A producer's buffer fills while it waits."""

from __future__ import annotations

import math

from spark_jobs.whatif.clients.client_batch import (
    joined,
    largest_bytes,
    part_of,
)
from spark_jobs.whatif.clients.client_log import LoggedRequest, connection_log
from spark_jobs.whatif.clients.scenario import ClientSettings
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.clients.client_requests import Says, delays, logged, replay_closed_loop
from tests.spark_jobs.whatif.policies.broker_requests import produce

SETTINGS = ClientSettings(linger_ms=5)


def every_10_ms(count: int, amount: float = 100) -> list[LoggedRequest]:
    return [logged(10 * i, amount) for i in range(count)]


def sizes(
    delay_ms: int, log: list[LoggedRequest], settings: ClientSettings = SETTINGS
) -> list[tuple[float, float]]:
    found = replay_closed_loop(delays(delay_ms), {"c-1": log}, settings=settings)
    return [(s.attempt.arrived_us / 1000, s.attempt.request.amount) for s in found.sendings]


def test_after_a_throttle_the_next_request_has_what_came_meanwhile() -> None:
    log = [*every_10_ms(5), logged(50, 1_000)]
    # Those of 10, 20 and 30 ms; that of 40 ms came less than linger_ms ago.
    assert sizes(42, log) == [(0, 100), (42, 300), (44, 100), (50, 1_000)]


def test_a_request_is_never_larger_than_the_largest_of_the_log() -> None:
    log = [*every_10_ms(5), logged(50, 250)]
    assert sizes(1_000, log) == [(0, 100), (1_000, 250), (1_002, 250), (1_004, 150)]


def test_without_batches_every_request_is_sent_as_it_was_logged() -> None:
    settings = ClientSettings(fills_batches=False)
    assert [amount for _, amount in sizes(1_000, every_10_ms(4), settings)] == [100] * 4


def test_as_long_as_it_waits_no_longer_than_in_the_log_it_has_its_size() -> None:
    log = [logged(0, 100, throttle_ms=100), logged(100, 100), logged(103, 100), logged(110, 900)]
    assert sizes(100, log) == [(0, 100), (100, 100), (103, 100), (110, 900)]


def test_other_acks_and_other_apis_are_requests_of_their_own() -> None:
    log = [logged(0), logged(10), logged(20, acks=0), logged(30, api_name="FETCH")]
    assert [amount for _, amount in sizes(1_000, log)] == [100, 100, 100, 100]


def test_of_an_unknown_size_nothing_is_taken() -> None:
    found = sizes(1_000, [logged(0, 900), logged(10, 100), logged(20, math.nan)])
    assert [amount for _, amount in found[:2]] == [900, 100]
    assert math.isnan(found[2][1])


def test_without_its_throttle_a_client_sends_no_more_than_it_wants() -> None:
    steady = [logged(100 * i, 1_000) for i in range(21)]
    # 10 bytes a millisecond; throttled for 3 s, then 30 000 bytes are there at once.
    throttled = logged(2_100, 1_000, throttle_ms=3_000)
    late = [logged(5_100 + i * 2, 10_000, service_ms=1) for i in range(3)]
    found = replay_closed_loop(Says(), {"c-1": [*steady, throttled, *late]})
    arrived = [s.attempt.arrived_us / 1000 for s in found.sendings]
    assert arrived[-3:] == [3_100, 4_100, 5_100]


def test_the_largest_request_is_that_of_a_produce() -> None:
    asks = connection_log([logged(0, 10), logged(5, 99, api_name="FETCH"), logged(9, math.nan)])
    assert largest_bytes(asks.asks) == 10
    assert largest_bytes([]) == 0


def test_a_part_of_a_produce_takes_as_much_of_every_topic() -> None:
    request = produce(200, topics=(TopicPart("a", 80), TopicPart("b", 40)))
    assert part_of(request, 50).topics == (TopicPart("a", 20), TopicPart("b", 10))
    assert part_of(request, 200) is request
    assert part_of(produce(0), 0).amount == 0


def test_two_produces_become_one_by_topic() -> None:
    first = produce(100, topics=(TopicPart("a", 90),))
    both = joined(first, produce(60, topics=(TopicPart("b", 20), TopicPart("a", 30))))
    assert (both.amount, both.topics) == (160, (TopicPart("a", 120), TopicPart("b", 20)))
