"""When a broker recorded a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lines.record_time import (
    RESPONSE_BUILT_WITHIN_US,
    WAITS_TO_KNOW,
    ReplicaWaits,
    recorded_interval,
)

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
TIMES_US = st.integers(0, 10_000_000)


def test_the_record_lies_between_begin_of_handling_and_completion_of_the_response() -> None:
    earliest, latest, estimate = recorded_interval(
        PRODUCE,
        1_000_000,
        handler_time_us=295,
        remote_time_us=2_077,
        response_queue_time_us=901,
        send_time_us=45,
        acks=-1,
    )
    complete_us = 1_000_000_000 - 901 - 45
    assert estimate == (complete_us + 500) // 1000 * 1000
    # The line's text is made before it is stamped: begin of handling may be a ms earlier.
    assert earliest == (complete_us - 2_077 - 295) // 1000 - 1 == 999_995
    # The stamp is cut to its millisecond: the line may be 999 µs later.
    assert latest == 1_000_000


def test_times_before_the_epoch_are_floored_too() -> None:
    earliest, latest, estimate = recorded_interval(PRODUCE, 0, 0, 0, 0, 501)
    assert (earliest, latest, estimate) == (-2, 0, -1000)


def test_a_mutation_is_recorded_before_the_wait_for_its_commit() -> None:
    _, _, produced = recorded_interval(PRODUCE, 1_000_000, 500, 30_000, 100, 50)
    earliest, latest, mutated = recorded_interval(CREATE_TOPICS, 1_000_000, 500, 30_000, 100, 50)
    assert mutated == produced - 30_000
    assert earliest == 1_000_000 - 30 - 1 - 1
    # In KRaft the controller's queue comes between: it may have been charged during the wait.
    assert latest == 1_000_000


@pytest.mark.parametrize("acks", [0, 1])
def test_a_produce_that_awaits_no_replica_is_recorded_in_its_handler(acks: int) -> None:
    waited = recorded_interval(PRODUCE, 1_000_000, 500, 30_000, 100, 50, acks)
    immediate = recorded_interval(PRODUCE, 1_000_000 - 30, 500, 0, 100, 50, acks)
    assert waited == immediate


def test_a_short_remote_time_is_the_building_of_a_response_and_a_long_one_a_wait() -> None:
    short, long = RESPONSE_BUILT_WITHIN_US - 1, RESPONSE_BUILT_WITHIN_US
    _, latest, estimate = recorded_interval(FETCH, 1_000_000, 500, short, 0, 400)
    # Before the response was built: 1 000 000 000 − 400 − 299 + 500.
    assert (latest, estimate) == (1_000_000, 999_999_000)
    assert recorded_interval(FETCH, 1_000_000, 500, long, 0, 400)[2] == 1_000_000_000


def test_a_topic_that_mostly_does_not_wait_never_does() -> None:
    waits = ReplicaWaits()
    assert waits.has_waited(["single"], 90_000)
    assert [waits.has_waited(["single"], 80) for _ in range(WAITS_TO_KNOW)] == [False] * 20
    assert not waits.has_waited(["single"], 90_000)


def test_a_topic_that_mostly_waits_may_be_quick_now_and_then() -> None:
    waits = ReplicaWaits()
    assert all(waits.has_waited(["replicated"], 1_000) for _ in range(WAITS_TO_KNOW))
    assert not waits.has_waited(["replicated"], 200)
    assert waits.has_waited(["replicated"], 1_000)


def test_a_produce_to_two_topics_waits_where_one_of_them_does() -> None:
    waits = ReplicaWaits()
    for _ in range(WAITS_TO_KNOW):
        waits.has_waited(["single"], 80)
        waits.has_waited(["replicated"], 1_000)
    assert waits.has_waited(["single", "replicated"], 1_000)
    assert not waits.has_waited(["single"], 1_000)


def test_a_known_topic_overrules_the_remote_time_of_one_request() -> None:
    paused = recorded_interval(PRODUCE, 1_000_000, 500, 40_000, 0, 0, acks=-1, has_waited=False)
    waited = recorded_interval(PRODUCE, 1_000_000, 500, 40_000, 0, 0, acks=-1, has_waited=True)
    assert (paused[2], waited[2]) == (999_960_000, 1_000_000_000)
    assert paused[:2] == waited[:2]


@given(
    st.sampled_from([PRODUCE, FETCH, CREATE_TOPICS]),
    st.tuples(TIMES_US, TIMES_US, TIMES_US, TIMES_US),
    st.sampled_from([None, 0, 1, -1]),
    st.sampled_from([None, False, True]),
)
def test_the_estimate_is_a_whole_millisecond_inside_the_interval_and_the_logged_phases(
    api_key: int, times_us: tuple[int, int, int, int], acks: int | None, has_waited: bool | None
) -> None:
    handler_us, remote_us, queue_us, send_us = times_us
    earliest, latest, estimate = recorded_interval(
        api_key, 1_800_000_000_000, *times_us, acks, has_waited
    )
    assert estimate % 1000 == 0
    assert earliest <= estimate // 1000 <= latest
    done_us = 1_800_000_000_000_000 - queue_us - send_us
    assert (done_us - remote_us - handler_us) / 1000 - 2 <= earliest
    assert latest <= done_us / 1000 + 1


def test_more_topics_than_a_broker_has_are_not_remembered() -> None:
    waits = ReplicaWaits()
    for i in range(100_000):
        waits.has_waited([f"topic-{i}"], 0)
    for topic in ("topic-0", "one-more", "x" * 250):
        for _ in range(WAITS_TO_KNOW):
            waits.has_waited([topic], 0)
    assert not waits.has_waited(["topic-0"], RESPONSE_BUILT_WITHIN_US)
    assert waits.has_waited(["one-more"], RESPONSE_BUILT_WITHIN_US)
    assert waits.has_waited(["x" * 250], RESPONSE_BUILT_WITHIN_US)
