"""What no times of the requests explain is wrong, though no neighbour proves it."""

from __future__ import annotations

import pytest

from tests.spark_jobs.replay.rates.stream_logs import Row, produce, throttled_log, wrong_rows

BOUND, SIZE, EVERY_MS = 10_000.0, 1_150.0, 97
FORGETS_MS, SECONDS = 25_000, 45
WARM_UP_MS = 12_000


def log(
    forgets_ms: int | None = None, shifted_ms: int = 0, known_for_ms: int = 0, **columns: int
) -> list[Row]:
    """Return produces of a broker that forgets its sensor at ``forgets_ms``.

    ``shifted_ms`` is by how much longer each throttle of after ``FORGETS_MS`` is logged, and
    ``known_for_ms`` the time before the first request in which the log has none.
    """
    rows = [
        produce(
            at_ms,
            SIZE,
            bound=BOUND,
            connection=f"c{number}",
            known_for_ms=known_for_ms + at_ms,
            **columns,
        )
        for number, at_ms in enumerate(range(0, SECONDS * 1_000, EVERY_MS))
    ]
    last_ms = SECONDS * 1_000 if forgets_ms is None else forgets_ms
    before = [row for row in rows if row["source_line"] < last_ms]
    after = [row for row in rows if row["source_line"] >= last_ms]
    told = throttled_log(before) + throttled_log(after)
    for row in told:
        is_later = row["source_line"] >= FORGETS_MS and row["logged_throttle_time_ms"]
        row["logged_throttle_time_ms"] += shifted_ms if is_later else 0
    return told


def wrong_ms(rows: list[Row]) -> list[int]:
    return [row["source_line"] for row in wrong_rows(rows)]


@pytest.mark.parametrize("known_for_ms", [0, WARM_UP_MS])
def test_a_broker_that_keeps_its_state_is_accused_of_nothing(known_for_ms: int) -> None:
    assert wrong_ms(log(known_for_ms=known_for_ms)) == []


def test_what_a_broker_did_after_it_had_forgotten_a_proven_state_is_wrong() -> None:
    found = wrong_ms(log(FORGETS_MS))
    assert found
    assert FORGETS_MS <= min(found) <= FORGETS_MS + EVERY_MS
    # A throttle is due all the while, and none is given until the rate is above the quota again.
    silent = [
        row["source_line"]
        for row in log(FORGETS_MS)
        if row["source_line"] >= FORGETS_MS and not row["logged_throttle_time_ms"]
    ]
    assert len(set(found) & set(silent)) > 0.9 * len(silent) > 50


@pytest.mark.parametrize(("known_for_ms", "is_known"), [(0, False), (WARM_UP_MS, True)])
def test_a_state_of_which_the_beginning_is_not_known_contradicts_nobody(
    known_for_ms: int, *, is_known: bool
) -> None:
    # As much as a window and the amount of a sample explain everywhere.
    apart_ms = 990 + 10 * SIZE * 1_000 / BOUND
    rows = wrong_rows(log(10_500, known_for_ms=known_for_ms))
    due_ms = [row["replayed_throttle_time_ms"] for row in rows]
    assert (min(due_ms) < apart_ms) == is_known


def test_where_a_line_is_missing_any_sample_may_have_begun_elsewhere() -> None:
    assert wrong_ms(log(FORGETS_MS))
    assert wrong_ms(log(FORGETS_MS, lost_requests=1)) == []


@pytest.mark.parametrize("shifted_ms", [0, 30])
def test_a_state_that_is_off_all_the_while_is_wrong_by_more_than_times_leave_open(
    shifted_ms: int,
) -> None:
    assert bool(wrong_ms(log(shifted_ms=shifted_ms, known_for_ms=WARM_UP_MS))) == (shifted_ms > 0)


@pytest.mark.parametrize(("later_ms", "is_wrong"), [(0, True), (7, False)])
def test_a_line_is_later_by_as_much_as_that_of_the_throttle_before_it_was(
    later_ms: int, *, is_wrong: bool
) -> None:
    # Of three lines of one connection in a row the last is 7 ms late, or all are; the first may be.
    rows = log(known_for_ms=WARM_UP_MS)
    first, second, last = rows[250], rows[262], rows[274]
    for row, late_ms in ((first, later_ms), (second, later_ms), (last, 7)):
        row["connection"] = "muted"
        for name in ("recorded_at_ms", "earliest_ms", "latest_ms", "likely_from_ms"):
            row[name] += late_ms
    first["line_lag_max_ms"] = 50
    assert wrong_ms(rows) == [last["source_line"]] * is_wrong
