"""When brokers started, as their connections show."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lost_lines.gap_spans import Span
from spark_jobs.ingest.quota_sources.restarts import (
    INFERRED,
    SERVER_LOG,
    BrokerStart,
    ConnectionSpan,
    inferred_starts,
    known_starts,
    restart_spans,
    restarts_ms,
)

PORT = iter(range(30_000, 65_000))


def span(
    number: str,
    first_ms: int,
    last_ms: int,
    broker_id: int = 1,
    *,
    is_opened: bool = False,
    listener: int = 9092,
) -> ConnectionSpan:
    """Return a connection; ``number`` is what its name ends with: [thread-]index."""
    name = f"10.0.0.1:{listener}-10.0.0.9:{next(PORT)}-{number}"
    return ConnectionSpan(broker_id, name, first_ms, last_ms, is_opened)


BEFORE = [span("0-0", 0, 9_000), span("1-0", 10, 10_000), span("0-1", 5_000, 9_500)]
AFTER = [span("0-0", 13_000, 20_000), span("1-0", 13_100, 20_000)]


def test_connections_that_are_numbered_anew_after_a_silence_show_a_start() -> None:
    (start,) = inferred_starts(AFTER + BEFORE)
    assert (start.broker_id, start.started_ms, start.source) == (1, 13_000, INFERRED)
    assert json.loads(start.evidence) == {
        "silent_from_ms": 10_000,
        "connections_ended": 3,
        "numbered_anew": AFTER[0].connection,
    }


def test_every_start_of_every_broker_is_found() -> None:
    again = [span("0-0", 40_000, 50_000), span("0-0", 0, 1, broker_id=2)]
    assert [s.started_ms for s in inferred_starts(BEFORE + AFTER + again)] == [13_000, 40_000]


def test_a_broker_was_down_from_its_last_answer_until_it_was_asked_again() -> None:
    begun = [span(f"0-{n}", n, 10, broker_id=2, is_opened=True) for n in (0, 1)]
    starts = inferred_starts([*BEFORE, *AFTER, *begun])
    assert [start.broker_id for start in starts] == [1, 2]
    assert restart_spans(starts) == [Span(1, 10_000, 13_000)]


def test_after_a_silence_of_more_than_ten_minutes_a_file_may_be_missing() -> None:
    late = [span("0-0", 620_000, 640_000), span("1-0", 620_100, 630_000)]
    starts = inferred_starts([*BEFORE, *late])
    assert [start.started_ms for start in starts] == [620_000]
    assert restart_spans(starts) == []


def test_a_connection_that_lives_on_disproves_a_start() -> None:
    assert inferred_starts([*BEFORE, span("2-0", 0, 13_001), *AFTER]) == []


def test_a_short_silence_is_no_start() -> None:
    assert inferred_starts([*BEFORE, span("0-0", 10_999, 20_000)]) == []


def test_connections_that_are_numbered_on_show_no_start() -> None:
    assert (
        inferred_starts([*BEFORE, span("0-2", 13_000, 20_000), span("1-1", 13_000, 14_000)]) == []
    )


def test_without_the_threads_in_the_names_a_first_index_may_be_another_threads() -> None:
    def numbered(indexes: str) -> list[ConnectionSpan]:
        return [span(index, 0, 10_000) for index in indexes] + [span("0", 13_000, 14_000)]

    assert inferred_starts(numbered("01")) == []
    assert [s.started_ms for s in inferred_starts(numbered("0012"))] == [13_000]


def test_names_of_another_kind_show_nothing() -> None:
    names = ["EMBEDDED", "EMBEDDED-0-0"]
    spans = [
        ConnectionSpan(1, n, i * 10_000, i * 10_000 + 1, True) for i, n in enumerate(names * 2)
    ]
    assert inferred_starts(spans) == []


def opened(numbers: str, listener: int = 9092) -> list[ConnectionSpan]:
    """Return connections that were opened in the log, a second after one another, from 1 s on."""
    return [
        span(number, 1_000 * i, 20_000, is_opened=True, listener=listener)
        for i, number in enumerate(numbers.split(), 1)
    ]


@pytest.mark.parametrize("numbers", ["0-0 1-0 2-0 0-1", "0 0 0 1 1 1 2", "0 0 1 1 2 2 3"])
def test_a_broker_whose_threads_all_begin_in_the_log_starts_with_it(numbers: str) -> None:
    (start,) = inferred_starts(opened(numbers))
    assert (start.started_ms, start.source) == (1_000, INFERRED)
    assert json.loads(start.evidence)["is_first_of_log"]
    # So does one that is started again, in the first of its lives.
    again = [span("0-0", 30_000, 31_000), span("0", 30_000, 31_000)]
    assert [s.started_ms for s in inferred_starts(opened(numbers) + again)] == [1_000, 30_000]


@pytest.mark.parametrize(
    "numbers",
    [
        # One of its threads has had a connection before.
        "0-0 1-0 2-1 0-1",
        "0 0 1 1 1 2 2 2",
        # Others may have had one: it was not yet their turn again.
        "0-0 1-0",
        "0 0 0 1",
        "3 3 4 4",
    ],
)
def test_a_broker_may_have_started_before_its_log(numbers: str) -> None:
    assert inferred_starts(opened(numbers)) == []


def test_a_connection_from_before_the_log_says_that_its_broker_is_older() -> None:
    for number in ("0-0", "0-2"):
        older = span(number, 0, 20_000)
        assert inferred_starts([*opened("0-0 1-0 0-1"), older]) == []
    older = span("0-0", 0, 20_000, listener=9093)
    assert inferred_starts([*opened("0-0 1-0 0-1"), older]) == []
    # One listener tells of a broker whose other listeners have few connections.
    assert inferred_starts(opened("0-0 1-0 0-1") + opened("2-0", 9093)) != []


@given(st.integers(1, 4), st.integers(0, 12), st.integers(1, 12), st.booleans())
def test_a_log_that_begins_after_a_connection_shows_no_start(
    threads: int, before: int, after: int, tells_threads: bool
) -> None:
    """Threads have connections in turn; the log has those after the first ``before``."""
    turns = [divmod(i, threads) for i in range(before, before + after)]
    names = [f"{thread}-{index}" if tells_threads else f"{index}" for index, thread in turns]
    starts = inferred_starts(opened(" ".join(names)))
    assert not (before and starts)


def test_a_broker_that_logs_its_starts_is_believed() -> None:
    logged = [BrokerStart(1, 5, SERVER_LOG, "server.log", 3, "started")]
    guessed = [BrokerStart(b, 9, INFERRED, None, None, "{}") for b in (1, 2)]
    known = known_starts(logged, guessed)
    assert [(s.broker_id, s.started_ms) for s in known] == [(1, 5), (2, 9)]
    assert restarts_ms(s.row() for s in [*known[::-1], *guessed]) == {1: [5, 9], 2: [9, 9]}


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 5_000)), min_size=1, max_size=30))
def test_a_broker_that_was_never_restarted_shows_no_start(times: list[tuple[int, int]]) -> None:
    accepted = sorted(times)
    spans = [span(f"0-{i}", first, first + length) for i, (first, length) in enumerate(accepted)]
    assert inferred_starts(spans) == []
