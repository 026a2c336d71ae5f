"""Throttled fetches among fixed rows: whose tries are followed together, and which is odd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.rates.throttled_fetches import throttled_fetch_attempts
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.replay.verdicts.fetch_attempt import ODD_ATTEMPTS, Attempt, FetchAttempts
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows
from tests.spark_jobs.replay.sensors.amount_rows import amount

BOUND = 500_000.0
FIRST_BYTES, NEXT_BYTES = 120, 90
"""A fetch that names its partitions, and one within a session that names none."""
# 100 ms at the bound, besides the record interval.
SLACK = 50_000.0
Row = dict[str, Any]


def fetch(size: float, *, throttled: bool = False, at_ms: int = 0, **columns: Any) -> Row:
    """Return a fetch that held ``size``; a throttled one handed out nothing."""
    of_fetch = {
        "quota_type": "consumer_byte_rate",
        "api_name": "FETCH",
        "behaviour": RECORD_AND_UNRECORD if throttled else RECORD,
        "logged_throttle_time_ms": 2_000 if throttled else 0,
        "has_records": not throttled,
        "has_errors": False,
        "request_bytes": NEXT_BYTES if throttled else FIRST_BYTES,
        "fetch_max_bytes": 52_428_800,
        "bound": BOUND,
    }
    return amount(at_ms, size, **of_fetch | columns)


def tries(*sizes: float, **columns: Any) -> list[Row]:
    """Return throttled fetches of one position: only the first names it."""
    return [
        fetch(size, throttled=True, at_ms=2_000 * i, **columns)
        | ({"request_bytes": FIRST_BYTES} if i == 0 else {})
        for i, size in enumerate(sizes)
    ]


def found(
    rows: list[Row],
    sensor: list[int] | None = None,
    profile: RateProfile = RateProfile.RATE_3_8,
) -> FetchAttempts:
    """Return what is said of ``rows`` of which sensors; the sizes are what throttles give back."""
    states = StreamStates(BrokerRules(profile, 11, 1000, 11, 1000), "consumer_byte_rate")
    made = stream_rows(rows)
    return throttled_fetch_attempts(
        made,
        np.array(sensor or [0] * len(rows), np.int64),
        made.at_ms,
        made.amount,
        np.array([row["behaviour"] == RECORD_AND_UNRECORD for row in rows], bool),
        np.zeros(len(rows), np.int64),
        states,
    )


def attempts(rows: list[Row], sensor: list[int] | None = None) -> list[Attempt]:
    return [Attempt(code) for code in found(rows, sensor).attempt.tolist()]


SIZES = st.floats(1.0, 4e6)
# Twice as much is below what the quota cuts a fetch to: no batch was left out.
UNCUT_SIZES = st.floats(1.0, 2.4e6)
# The reads of one connection: growing tries, then what was handed out, or nothing at the end.
READS = st.lists(st.lists(SIZES, min_size=1, max_size=4).map(sorted), max_size=4)


@st.composite
def clients_reading_on(draw: st.DrawFn) -> tuple[list[Row], list[int]]:
    """Return the rows of two sensors with two connections each, and each row's sensor."""
    rows: list[Row] = []
    sensors: list[int] = []
    for sensor in (0, 1):
        of_connections = []
        for connection in ("a", "b"):
            client = {"connection": connection}
            mine: list[Row] = []
            for *tried, handed_out in draw(READS):
                mine += tries(*tried, **client)
                size = NEXT_BYTES if tried else FIRST_BYTES
                mine.append(fetch(handed_out, request_bytes=size, **client))
            mine += tries(*draw(st.lists(SIZES, max_size=2).map(sorted)), **client)
            of_connections.append(mine)
        first, second = of_connections
        turns = draw(st.permutations([True] * len(first) + [False] * len(second)))
        for turn in turns:
            row = (first if turn else second).pop(0)
            at_ms = 2_000 * len(rows)
            rows.append(row | {k: v for k, v in fetch(0.0, at_ms=at_ms).items() if "_ms" in k
                               and k != "logged_throttle_time_ms"})  # fmt: skip
            sensors.append(sensor)
    return rows, sensors


@given(clients_reading_on())
@settings(max_examples=40)
def test_clients_that_read_on_are_never_accused(logged: tuple[list[Row], list[int]]) -> None:
    rows, sensors = logged
    if not rows:
        return
    judged = found(rows, sensors)
    assert not np.isin(judged.attempt, ODD_ATTEMPTS).any()
    assert judged.amount.tolist() == [row["amount"] for row in rows]
    is_try = [row["behaviour"] == RECORD_AND_UNRECORD for row in rows]
    assert (judged.attempt != Attempt.NOT_THROTTLED).tolist() == is_try


