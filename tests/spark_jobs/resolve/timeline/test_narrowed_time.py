"""Which of the broker's own throttle records belongs to which request."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.resolve.broker_log import NOT_MATCHED, matched_records

Row = tuple[int, int, int]
"""earliest_ms, latest_ms, throttle_time_ms; the estimate is the interval's middle."""
Record = tuple[int, int]
"""at_ms, throttle_time_ms."""


def matched(rows: list[Row], records: list[Record]) -> list[int]:
    earliest, latest, throttle = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    return matched_records(
        earliest,
        latest,
        (earliest + latest) * 500,
        throttle,
        [r[0] for r in records],
        [r[1] for r in records],
    ).tolist()


def test_a_row_is_matched_by_its_throttle_time_within_its_interval() -> None:
    rows = [(100, 110, 7), (100, 110, 8), (300, 310, 7)]
    assert matched(rows, [(105, 8), (106, 7), (305, 7)]) == [1, 0, 2]


def test_a_stamp_may_lie_a_millisecond_outside_the_interval_and_no_more() -> None:
    assert matched([(100, 110, 7)], [(99, 7)]) == [0]
    assert matched([(100, 110, 7)], [(111, 7)]) == [0]
    assert matched([(100, 110, 7)], [(98, 7), (112, 7)]) == [NOT_MATCHED]


def test_a_row_without_throttle_has_no_record() -> None:
    assert matched([(100, 110, 0)], [(105, 0)]) == [NOT_MATCHED]


def test_equal_throttles_are_matched_in_order() -> None:
    rows = [(100, 120, 7), (102, 122, 7), (104, 124, 7)]
    assert matched(rows, [(111, 7), (112, 7), (113, 7)]) == [0, 1, 2]
    assert matched(rows[::-1], [(113, 7), (111, 7), (112, 7)]) == [0, 2, 1]


def test_of_two_records_the_nearer_one_is_taken() -> None:
    assert matched([(100, 110, 7)], [(101, 7), (106, 7)]) == [1]


def test_a_record_that_is_missing_leaves_the_row_that_fits_worst_without() -> None:
    assert matched([(100, 110, 7), (108, 118, 7)], [(113, 7)]) == [NOT_MATCHED, 0]


def test_one_more_match_is_worth_more_than_a_small_distance() -> None:
    # The first record is nearest to the second row, which then would leave the other without.
    assert matched([(90, 100, 7), (98, 104, 7)], [(101, 7), (104, 7)]) == [0, 1]


def test_nothing_matches_nothing() -> None:
    assert matched([], [(1, 2)]) == []
    assert matched([(1, 2, 3)], []) == [NOT_MATCHED]


ROWS = st.lists(
    st.builds(
        lambda start, length, throttle: (start, start + length, throttle),
        *(st.integers(0, 30), st.integers(0, 8), st.integers(0, 2)),
    ),
    max_size=5,
)
RECORDS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), max_size=5)


@settings(max_examples=150)
@given(ROWS, RECORDS)
def test_a_matching_is_one_to_one_admissible_and_as_large_as_one_in_order_can_be(
    rows: list[Row], records: list[Record]
) -> None:
    found = matched(rows, records)
    pairs = [(row, record) for row, record in enumerate(found) if record != NOT_MATCHED]
    assert len({record for _, record in pairs}) == len(pairs)
    assert all(fits(rows[row], records[record]) for row, record in pairs)
    assert len(pairs) == largest_in_order(rows, records)


def fits(row: Row, record: Record) -> bool:
    return row[2] == record[1] > 0 and row[0] - 1 <= record[0] <= row[1] + 1


def largest_in_order(rows: list[Row], records: list[Record]) -> int:
    total = 0
    for throttle in {r[2] for r in rows if r[2] > 0}:
        mine = sorted((r for r in rows if r[2] == throttle), key=lambda r: r[0] + r[1])
        total += _in_order(mine, sorted(r for r in records if r[1] == throttle))
    return total


def _in_order(rows: list[Row], records: list[Record]) -> int:
    for size in range(min(len(rows), len(records)), 0, -1):
        for some_rows in combinations(rows, size):
            for some_records in combinations(records, size):
                if all(map(fits, some_rows, some_records)):
                    return size
    return 0
