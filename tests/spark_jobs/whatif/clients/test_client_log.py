"""What the log of a connection says of the client behind it."""

from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.whatif.clients.client_log import connection_log, free_again_us, in_sending_order
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.clients.client_requests import fetched, logged


def test_the_think_time_is_the_logged_gap_less_the_logged_throttle() -> None:
    asks = connection_log([logged(0), logged(12), logged(20, throttle_ms=100), logged(123)]).asks
    assert [ask.think_us for ask in asks] == [0, 10_000, 6_000, 3_000]


def test_a_request_that_arrives_while_its_connection_is_not_read_has_thought_for_no_time() -> None:
    asks = connection_log([logged(0, throttle_ms=100), logged(99), logged(50_000)]).asks
    assert asks[1].think_us == -1_000
    asks = connection_log([logged(0, throttle_ms=5_000), logged(99), logged(50_000)]).asks
    assert asks[1].think_us == -2_000


def test_a_throttle_that_is_over_before_the_answer_is_not_taken_off() -> None:
    asks = connection_log([logged(0, service_ms=50, throttle_ms=20), logged(60)]).asks
    assert asks[1].think_us == 10_000
    assert free_again_us(asks[0].logged, 0) == 50_000


def test_a_request_that_came_before_the_decision_on_the_one_before_is_pipelined() -> None:
    early = logged(0)
    decided_late = type(early)(logged(9).request, 0, service_us=9_000)
    asks = connection_log([decided_late, logged(4), logged(30)]).asks
    assert [ask.pipelined_us for ask in asks] == [None, 4_000, None]


def test_a_millisecond_before_the_decision_is_rounding() -> None:
    decided_late = type(logged(0))(logged(9).request, 0, service_us=9_000)
    assert connection_log([decided_late, logged(8)]).asks[1].pipelined_us is None
    assert connection_log([decided_late, logged(7)]).asks[1].pipelined_us == 7_000


def test_in_flight_is_what_overlaps_most() -> None:
    assert connection_log([logged(0), logged(2), logged(4)]).in_flight == 1
    overlapping = [logged(0, service_ms=9), logged(2, service_ms=9), logged(9, service_ms=1)]
    assert connection_log(overlapping).in_flight == 2
    assert connection_log([]).in_flight == 1


def test_throttled_fetches_are_attempts_of_the_one_that_was_served() -> None:
    tried = [logged(0, 16, api_name="FETCH", throttle_ms=9) for _ in range(2)]
    asks = connection_log([*tried, fetched(40, 7_000)]).asks
    assert [(len(ask.attempts), ask.logged.request.amount) for ask in asks] == [(3, 7_000)]


def test_a_throttled_fetch_with_records_was_served() -> None:
    # Kafka before 2.0 held the answer with its bytes.
    served = logged(0, 900, api_name="FETCH", throttle_ms=9, topics=(TopicPart("a", 880),))
    assert len(connection_log([served, fetched(40, 7_000)]).asks) == 2


def test_attempts_before_a_fetch_that_got_nothing_and_was_not_throttled_are_of_their_own() -> None:
    tried = [logged(0, size, api_name="FETCH", throttle_ms=9) for size in (80, 90, 70)]
    asks = connection_log([*tried, logged(40, 16, api_name="FETCH")]).asks
    assert [(len(ask.attempts), ask.logged.request.amount) for ask in asks] == [(3, 90), (1, 16)]


def test_attempts_at_the_end_of_the_log_are_a_fetch_that_was_not_served() -> None:
    asks = connection_log([logged(0, 16, api_name="FETCH", throttle_ms=9)]).asks
    assert [len(ask.attempts) for ask in asks] == [1]


def test_requests_out_of_order_are_refused() -> None:
    with pytest.raises(BadInputError, match="'c-1' arrived at 4000 us, after one of 5000 us"):
        connection_log([logged(5), logged(4)])


def test_a_request_arrives_no_earlier_than_the_one_that_it_followed() -> None:
    found = in_sending_order([logged(5), logged(4.4), logged(6)])
    assert [each.arrived_us for each in found] == [5_000, 5_000, 6_000]
    assert in_sending_order([]) == []
