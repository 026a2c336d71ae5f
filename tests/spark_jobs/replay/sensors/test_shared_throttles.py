"""Both sides of one throttle: the decisions on a request that has a request quota."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.replay.sensors.sensor_states import REPLAYED
from spark_jobs.replay.sensors.shared_throttles import (
    FORWARDED_APIS,
    SHARED,
    fix_shared_throttles,
)
from spark_jobs.replay.verdicts.fetch_attempt import Attempt
from spark_jobs.replay.verdicts.verdicts import RATE_VERDICTS, RateRows, Tolerances, rate_verdicts
from tests.spark_jobs.replay.sensors.shared_rows import (
    OPEN,
    RULES,
    Row,
    decided,
    joined,
    on_request,
)

LIKELY = ("agree", "likely_request_time")
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)


def fixed(*rows: Row) -> list[Row]:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=SHARED)
    run = fix_shared_throttles(RULES, TOLERANCES.throttle_ms)
    found = list(run(iter([batch])))
    assert [b.schema for b in found] == [REPLAYED]
    return found[0].to_pylist()


def of_request(
    logged: int,
    least: int | None,
    most: int | None,
    bandwidth: int | None = None,
    **columns: object,
) -> Row:
    decision = on_request(least, most, logged_throttle_time_ms=logged, **columns)
    return joined(decision, request_min_ms=least, request_max_ms=most, bandwidth_ms=bandwidth)


def of_bandwidth(
    logged: int, replayed: int | None, least: int | None, most: int | None, **columns: object
) -> Row:
    decision = decided(
        logged_throttle_time_ms=logged, replayed_throttle_time_ms=replayed, **columns
    )
    return joined(decision, request_min_ms=least, request_max_ms=most, bandwidth_ms=replayed)


def verdict(row: Row) -> tuple[str, str | None]:
    (found,) = fixed(row)
    return found["verdict"], found["reason"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (of_request(0, 300, 600), ("under_throttled", None)),
        (of_request(900, 300, 600), ("over_throttled", None)),
        (of_request(900, 300, 600, bandwidth=0), ("agree", None)),
        (of_request(400, 398, 401), ("agree", None)),
        (of_request(400, 300, 600), OPEN),
        (of_request(400, None, None), OPEN),
        (of_request(0, 0, 600, throttle_time_likely_max_ms=0), LIKELY),
        (of_request(0, 0, 600, throttle_time_likely_max_ms=300), OPEN),
        (of_request(400, 0, 600, bandwidth=400, throttle_time_likely_max_ms=300), LIKELY),
        # The window of broker 2 is 2 s.
        (of_request(1000, 300, 1500), ("agree", None)),
        (of_request(1000, 300, 1500, broker_id=2), OPEN),
        (of_request(2000, 300, 2000, broker_id=2), ("agree", None)),
        (of_bandwidth(300, 302, 0, 900), ("agree", None)),
        (of_bandwidth(500, 302, 499, 501), ("agree", None)),
        (of_bandwidth(500, 302, 0, 900), OPEN),
        (of_bandwidth(950, 302, 0, 900), ("over_throttled", None)),
        (of_bandwidth(950, 302, None, None), OPEN),
        (of_bandwidth(950, None, 0, 900, verdict="no_quota", reason=None), ("no_quota", None)),
        (of_bandwidth(950, 950, 0, 900, is_unrecorded=True), ("over_throttled", None)),
        (of_bandwidth(800, 800, 0, 900, is_unrecorded=True), OPEN),
    ],
)
def test_a_request_is_judged_by_the_larger_of_its_quotas(
    row: Row, expected: tuple[str, str | None]
) -> None:
    assert verdict(row) == expected


@pytest.mark.parametrize("api_name", FORWARDED_APIS)
def test_the_throttle_of_a_forwarded_request_may_be_the_controllers(api_name: str) -> None:
    assert verdict(of_request(9_000, 0, 100, api_name=api_name)) == ("agree", None)
    assert verdict(of_request(9_000, 0, 100, api_name="METADATA")) == ("over_throttled", None)
    # A throttle that is too short is no other quota's doing.
    assert verdict(of_request(0, 100, 900, api_name=api_name)) == ("under_throttled", None)


@pytest.mark.parametrize(("logged", "expected"), [(0, 300), (299, 300), (450, 450), (601, 600)])
def test_the_replayed_throttle_is_the_one_in_the_interval_nearest_to_the_log(
    logged: int, expected: int
) -> None:
    (found,) = fixed(of_request(logged, 300, 600, replayed_throttle_time_ms=777))
    assert found["replayed_throttle_time_ms"] == expected


@pytest.mark.parametrize(("bandwidth", "expected"), [(445, 300), (455, 300), (456, 450), (0, 450)])
def test_what_the_other_quota_explains_is_not_replayed_for_the_request_quota_as_well(
    bandwidth: int, expected: int
) -> None:
    (found,) = fixed(of_request(450, 300, 600, bandwidth))
    assert found["replayed_throttle_time_ms"] == expected


def test_without_an_interval_the_replayed_throttle_stays_and_without_a_quota_there_is_none() -> (
    None
):
    unknown = of_request(450, None, None, replayed_throttle_time_ms=777)
    bandwidth = of_bandwidth(450, 777, 300, 600)
    no_quota = of_bandwidth(450, None, 300, 600)
    found = fixed(unknown, bandwidth, no_quota)
    assert [row["replayed_throttle_time_ms"] for row in found] == [777, 777, None]


def test_batches_without_rows_are_passed_over() -> None:
    run = fix_shared_throttles(RULES, 5)
    assert list(run(iter([pa.RecordBatch.from_pylist([], schema=SHARED)]))) == []


MS = st.integers(0, 1_300)


@st.composite
def shared_rows(draw: st.DrawFn) -> Row:
    """Return a row with the verdicts that the replay gives it."""
    is_request = draw(st.booleans())
    logged, replayed = draw(MS), draw(MS)
    is_fetch = logged > 0 and not is_request and draw(st.booleans())
    attempt = Attempt.NOT_THROTTLED
    if is_fetch:
        # Its replayed throttle is that of the size it is taken for.
        odd = Attempt.TOO_LARGE if replayed < logged else Attempt.TOO_SMALL
        plain = st.sampled_from([Attempt.PLAUSIBLE, Attempt.UNKNOWN])
        attempt = draw(st.one_of(plain, st.just(odd))) if replayed != logged else draw(plain)
        replayed = replayed if attempt is odd and replayed != logged else logged
    state = {
        "is_unrecorded": is_fetch, "attempt": attempt, "is_request_quota": is_request,
        "logged_ms": logged, "replayed_ms": replayed, "boundary_amount": draw(st.integers(0, 900)),
        "bound": draw(st.sampled_from([1000.0, 1000.0, 1000.0, np.nan])),
        "known_for_ms": draw(st.sampled_from([0, 60_000, 60_000])),
        "is_proven": draw(st.booleans()), "lost_requests": draw(st.sampled_from([0, 0, 2])),
        "lost_amount_max": draw(st.sampled_from([0.0, 300.0])),
        "amount_known": True, "window_ms": 1000, "change_distance_ms": 60_000,
        "line_lag_max_ms": 10, "purge_margin_ms": 500, "keeps_overlapping": True,
        "is_explained": False,
        "is_impossible": False,
        "is_neither": False,
    }  # fmt: skip

    def of_replay(has_request_bound: bool) -> tuple[str, str | None]:
        columns = state | {"has_request_bound": has_request_bound}
        rows = RateRows(**{name: np.array([value]) for name, value in columns.items()})
        return RATE_VERDICTS[rate_verdicts(rows, TOLERANCES)[0]]

    least, most = sorted((draw(MS), draw(MS)))
    is_known = draw(st.sampled_from([True, True, False]))
    bounds = (least, most) if is_known else (None, None)
    columns = {
        "before": of_replay(True), "alone": of_replay(False), "is_unrecorded": is_fetch,
        "api_name": draw(st.sampled_from(["PRODUCE", "CREATE_TOPICS"])),
        "replayed_throttle_time_ms": None if np.isnan(state["bound"]) else replayed,
    }  # fmt: skip
    if is_request:
        within = st.tuples(st.integers(least, most), st.integers(least, most)).map(sorted)
        likely = draw(within) if is_known else (None, None)
        names = "throttle_time_likely_min_ms", "throttle_time_likely_max_ms"
        columns |= dict(zip(names, likely, strict=True))
        return of_request(logged, *bounds, draw(st.one_of(st.none(), MS)), **columns)
    return of_bandwidth(logged, columns.pop("replayed_throttle_time_ms"), *bounds, **columns)


@given(st.lists(shared_rows(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_who_is_accused_differs_from_the_replay_to_the_side_named(rows: list[Row]) -> None:
    found = fixed(*rows)
    for before, row in zip(rows, found, strict=True):
        logged, replayed = row["logged_throttle_time_ms"], row["replayed_throttle_time_ms"]
        if row["verdict"] == "over_throttled":
            assert logged > replayed
        if row["verdict"] == "under_throttled":
            assert logged < replayed
        is_reasoned = (row["verdict"] == "indeterminate") or row["reason"] == LIKELY[1]
        assert is_reasoned == (row["reason"] is not None) or row["verdict"] == "no_quota"
        assert row["reason"] != LIKELY[1] or row["verdict"] == "agree"
        assert (replayed is None) == (before["replayed_throttle_time_ms"] is None)
        is_request = before["quota_type"] == "request_percentage"
        if is_request and before["request_min_ms"] is not None and replayed is not None:
            assert before["request_min_ms"] <= replayed <= before["request_max_ms"]
        changing = ("verdict", "reason", "replayed_throttle_time_ms")
        kept = [name for name in REPLAYED.names if name not in changing]
        assert [row[name] for name in kept] == [before.get(name) for name in kept]
