"""Requests that are missing from a log are found by the gaps in the correlation ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.ingest.lost_lines.gap_spans import JAVA, JAVA_WITH_TELEMETRY, OTHER_SOFTWARE, Span
from spark_jobs.ingest.lost_lines.lost_lines import (
    LOST_LINES,
    NEVER_READ,
    OTHER_BROKER,
    Gap,
    gaps_of,
)
from tests.spark_jobs.ingest.lost_lines.sent_requests import API_VERSIONS, BEGIN_MS, Sent, instance

INT32_MAX = (1 << 31) - 1


def lost_places(sent: Sent, share: float, seed: int) -> set[int]:
    """Return places of requests to lose, none of them the first or last of its counter's lines."""
    chance = np.random.default_rng(seed)
    inner = [i for i, n in enumerate(sent.correlation_id) if n > 0]
    return {i for i in inner if chance.random() < share}


def missing(gaps: Iterable[Gap]) -> int:
    return sum(gap.missing for gap in gaps)


def unexplained(sent: Sent, lost: Iterable[int], gaps: list[Gap]) -> list[tuple[int, int, int]]:
    """Return the lost requests that no gap holds at their broker, id and time; each gap is used up.

    Of several gaps with the id, the one that ends first.
    """
    room = [gap.missing for gap in gaps]
    left = []
    for i in sorted(lost, key=lambda i: sent.recorded_ms[i]):
        number, at_ms = sent.correlation_id[i], sent.recorded_ms[i]
        fitting = [
            (span.before_ms, g)
            for g, gap in enumerate(gaps)
            for span in gap.places
            if room[g]
            and gap.correlation_id_before < number < gap.correlation_id_after
            and span.broker_id == sent.broker_id[i]
            and span.after_ms <= at_ms <= span.before_ms
        ]
        if fitting:
            room[min(fitting)[1]] -= 1
        else:
            left.append((sent.broker_id[i], number, at_ms - BEGIN_MS))
    return left


def test_a_java_client_counts_over_all_its_brokers_so_nothing_is_missing() -> None:
    sent = Sent()
    instance(sent, 500, seed=1, first_connection=10)
    assert gaps_of(sent.lines()) == []


def test_a_gap_says_how_many_are_missing_and_between_which_moments_on_each_broker() -> None:
    sent = Sent()
    for number, (broker, at_ms) in enumerate([(1, 0), (2, 10), (1, 20), (2, 30), (1, 40), (2, 50)]):
        sent.add(broker, 10 + broker, number, at_ms, handling_ms=0)
    (gap,) = gaps_of(sent.lines(lost={2}))
    assert (gap.correlation_id_before, gap.missing, gap.correlation_id_after) == (1, 1, 3)
    assert (gap.cause, gap.connection) == (LOST_LINES, None)
    assert gap.request_bytes_max == 1000
    assert gap.response_bytes_max is None, "the client never fetched"
    on_broker = {p.broker_id: (p.after_ms - BEGIN_MS, p.before_ms - BEGIN_MS) for p in gap.places}
    assert on_broker == {1: (0, 41), 2: (10, 31)}, "between the connection's own neighbours"


def test_the_only_connection_of_a_client_is_the_one_that_carried_what_is_missing() -> None:
    sent = Sent()
    instance(sent, 20, seed=1, first_connection=10, brokers=1)
    (gap,) = gaps_of(sent.lines(lost={7, 8}))
    assert (gap.missing, gap.connection) == (2, 10)


@pytest.mark.parametrize("per_connection", [False, True], ids=["Java", "counter per connection"])
@settings(max_examples=8)
@given(instances=st.integers(1, 5), hosts=st.integers(1, 3), seed=st.integers(0, 1000))
def test_what_many_instances_of_one_client_id_lost_is_found_and_nothing_else(
    *, per_connection: bool, instances: int, hosts: int, seed: int
) -> None:
    sent = Sent()
    for k in range(instances):
        instance(
            sent,
            150,
            seed=seed + k,
            first_connection=10 * (k + 1),
            first_id=0 if per_connection else 1000 * k * (seed % 3),
            begin_ms=(seed * 37 + k * 911) % 3000,
            mean_ms=15.0 + 7 * k,
            per_connection=per_connection,
            hosts=(k % hosts,),
        )
    assert gaps_of(sent.lines()) == []
    lost = lost_places(sent, 0.02, seed)
    gaps = gaps_of(sent.lines(lost))
    # The last of a counter leave no gap; there are at most as many as counters.
    assert len(lost) - 3 * instances <= missing(gaps) <= len(lost)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_every_lost_request_was_recorded_within_its_gap(seed: int) -> None:
    sent = Sent()
    instance(sent, 500, seed=seed, first_connection=10)
    lost = lost_places(sent, 0.02, seed) - {498, 499}
    gaps = gaps_of(sent.lines(lost))
    assert missing(gaps) == len(lost)
    assert unexplained(sent, lost, gaps) == []