@given(
    sizes=st.lists(UNCUT_SIZES, min_size=1, max_size=5).map(sorted),
    more=st.floats(1.0, 4e6),
)
@settings(max_examples=40)
def test_a_last_try_above_what_was_handed_out_is_accused_and_was_that(
    sizes: list[float], more: float
) -> None:
    *before, handed_out = sizes
    planted = handed_out + SLACK + more
    rows = [*tries(*before, planted), fetch(handed_out, request_bytes=NEXT_BYTES)]
    judged = found(rows)
    assert judged.attempt[-2] == Attempt.TOO_LARGE
    assert judged.amount[-2] == handed_out
    assert set(judged.attempt[:-2].tolist()) <= {Attempt.PLAUSIBLE}
    assert judged.amount[:-2].tolist() == before


def test_an_excess_within_the_record_interval_and_the_slack_is_no_evidence() -> None:
    def attempt(excess: float, interval_ms: int) -> Attempt:
        (tried,) = tries(9e5 + excess, latest_ms=interval_ms)
        return attempts([tried, fetch(9e5, request_bytes=NEXT_BYTES, at_ms=2_000)])[0]

    assert attempt(SLACK, 0) is Attempt.PLAUSIBLE
    assert attempt(SLACK + 1.0, 0) is Attempt.TOO_LARGE
    assert attempt(2 * SLACK, 100) is Attempt.PLAUSIBLE
    assert attempt(2 * SLACK + 1.0, 100) is Attempt.TOO_LARGE


def test_a_try_that_shrank_between_two_that_did_not_was_throttled_for_too_short() -> None:
    rows = [*tries(6e5, 6e5, 2e5, 7e5), fetch(9e5, request_bytes=NEXT_BYTES)]
    judged = found(rows)
    assert judged.attempt.tolist() == [
        Attempt.PLAUSIBLE, Attempt.PLAUSIBLE, Attempt.TOO_SMALL, Attempt.PLAUSIBLE,
        Attempt.NOT_THROTTLED,
    ]  # fmt: skip
    assert judged.amount[2] == 6e5


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (NEXT_BYTES, Attempt.TOO_LARGE),
        (FIRST_BYTES, Attempt.TOO_LARGE),
        # Partitions are named again: another position, of which the try says nothing.
        (FIRST_BYTES + 1, Attempt.UNKNOWN),
        (None, Attempt.UNKNOWN),
    ],
)
def test_a_longer_request_after_a_throttled_try_begins_anew(
    request_bytes: int | None, expected: Attempt
) -> None:
    rows = [*tries(9e5), fetch(2e5, request_bytes=request_bytes, at_ms=2_000)]
    assert attempts(rows)[0] is expected


def test_a_seek_does_not_make_the_tries_after_it_shrink() -> None:
    longer = {"request_bytes": FIRST_BYTES + 1}
    rows = [
        *tries(9e5, 9e5),
        *[row | longer for row in tries(2e5)],
        fetch(3e5, request_bytes=NEXT_BYTES),
    ]
    assert attempts(rows)[:3] == [Attempt.UNKNOWN, Attempt.UNKNOWN, Attempt.PLAUSIBLE]
    stayed = [*tries(9e5, 9e5, 2e5), fetch(3e5, request_bytes=NEXT_BYTES)]
    assert Attempt.TOO_LARGE in attempts(stayed)


def test_a_longer_request_after_an_answer_with_data_goes_on() -> None:
    rows = [
        fetch(9e5, request_bytes=NEXT_BYTES),
        fetch(9e5, throttled=True, request_bytes=FIRST_BYTES, at_ms=2_000),
    ]
    # It is no larger than what the client was given before.
    assert attempts(rows)[1] is Attempt.PLAUSIBLE


def test_an_answer_without_records_ends_no_run() -> None:
    empty = fetch(30.0, has_records=False, request_bytes=NEXT_BYTES)
    not_said = fetch(30.0, has_records=None, request_bytes=NEXT_BYTES)
    for nothing in (empty, not_said):
        assert attempts([*tries(9e5), nothing])[0] is Attempt.UNKNOWN
        last = fetch(2e5, request_bytes=NEXT_BYTES)
        assert attempts([*tries(9e5), nothing, last])[0] is Attempt.TOO_LARGE


def test_an_answer_with_an_error_ends_a_run() -> None:
    fenced = fetch(130.0, has_records=False, has_errors=True, request_bytes=NEXT_BYTES)
    small = fetch(2e5, request_bytes=NEXT_BYTES)
    assert attempts([*tries(9e5), fenced, small])[0] is Attempt.UNKNOWN
    # One that hands out some of what was tried says nothing of the rest.
    half = fetch(2e5, has_errors=True, request_bytes=NEXT_BYTES)
    assert attempts([*tries(9e5), half])[0] is Attempt.UNKNOWN
    not_said = fetch(2e5, has_errors=None, request_bytes=NEXT_BYTES)
    assert attempts([*tries(9e5), not_said])[0] is Attempt.TOO_LARGE


