"""A request's topics share one response: no batch ends between them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.amounts import AMOUNTS
from spark_jobs.transforms.request_runs import request_changes
from spark_jobs.transforms.whole_requests import WholeRequests, last_request_start
from tests.spark_jobs.transforms.amount_rows import amount, batch_of, cut, gathered

Row = dict[str, Any]
IDENTITY = ("connection", "correlation_id", "source_file", "source_line")


def mutations(*topics: int, **columns: Any) -> list[Row]:
    """Return the rows of requests of so many topics each."""
    return [
        amount(
            at_ms, 1.0, quota_type="controller_mutation_rate", source_line=at_ms,
            correlation_id=at_ms // 2, resource_index=index, resource=f"t{index}", **columns,
        )
        for at_ms, n in enumerate(topics)
        for index in range(n)
    ]  # fmt: skip


TOPICS = st.lists(st.integers(1, 5), min_size=1, max_size=8)
CUTS = st.sets(st.integers(1, 40), max_size=8)


@given(TOPICS, CUTS)
@settings(max_examples=40, deadline=None)
def test_no_batch_ends_within_a_request_and_no_row_is_lost_or_moved(
    topics: list[int], cuts: set[int]
) -> None:
    rows = batch_of(mutations(*topics))
    found = [batch.to_pylist() for batch in gathered(WholeRequests(), cut(rows, cuts))]
    assert all(found)
    ends = [(a[-1]["source_line"], b[0]["source_line"]) for a, b in pairwise(found)]
    assert all(last != first for last, first in ends)
    assert [{n: row[n] for n in AMOUNTS.names} for b in found for row in b] == rows.to_pylist()


@given(TOPICS, CUTS)
@settings(max_examples=40, deadline=None)
def test_only_the_rows_of_the_last_request_wait(topics: list[int], cuts: set[int]) -> None:
    sensor = WholeRequests()
    taken = given_out = 0
    lines = [line for line, n in enumerate(topics) for _ in range(n)]
    for batch in cut(batch_of(mutations(*topics)), cuts):
        given_out += sum(map(len, sensor.take(batch)))
        taken += len(batch)
        assert given_out == lines.index(lines[taken - 1])


def test_mutations_have_no_interval_of_a_request_quota_and_prove_nothing() -> None:
    (batch,) = gathered(WholeRequests(), [batch_of(mutations(2))])
    told = {(r["is_proven"], r["throttle_time_min_ms"], r["throttle_time_max_ms"]) for r in
            batch.to_pylist()}  # fmt: skip
    assert told == {(False, None, None)}


def test_a_flushed_sensor_has_nothing_left() -> None:
    sensor = WholeRequests()
    assert list(sensor.flush()) == []
    assert list(sensor.take(batch_of(mutations(3)))) == []
    assert [len(batch) for batch in sensor.flush()] == [3]
    assert list(sensor.flush()) == []


@pytest.mark.parametrize("column", IDENTITY)
def test_each_part_of_what_names_a_request_tells_two_apart(column: str) -> None:
    first, second = mutations(1) * 2
    assert request_changes(batch_of([first, second])).tolist() == [False]
    other = second | {column: "other" if isinstance(second[column], str) else 99}
    assert request_changes(batch_of([first, other])).tolist() == [True]


def test_a_topic_more_is_no_request_more() -> None:
    rows = batch_of(mutations(2, 1, 3))
    assert request_changes(rows).tolist() == [False, True, True, False, False]
    assert last_request_start(rows) == 3


def test_one_row_has_no_change() -> None:
    rows = batch_of(mutations(1))
    assert request_changes(rows).tolist() == []
    assert last_request_start(rows) == 0
