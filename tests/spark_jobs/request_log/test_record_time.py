"""When a broker recorded a request."""

from __future__ import annotations

from spark_jobs.request_log.record_time import recorded_interval

PRODUCE, CREATE_TOPICS = 0, 19


def test_the_record_lies_between_begin_of_handling_and_completion_of_the_response() -> None:
    earliest, latest, estimate = recorded_interval(
        PRODUCE,
        1_000_000,
        handler_time_us=295,
        remote_time_us=2_077,
        response_queue_time_us=901,
        send_time_us=45,
    )
    assert estimate == 1_000_000_000 - 946
    assert earliest == (estimate - 2_372) // 1000 == 999_996
    # The stamp is cut to its millisecond: the line may be 999 µs later.
    assert latest == 1_000_000


def test_times_before_the_epoch_are_floored_too() -> None:
    earliest, latest, estimate = recorded_interval(PRODUCE, 0, 0, 0, 0, 1)
    assert (earliest, latest, estimate) == (-1, 0, -1)


def test_a_mutation_is_recorded_before_the_wait_for_its_commit() -> None:
    _, _, produced = recorded_interval(PRODUCE, 1_000_000, 500, 30_000, 100, 50)
    earliest, _, mutated = recorded_interval(CREATE_TOPICS, 1_000_000, 500, 30_000, 100, 50)
    assert mutated == produced - 30_000
    assert earliest == (mutated - 500) // 1000