def test_a_client_behind_several_addresses_is_one_client() -> None:
    sent = Sent()
    instance(sent, 500, seed=3, first_connection=10, hosts=(1, 2, 3))
    assert gaps_of(sent.lines()) == []
    assert missing(gaps_of(sent.lines(lost={100, 200}))) == 2


def test_a_client_that_connects_anew_goes_on_counting() -> None:
    sent = Sent()
    instance(sent, 100, seed=4, first_connection=10, mean_ms=10)
    instance(sent, 100, seed=5, first_connection=20, first_id=100, begin_ms=1_500, mean_ms=10)
    assert gaps_of(sent.lines()) == []
    lost = {50, 150}
    gaps = gaps_of(sent.lines(lost))
    assert missing(gaps) == 2
    assert unexplained(sent, lost, gaps) == []


def test_a_client_that_is_started_anew_begins_at_0_and_is_another_one() -> None:
    sent = Sent()
    instance(sent, 100, seed=4, first_connection=10)
    instance(sent, 100, seed=5, first_connection=20, begin_ms=60_000)
    assert gaps_of(sent.lines()) == []


def test_clients_of_one_name_are_told_apart_by_ids_that_interlock() -> None:
    """One stops as another, which has waited for seconds, goes on with the next id elsewhere."""
    sent = Sent()
    for number in range(27):
        sent.add(1 + number % 2, 10 + number % 2, number, 1_370 * number)
    for number in range(27):
        sent.add(2, 20, number, 1_260 * number)
    for number, broker in enumerate((1, 1, 1, 2, 2, 1, 2, 1, 1, 2), start=27):
        sent.add(broker, 22 - broker, number, 35_650 + 2_000 * (number - 27))
    assert gaps_of(sent.lines()) == []
    lost = {5}
    assert unexplained(sent, lost, gaps_of(sent.lines(lost))) == []


def test_a_counter_goes_over_the_end_of_its_numbers_without_a_gap() -> None:
    sent = Sent()
    # Java leaves out the eight ids that it keeps for authentication.
    numbers = [*range(INT32_MAX - 20, INT32_MAX - 7), *range(-INT32_MAX - 1, -INT32_MAX + 20)]
    for i, number in enumerate(numbers):
        sent.add(1 + i % 2, 10 + i % 2, number, 10 * i)
    assert gaps_of(sent.lines()) == []
    assert missing(gaps_of(sent.lines(lost={12, 13}))) == 2


def test_an_id_that_java_used_up_for_telemetry_is_not_a_lost_line() -> None:
    sent = Sent()
    instance(sent, 100, seed=6, first_connection=10)
    assert missing(gaps_of(sent.lines({5}, JAVA))) == 1
    assert missing(gaps_of(sent.lines({5}, JAVA_WITH_TELEMETRY))) == 0
    assert missing(gaps_of(sent.lines({5, 30}, JAVA_WITH_TELEMETRY))) == 1
    assert missing(gaps_of(sent.lines({80}, JAVA_WITH_TELEMETRY))) == 1, "too late to be that one"


def test_ids_of_the_authentication_of_a_new_connection_are_not_lost_lines() -> None:
    sent = Sent()
    for number in range(1, 21):
        # The second connection signs in with 8, 9 and 10, which brokers do not log.
        if number not in (8, 9, 10):
            sent.add(1, 11 if number > 10 and number % 2 else 10, number, 10 * number)
    assert gaps_of(sent.lines(java=OTHER_SOFTWARE)) == []
    assert missing(gaps_of(sent.lines(java=JAVA))) == 3


def test_where_the_log_of_a_broker_is_not_there_no_line_is_said_to_be_lost() -> None:
    sent = Sent()
    instance(sent, 600, seed=7, first_connection=10)
    elsewhere = {i for i, broker in enumerate(sent.broker_id) if broker == 3}
    gaps = gaps_of(sent.lines(elsewhere))
    assert {gap.cause for gap in gaps} == {OTHER_BROKER}
    assert missing(gaps) >= len(elsewhere) - 3


def test_connections_of_two_libraries_are_not_one_client() -> None:
    sent = Sent()
    for number in range(0, 40, 2):
        sent.add(1, 10, number, 10 * number)
        sent.add(1, 11, number + 1, 10 * number + 10)
    lines = sent.lines()
    assert gaps_of(lines) == []
    lines.software[lines.connection == 11] = 8
    assert missing(gaps_of(lines)) == 38


def test_a_request_logged_twice_is_one_request() -> None:
    sent = Sent()
    for number in (0, 1, 1, 2, 3):
        sent.add(1, 10, number, 10 * number)
    assert gaps_of(sent.lines()) == []


def test_what_brokers_send_each_other_is_no_clients_loss() -> None:
    sent = Sent()
    for number in (1, 3, 5, 7):
        sent.add(1, 10, number, 10 * number, api_key=4)
    assert gaps_of(sent.lines()) == []


