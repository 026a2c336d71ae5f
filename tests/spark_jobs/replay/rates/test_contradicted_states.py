"""A state that throttles prove is known for a while: many in a row that it denies are wrong."""

from __future__ import annotations

import pytest

from spark_jobs.replay.alignment.contradicted import RUN_MIN
from tests.spark_jobs.replay.rates.stream_logs import Row, produce, throttled_log, wrong_rows

BOUND, SIZE, EVERY_MS = 10_000.0, 1_150.0, 97
FORGETS_MS, SECONDS = 25_000, 60


def log(forgets_ms: int | None = None, shifted_ms: int = 0) -> list[Row]:
    """Return produces of a broker that forgets its sensor at ``forgets_ms``.

    ``shifted_ms`` is by how much longer each throttle of after ``FORGETS_MS`` is logged.
    """
    rows = [
        produce(at_ms, SIZE, bound=BOUND, connection=f"c{number}")
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


def test_a_broker_that_keeps_its_state_is_accused_of_nothing() -> None:
    assert wrong_ms(log()) == []


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


@pytest.mark.parametrize(("forgets_ms", "is_proven"), [(10_500, False), (FORGETS_MS, True)])
def test_a_state_that_throttles_have_not_proven_contradicts_nobody(
    forgets_ms: int, *, is_proven: bool
) -> None:
    # As much as a window and the amount of a sample explain everywhere.
    apart_ms = 1_000 + 10 * SIZE * 1_000 / BOUND
    due_ms = [row["replayed_throttle_time_ms"] for row in wrong_rows(log(forgets_ms))]
    assert (min(due_ms) < apart_ms) == is_proven


# Four requests count 460 ms, and there are 388 ms between them.
@pytest.mark.parametrize(("shifted_ms", "is_wrong"), [(90, False), (800, False), (1_000, True)])
def test_what_samples_that_began_with_requests_beside_explain_accuses_nobody(
    shifted_ms: int, *, is_wrong: bool
) -> None:
    assert bool(wrong_ms(log(shifted_ms=shifted_ms))) == is_wrong


def test_fewer_than_that_in_a_row_are_contradicted_by_nothing() -> None:
    def fewer(rows: list[Row], number: int) -> list[Row]:
        first = next(i for i, row in enumerate(rows) if row["source_line"] >= FORGETS_MS)
        return rows[: first + number]

    assert wrong_ms(fewer(log(FORGETS_MS), RUN_MIN - 1)) == []
    assert len(wrong_ms(fewer(log(FORGETS_MS), RUN_MIN))) == RUN_MIN
