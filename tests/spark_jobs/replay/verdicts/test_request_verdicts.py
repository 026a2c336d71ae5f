"""Verdicts of requests that a bandwidth quota and the request quota throttle together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.codes import VERDICTS, WRONG_VERDICTS
from spark_jobs.replay.verdicts.request_verdicts import SharedRows, fix_shared
from spark_jobs.replay.verdicts.verdicts import (
    LIKELY_REQUEST_TIME,
    REQUEST_QUOTA_INTERVAL,
    Verdicts,
)

TOLERANCE_MS = 5
OPEN = ("indeterminate", REQUEST_QUOTA_INTERVAL)
LIKELY = ("agree", LIKELY_REQUEST_TIME)
# What holds where the request quota cannot be told, and where it asked for nothing.
BEFORE, ALONE = ("before", "why before"), ("alone", "why alone")
Verdict = tuple[str, str | None]


def shared_row(**overrides: object) -> SharedRows:
    row = {
        "is_request_quota": False,
        "is_unrecorded": False,
        "logged_ms": 0,
        "replayed_ms": 0,
        "throttle_min_ms": 0,
        "throttle_max_ms": 0,
        "is_interval_known": True,
        "throttle_likely_min_ms": overrides.get("throttle_min_ms", 0),
        "throttle_likely_max_ms": overrides.get("throttle_max_ms", 0),
        "other_ms": -1,
        "window_ms": 1000,
    } | overrides
    return SharedRows(**{name: np.array([value]) for name, value in row.items()})


def verdicts(*rows: Verdict) -> Verdicts:
    return Verdicts(*(np.array(column, object) for column in zip(*rows, strict=True)))


def fixed(before: Verdict = BEFORE, alone: Verdict = ALONE, **overrides: object) -> Verdict:
    found = fix_shared(shared_row(**overrides), verdicts(before), verdicts(alone), TOLERANCE_MS)
    return found.verdict[0], found.reason[0]


@pytest.mark.parametrize(
    ("logged", "least", "most", "other", "expected"),
    [
        (0, 0, 0, -1, ("agree", None)),
        (345, 340, 345, -1, ("agree", None)),
        (335, 340, 345, -1, ("agree", None)),
        (334, 340, 345, -1, ("under_throttled", None)),
        (0, 10, 900, -1, ("under_throttled", None)),
        (351, 340, 345, -1, ("over_throttled", None)),
        (500, 0, 900, -1, OPEN),
        (0, 0, 900, -1, OPEN),
        # A window is the most there is.
        (1000, 0, 1000, -1, ("agree", None)),
        (1001, 0, 1000, -1, OPEN),
        # With another quota on the request, a longer throttle is no fault of this one.
        (351, 340, 345, 351, ("agree", None)),
        (9000, 340, 345, 0, ("agree", None)),
        (334, 340, 345, 334, ("under_throttled", None)),
        (500, 0, 900, 500, OPEN),
    ],
)
def test_the_request_quota_is_judged_by_its_interval(
    logged: int, least: int, most: int, other: int, expected: Verdict
) -> None:
    row = {"logged_ms": logged, "throttle_min_ms": least, "throttle_max_ms": most}
    assert fixed(is_request_quota=True, other_ms=other, **row) == expected


@pytest.mark.parametrize(
    ("logged", "replayed", "least", "most", "expected"),
    [
        # Its own quota explains the log, whatever the other may have asked for.
        (300, 300, 0, 0, ("agree", None)),
        (300, 305, 0, 900, ("agree", None)),
        (0, 0, 0, 900, ("agree", None)),
        # The request quota explains it.
        (400, 300, 398, 402, ("agree", None)),
        (1000, 300, 0, 1000, ("agree", None)),
        # It may explain it.
        (500, 300, 0, 900, OPEN),
        # Neither it nor anything else but its own rules can.
        (906, 300, 0, 900, ALONE),
        (600, 300, 0, 0, ALONE),
        (3, 0, 0, 0, ALONE),
        # Its own quota asks for more than was logged.
        (500, 800, 0, 900, ALONE),
        # Both ask for more: it is at fault as well.
        (300, 800, 400, 900, ALONE),
        (300, 295, 400, 900, ALONE),
        # Only the request quota was not kept to.
        (300, 294, 400, 900, OPEN),
        (300, 0, 400, 900, OPEN),
    ],
)
def test_a_bandwidth_quota_is_judged_by_what_the_request_quota_leaves_to_it(
    logged: int, replayed: int, least: int, most: int, expected: Verdict
) -> None:
    row = {"throttle_min_ms": least, "throttle_max_ms": most}
    assert fixed(logged_ms=logged, replayed_ms=replayed, **row) == expected


@pytest.mark.parametrize(
    ("logged", "least", "most", "expected"),
    [
        # The throttle gives the size back only where it is surely not the request quota's.
        (2000, 0, 1000, ALONE),
        (906, 0, 900, ALONE),
        (905, 0, 900, OPEN),
        (300, 300, 300, OPEN),
        (300, 400, 900, OPEN),
        (1000, 0, 1000, OPEN),
        (2000, 0, 0, ALONE),
    ],
)
def test_a_throttled_fetch_is_judged_only_where_the_request_quota_surely_asked_for_less(
    logged: int, least: int, most: int, expected: Verdict
) -> None:
    # Its replayed throttle was made from the logged one.
    row = {"throttle_min_ms": least, "throttle_max_ms": most, "is_unrecorded": True}
    assert fixed(logged_ms=logged, replayed_ms=logged, **row) == expected


@pytest.mark.parametrize(
    ("logged", "likely", "other", "expected"),
    [
        # No throttle is likely, and none was logged, or hardly one.
        (0, (0, 0), -1, LIKELY),
        (0, (0, 5), -1, LIKELY),
        (5, (0, 0), -1, LIKELY),
        # Such a throttle is likely.
        (304, (300, 303), -1, LIKELY),
        (250, (200, 400), -1, LIKELY),
        (405, (200, 400), -1, LIKELY),
        # What is likely leaves open whether there was one, or how long.
        (0, (0, 300), -1, OPEN),
        (0, (0, 6), -1, OPEN),
        (100, (0, 190), -1, OPEN),
        (300, (200, 401), -1, OPEN),
        # It is not what the broker did: a warm-up, a handshake, or a fault.
        (6, (0, 0), -1, OPEN),
        (400, (0, 0), -1, OPEN),
        (406, (200, 400), -1, OPEN),
        (0, (200, 400), -1, OPEN),
        # The other quota explains the log, and this one likely asked for no more.
        (400, (0, 0), 400, LIKELY),
        (400, (0, 405), 396, LIKELY),
        (400, (0, 406), 400, OPEN),
        (400, (0, 0), 394, OPEN),
        (0, (0, 6), 0, OPEN),
    ],
)
def test_what_is_likely_says_of_an_open_decision_that_it_agrees_and_nothing_else(
    logged: int, likely: tuple[int, int], other: int, expected: Verdict
) -> None:
    row = {"logged_ms": logged, "throttle_min_ms": 0, "throttle_max_ms": 900, "other_ms": other}
    least, most = likely
    guess = {"throttle_likely_min_ms": least, "throttle_likely_max_ms": most}
    assert fixed(is_request_quota=True, **row | guess) == expected


@pytest.mark.parametrize(
    ("logged", "least", "most", "expected"),
    [
        (0, 0, 0, ("agree", None)),
        (0, 300, 900, ("under_throttled", None)),
        (1000, 300, 900, ("over_throttled", None)),
    ],
)
@pytest.mark.parametrize("likely", [0, 300, 1000])
def test_what_is_sure_is_said_whatever_is_likely(
    logged: int, least: int, most: int, expected: Verdict, likely: int
) -> None:
    row = {"logged_ms": logged, "throttle_min_ms": least, "throttle_max_ms": most}
    guess = dict.fromkeys(("throttle_likely_min_ms", "throttle_likely_max_ms"), likely)
    assert fixed(is_request_quota=True, **row | guess) == expected


@pytest.mark.parametrize("is_request_quota", [False, True])
@pytest.mark.parametrize("before", [BEFORE, ("agree", None), ("under_throttled", None), OPEN])
def test_an_interval_that_is_not_known_leaves_the_verdict(
    is_request_quota: bool, before: Verdict
) -> None:
    assert fixed(
        before, is_interval_known=False, is_request_quota=is_request_quota, logged_ms=700,
    ) == before  # fmt: skip


@pytest.mark.parametrize(
    ("is_request_quota", "is_interval_known", "is_unrecorded"),
    list(itertools.product([False, True], repeat=3)),
)
@pytest.mark.parametrize("reason", [None, "throttled_without_quota"])
def test_without_a_quota_there_is_nothing_to_settle(
    is_request_quota: bool, is_interval_known: bool, is_unrecorded: bool, reason: str | None
) -> None:
    found = fixed(
        ("no_quota", reason), logged_ms=700, is_request_quota=is_request_quota,
        is_interval_known=is_interval_known, is_unrecorded=is_unrecorded,
    )  # fmt: skip
    assert found == ("no_quota", reason)


def test_the_cap_is_the_window_of_the_row_s_broker() -> None:
    row = {"is_request_quota": True, "logged_ms": 2000, "throttle_max_ms": 2000}
    assert fixed(window_ms=2000, **row) == ("agree", None)
    assert fixed(window_ms=1000, **row) == OPEN


MS = st.integers(0, 1_200)
ROWS = st.fixed_dictionaries(
    {
        "is_request_quota": st.booleans(),
        "is_unrecorded": st.booleans(),
        "logged_ms": MS,
        "replayed_ms": MS,
        "least_and_most_ms": st.tuples(MS, MS).map(sorted),
        "is_interval_known": st.booleans(),
        "other_ms": st.one_of(st.just(-1), MS),
    }
)


@given(st.lists(ROWS, min_size=1, max_size=8))
def test_rows_are_fixed_each_by_itself_and_the_verdicts_given_stay(
    rows: list[dict[str, object]],
) -> None:
    each = []
    for row in rows:
        least, most = row["least_and_most_ms"]
        bounds = {"throttle_min_ms": least, "throttle_max_ms": most}
        each.append({k: v for k, v in row.items() if k != "least_and_most_ms"} | bounds)
    columns = [shared_row(**row) for row in each]
    together = SharedRows(
        *(np.concatenate([getattr(c, n) for c in columns]) for n in SharedRows.__slots__)
    )
    before, alone = verdicts(*[BEFORE] * len(rows)), verdicts(*[ALONE] * len(rows))
    found = fix_shared(together, before, alone, TOLERANCE_MS)
    told = list(zip(found.verdict.tolist(), found.reason.tolist(), strict=True))
    assert told == [fixed(**row) for row in each]
    assert set(before.verdict) == {BEFORE[0]}
    assert set(alone.reason) == {ALONE[1]}


@given(ROWS)
def test_only_the_request_quota_itself_is_accused_by_its_interval(row: dict[str, object]) -> None:
    (least, most), rest = row["least_and_most_ms"], dict(row)
    del rest["least_and_most_ms"]
    verdict, reason = fixed(throttle_min_ms=least, throttle_max_ms=most, **rest)
    assert verdict in {*VERDICTS, BEFORE[0], ALONE[0]}
    if verdict in WRONG_VERDICTS:
        assert row["is_request_quota"]
        assert reason is None
    assert (verdict == "before") == (not row["is_interval_known"])
    if verdict == "over_throttled":
        assert row["other_ms"] == -1
        assert row["logged_ms"] > most + TOLERANCE_MS
    if verdict == "under_throttled":
        assert row["logged_ms"] < least - TOLERANCE_MS


@given(ROWS, st.tuples(MS, MS).map(sorted))
def test_what_is_likely_changes_open_decisions_on_the_request_quota_only_and_to_agree_only(
    row: dict[str, object], likely_ms: tuple[int, int]
) -> None:
    (least, most), rest = row["least_and_most_ms"], dict(row)
    del rest["least_and_most_ms"]
    sure = rest | {"throttle_min_ms": least, "throttle_max_ms": most}

    def with_guess(low_ms: int, high_ms: int) -> Verdict:
        return fixed(**sure | {"throttle_likely_min_ms": low_ms, "throttle_likely_max_ms": high_ms})

    nothing_likely, found = with_guess(0, 10**9), with_guess(*likely_ms)
    if found != nothing_likely:
        assert row["is_request_quota"]
        assert (nothing_likely, found) == (OPEN, LIKELY)