@pytest.mark.parametrize(
    ("profile", "expected"),
    [(RateProfile.RATE_3_3, Attempt.TOO_LARGE), (RateProfile.RATE_3_8, Attempt.PLAUSIBLE)],
)
def test_a_sample_that_may_have_left_counts_by_its_profile(
    profile: RateProfile, expected: Attempt
) -> None:
    # The first sample is from 0 to 800 ms: 11 s before the try its last event may have left.
    rows = [
        fetch(9e5, request_bytes=NEXT_BYTES),
        fetch(9e5, request_bytes=NEXT_BYTES, at_ms=800),
        fetch(20e5, throttled=True, at_ms=11_800, earliest_ms=11_799, latest_ms=11_801),
        fetch(9e5, request_bytes=NEXT_BYTES, at_ms=14_000),
    ]
    assert Attempt(found(rows, profile=profile).attempt[2]) is expected


def test_a_client_with_a_request_quota_may_be_throttled_by_that() -> None:
    rows = [
        *tries(9e5, has_request_bound=True),
        fetch(2e5, request_bytes=NEXT_BYTES, has_request_bound=True),
    ]
    assert attempts(rows) == [Attempt.BY_REQUEST_QUOTA, Attempt.NOT_THROTTLED]


@pytest.mark.parametrize(
    ("connection", "sensor", "expected"),
    [
        ("a", 0, Attempt.TOO_LARGE),
        ("b", 0, Attempt.UNKNOWN),
        ("a", 1, Attempt.UNKNOWN),
        ("b", 1, Attempt.UNKNOWN),
    ],
)
def test_what_another_connection_or_sensor_was_given_says_nothing_of_a_try(
    connection: str, sensor: int, expected: Attempt
) -> None:
    rows = [*tries(9e5, connection="a")]
    rows.append(fetch(2e5, connection=connection, request_bytes=NEXT_BYTES, at_ms=2_000))
    assert attempts(rows, [0, sensor])[0] is expected


@pytest.mark.parametrize(
    ("profile", "expected", "bytes_at_most"),
    [
        # 2 MB/s: ten samples of it, and what a response has besides.
        (RateProfile.RATE_3_8, Attempt.OVER_LIMIT, 20e6 * 1.05),
        (RateProfile.RATE_0_9, Attempt.PLAUSIBLE, 30e6),
    ],
)
def test_no_more_than_the_quota_allows_is_read_where_the_broker_cuts_to_it(
    profile: RateProfile, expected: Attempt, bytes_at_most: float
) -> None:
    bound = {"bound": 2e6}
    judged = found(
        [*tries(30e6, **bound), fetch(30e6, request_bytes=NEXT_BYTES, **bound)], profile=profile
    )
    assert judged.attempt.tolist() == [expected, Attempt.NOT_THROTTLED]
    assert judged.amount.tolist() == [bytes_at_most, 30e6]


def test_without_a_throttled_fetch_nothing_is_said() -> None:
    judged = found([fetch(9e5), fetch(2e5)])
    assert judged.attempt.tolist() == [Attempt.NOT_THROTTLED] * 2
    assert judged.amount.tolist() == [9e5, 2e5]


def test_a_try_whose_size_the_state_alone_exceeds_is_unknown() -> None:
    rows = [*tries(float("nan")), *tries(0.0), fetch(2e5, request_bytes=NEXT_BYTES)]
    assert attempts(rows)[:2] == [Attempt.UNKNOWN] * 2


def test_tries_of_a_share_group_are_no_run() -> None:
    sizes = (5e5, 6e5, 1e5, 7e5)
    assert Attempt.TOO_SMALL in attempts([*tries(*sizes), fetch(8e5, request_bytes=NEXT_BYTES)])
    shared = {"api_name": "SHARE_FETCH"}
    after = fetch(8e5, request_bytes=NEXT_BYTES, **shared)
    assert set(attempts(tries(*sizes, **shared))) == {Attempt.UNKNOWN}
    assert Attempt.TOO_SMALL not in attempts([*tries(*sizes, **shared), after])


@pytest.mark.parametrize(("joined_ms", "is_accused"), [(0, True), (6_000, False)])
def test_a_client_that_was_counted_elsewhere_meanwhile_has_read_on_there(
    joined_ms: int, *, is_accused: bool
) -> None:
    # Its data grew to 2 MB, which it was handed out on the other sensor.
    rows = [
        *tries(3e5, 9e5, 2e6),
        fetch(1e5, at_ms=8_000, request_bytes=NEXT_BYTES, joined_ms=joined_ms),
    ]
    assert any(attempt in ODD_ATTEMPTS for attempt in attempts(rows)) == is_accused