def test_requests_that_waited_on_a_muted_connection_to_its_end_were_never_read() -> None:
    sent = Sent()
    for number, broker in enumerate((1, 2, 1, 2, 1)):
        sent.add(broker, 10 + broker, number, 10 * number)
    for number in range(7, 30):
        sent.add(1, 11, number, 10 * number)
    lines = sent.lines()
    assert [(g.missing, g.cause) for g in gaps_of(lines)] == [(2, LOST_LINES)]
    lines.free_at_ms[3] = BEGIN_MS + 5_000
    assert [(g.missing, g.cause) for g in gaps_of(lines)] == [(2, NEVER_READ)]
    with_more = sent.lines(lost={5, 6, 7, 8})
    with_more.free_at_ms[3] = BEGIN_MS + 5_000
    assert [g.cause for g in gaps_of(with_more)] == [LOST_LINES], "more than can be unanswered"


def test_a_wait_that_the_log_does_not_tell_of_bounds_nothing() -> None:
    sent = Sent()
    # Broker 1 held request 3 back for 30 s and did not say so; broker 2 went on.
    sent.add(1, 11, 0, 0, api_key=API_VERSIONS)
    sent.add(2, 12, 1, 5, api_key=API_VERSIONS)
    sent.add(1, 11, 2, 100)
    sent.add(1, 11, 3, 30_000)
    for number in range(4, 30):
        sent.add(2, 12, number, 100 + 20 * number)
    lost = {20}
    gaps = gaps_of(sent.lines(lost))
    assert unexplained(sent, lost, gaps) == []


def test_a_loss_while_a_clock_was_set_back_has_a_span_all_the_same() -> None:
    sent = Sent()
    for number, at_ms in enumerate((0, 10, 9_000, 20, 30, 40)):
        sent.add(1, 11, number, at_ms, handling_ms=0)
    (gap,) = gaps_of(sent.lines(lost={3}))
    (span,) = gap.places
    assert span.after_ms <= BEGIN_MS + 30
    assert span.before_ms >= BEGIN_MS + 9_000


def test_requests_under_way_to_a_broker_that_stopped_were_never_read() -> None:
    sent = Sent()
    for number in range(20):
        sent.add(1 + number % 2, 10 + number % 2, number, 10 * number)
    # Broker 2 is gone: three requests were under way, and it is up again after four seconds.
    for number in range(23, 40):
        sent.add(1, 10, number, 10 * number)
    for number in range(40, 60):
        sent.add(1 + number % 2, 10 + 2 * (number % 2), number, 4_000 + 10 * number)
    down = Span(2, BEGIN_MS + 192, BEGIN_MS + 4_410)
    assert [(g.missing, g.cause) for g in gaps_of(sent.lines())] == [(3, LOST_LINES)]
    assert [(g.missing, g.cause) for g in gaps_of(sent.lines(), [down])] == [(3, NEVER_READ)]
    for elsewhere in (replace(down, broker_id=3), Span(2, BEGIN_MS + 60_000, BEGIN_MS + 64_000)):
        assert [g.cause for g in gaps_of(sent.lines(), [elsewhere])] == [LOST_LINES]


def test_requests_behind_a_produce_that_failed_and_awaits_no_answer_were_never_read() -> None:
    sent = Sent()
    for number in range(20):
        sent.add(1 + number % 2, 10 + number % 2, number, 10 * number, acks=0)
    # Broker 2 has closed the connection, and the client connects anew.
    for number in range(60, 80):
        sent.add(1 + number % 2, 10 + 2 * (number % 2), number, 200 + number, acks=0)
    assert [(g.missing, g.cause) for g in gaps_of(sent.lines())] == [(40, NEVER_READ)]
    (inner,) = [g for g in gaps_of(sent.lines({10})) if g.cause == LOST_LINES]
    assert inner.missing == 1, "what came before it was read"


@pytest.mark.parametrize(
    ("acks", "throttle_ms", "cause"),
    [(0, 60_000, NEVER_READ), (0, 0, LOST_LINES), (1, 60_000, LOST_LINES)],
    ids=["its broker is behind", "its broker is not", "it awaits answers"],
)
def test_a_client_goes_on_from_what_waits_on_a_muted_connection(
    acks: int, throttle_ms: int, cause: str
) -> None:
    sent = Sent()
    sent.add(1, 11, 0, 0, api_key=API_VERSIONS)
    for number in range(1, 20):
        sent.add(1, 11, number, 10 * number, acks=acks)
    sent.throttle_ms[-1] = throttle_ms
    # Broker 1 has yet to read 20 to 59, and 70 to 99.
    sent.add(2, 12, 60, 5_000, api_key=API_VERSIONS)
    for number in (*range(61, 70), *range(100, 130)):
        sent.add(2, 12, number, 5_000 + number, acks=acks)
    gaps = gaps_of(sent.lines())
    assert {gap.cause for gap in gaps} == {cause}
    assert missing(gaps) == (70 if cause == NEVER_READ else 30)
