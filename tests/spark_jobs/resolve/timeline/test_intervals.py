from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.resolve.timeline.intervals import SAME_CHANGE_WITHIN_MS, quota_intervals
from spark_jobs.warehouse.tables import QUOTA_CHANGES
from tests.spark_jobs.ingest.quota_sources.quota_events import event, snapshot

BOTH = (1, 2)
FAR_MS = 3 * SAME_CHANGE_WITHIN_MS
# How long one example takes says more about the machine than about the rule.
UNTIMED = settings(deadline=None)


def held(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (r["broker_id"], r["bound"], r["valid_from_ms"], r["valid_until_ms"], r["source"])
        for r in rows
    ]


def test_rows_fit_the_table() -> None:
    rows = quota_intervals([event("log", 1_000)], BOTH)
    assert pa.Table.from_pylist(rows, QUOTA_CHANGES).to_pylist() == rows
    assert set(rows[0]) == set(QUOTA_CHANGES.names)


def test_a_value_holds_until_the_next_one_and_the_last_one_still() -> None:
    events = [event("log", 1_000), event("log", 50_000, bound=200.0)]
    assert held(quota_intervals(events, BOTH)) == [
        (None, 100.0, 1_005, 50_005, "log"),
        (None, 200.0, 50_005, None, "log"),
    ]


def test_a_removed_value_leaves_a_gap() -> None:
    events = [
        event("log", 1_000),
        event("log", 50_000, bound=None),
        event("log", 90_000, bound=200.0),
    ]
    assert held(quota_intervals(events, BOTH)) == [
        (None, 100.0, 1_005, 50_005, "log"),
        (None, 200.0, 90_005, None, "log"),
    ]


def test_removing_what_was_never_set_changes_nothing() -> None:
    assert quota_intervals([event("log", 1_000, bound=None)], BOTH) == []


def test_a_value_set_again_is_no_change() -> None:
    events = [event("log", at_ms) for at_ms in (1_000, 50_000, 90_000)]
    assert held(quota_intervals(events, BOTH)) == [(None, 100.0, 1_005, None, "log")]


def test_the_server_log_tells_better_but_only_of_its_own_broker() -> None:
    events = [event("log", 1_000), event("server_log", 1_032, broker_id=1)]
    assert held(quota_intervals(events, BOTH)) == [
        (1, 100.0, 1_032, None, "server_log"),
        (2, 100.0, 1_005, None, "log"),
    ]


def test_a_broker_that_lags_has_the_change_when_its_log_says() -> None:
    events = [
        event("log", 1_000),
        event("server_log", 1_001, broker_id=1),
        event("server_log", 4_000, broker_id=2),
    ]
    assert held(quota_intervals(events, BOTH)) == [
        (1, 100.0, 1_001, None, "server_log"),
        (2, 100.0, 4_000, None, "server_log"),
    ]


@pytest.mark.parametrize("lag_ms", [15, 3_000])
def test_a_broker_that_lags_has_two_changes_in_a_row_when_its_log_says(lag_ms: int) -> None:
    events = [event("log", 1_000), event("log", 1_200, bound=200.0)]
    own = [event("server_log", 1_000 + lag_ms, broker_id=1)]
    own.append(event("server_log", 1_200 + lag_ms, bound=200.0, broker_id=1))
    assert held(quota_intervals([*events, *own], (1,))) == [
        (None, 100.0, 1_000 + lag_ms, 1_200 + lag_ms, "server_log"),
        (None, 200.0, 1_200 + lag_ms, None, "server_log"),
    ]


@pytest.mark.parametrize(("lag_ms", "has_first"), [(150, True), (3_000, False)])
def test_a_value_replaced_before_a_broker_learned_of_it_was_never_in_force_there(
    lag_ms: int, *, has_first: bool
) -> None:
    # A broker that is 3 s behind takes both changes over at once; of one that is not, only the
    # last one's line may be there.
    events = [event("log", 1_000), event("log", 1_200, bound=200.0)]
    events.append(event("server_log", 1_200 + lag_ms, bound=200.0, broker_id=1))
    assert held(quota_intervals(events, (1,))) == [
        *[(None, 100.0, 1_005, 1_200 + lag_ms, "log")] * has_first,
        (None, 200.0, 1_200 + lag_ms, None, "server_log"),
    ]


def test_a_broker_whose_own_log_is_whole_lags_however_long_it_says() -> None:
    events = [event("log", 1_000), event("server_log", 1_000 + FAR_MS, broker_id=1)]
    assert held(quota_intervals(events, BOTH, {1: [0]})) == [
        (1, 100.0, 1_000 + FAR_MS, None, "server_log"),
        (2, 100.0, 1_005, None, "log"),
    ]


def test_of_changes_in_a_row_a_broker_far_behind_had_those_that_its_whole_log_tells() -> None:
    set_ms = {100.0: 1_000, 200.0: 6_000, 300.0: 8_000}
    events = [event("log", at_ms, bound=bound) for bound, at_ms in set_ms.items()]
    events.append(event("server_log", 6_000 + FAR_MS, bound=200.0, broker_id=1))
    events.append(event("server_log", 8_000 + FAR_MS, bound=300.0, broker_id=1))
    assert held(quota_intervals(events, [1], {1: [0]})) == [
        (None, 200.0, 6_000 + FAR_MS, 8_000 + FAR_MS, "server_log"),
        (None, 300.0, 8_000 + FAR_MS, None, "server_log"),
    ]


def test_a_broker_far_behind_had_a_change_when_it_says_though_the_next_one_is_not_told() -> None:
    events = [event("log", 1_000), event("log", 1_000 + 2 * FAR_MS, bound=200.0)]
    events.append(event("server_log", 1_000 + FAR_MS, broker_id=1))
    assert held(quota_intervals(events, [1], {1: [0]})) == [
        (None, 100.0, 1_000 + FAR_MS, 1_005 + 2 * FAR_MS, "server_log"),
        (None, 200.0, 1_005 + 2 * FAR_MS, None, "log"),
    ]


@pytest.mark.parametrize(
    "started_ms",
    [
        pytest.param([], id="its log may have begun amid its life"),
        pytest.param([1_000 + FAR_MS - 500], id="it loads its quotas as it starts"),
        pytest.param([0, 1_000 + FAR_MS - 500], id="it loads them again"),
    ],
)
def test_a_log_that_is_not_whole_tells_of_no_lag(started_ms: list[int]) -> None:
    events = [event("log", 1_000), event("server_log", 1_000 + FAR_MS, broker_id=1)]
    assert held(quota_intervals(events, BOTH, {1: started_ms})) == [
        (None, 100.0, 1_005, None, "log")
    ]


def test_what_a_whole_log_tells_of_a_value_set_again_is_not_of_the_first_time() -> None:
    events = [event("log", 1_000), event("log", 1_000 + FAR_MS)]
    events.append(event("server_log", 1_010 + FAR_MS, broker_id=1))
    assert held(quota_intervals(events, BOTH, {1: [0]})) == [(None, 100.0, 1_005, None, "log")]


def test_what_was_set_before_a_broker_s_log_begins_is_not_replaced_by_what_that_tells() -> None:
    set_ms = {100.0: 1_000, 200.0: 1_000 + FAR_MS}
    events = [event("log", at_ms, bound=bound) for bound, at_ms in set_ms.items()]
    again_ms = 10 * FAR_MS  # set again by a request that no log has
    events += [
        event("server_log", at_ms, bound=bound, broker_id=1)
        for at_ms, bound in ((1_010 + FAR_MS, 200.0), (again_ms - 5, None), (again_ms, 200.0))
    ]
    assert held(quota_intervals(events, [1], {1: [1_000 + FAR_MS - 500]})) == [
        (None, 100.0, 1_005, 1_010 + FAR_MS, "log"),
        (None, 200.0, 1_010 + FAR_MS, again_ms - 5, "server_log"),
        (None, 200.0, again_ms, None, "server_log"),
    ]


def test_brokers_that_changed_at_the_same_time_share_rows() -> None:
    events = [event("server_log", 1_000, broker_id=b, source_file=f"b{b}") for b in BOTH]
    assert held(quota_intervals(events, BOTH)) == [(None, 100.0, 1_000, None, "server_log")]


def test_a_value_set_changed_and_set_again_keeps_its_three_changes() -> None:
    times = [(1_000, 100.0), (1_200, 200.0), (1_400, 100.0)]
    events = [event("log", at_ms, bound=bound) for at_ms, bound in times]
    # The server log begins after the first two changes.
    events.append(event("server_log", 1_415, broker_id=1))
    assert held(quota_intervals(events, (1,))) == [
        (None, 100.0, 1_005, 1_205, "log"),
        (None, 200.0, 1_205, 1_415, "log"),
        (None, 100.0, 1_415, None, "server_log"),
    ]


def test_quotas_that_a_starting_broker_loads_are_no_changes() -> None:
    events = [event("log", 1_000), event("server_log", 1_000 + FAR_MS, broker_id=1)]
    assert held(quota_intervals(events, BOTH)) == [(None, 100.0, 1_005, None, "log")]


def test_the_request_log_tells_better_than_a_journal() -> None:
    journal = event("journal", 3_000, earliest_ms=-2_000, latest_ms=8_000)
    assert held(quota_intervals([journal, event("log", 1_000)], BOTH)) == [
        (None, 100.0, 1_005, None, "log")
    ]


def test_what_only_a_snapshot_shows_held_before_it_as_far_as_known() -> None:
    assert held(quota_intervals([snapshot(90_000)], BOTH)) == [(None, 100.0, 0, None, "snapshot")]


def test_a_snapshot_confirms_what_is_known() -> None:
    events = [event("log", 1_000), snapshot(1_000 + FAR_MS)]
    assert held(quota_intervals(events, BOTH)) == [(None, 100.0, 1_005, None, "log")]


def test_a_snapshot_before_a_change_shows_the_value_before_it() -> None:
    events = [snapshot(1_000), event("log", 1_000 + FAR_MS, bound=200.0)]
    assert held(quota_intervals(events, BOTH)) == [
        (None, 100.0, 0, 1_005 + FAR_MS, "snapshot"),
        (None, 200.0, 1_005 + FAR_MS, None, "log"),
    ]


@pytest.mark.parametrize("bound", [100.0, 200.0])
@pytest.mark.parametrize("distance_ms", [-SAME_CHANGE_WITHIN_MS, 0, SAME_CHANGE_WITHIN_MS])
def test_a_snapshot_taken_near_a_change_may_show_either_value(
    bound: float, distance_ms: int
) -> None:
    changes = [event("log", 1_000), event("log", 1_000 + FAR_MS, bound=200.0)]
    near = snapshot(1_005 + FAR_MS + distance_ms, bound=bound)
    assert quota_intervals([*changes, near], BOTH) == quota_intervals(changes, BOTH)


def test_a_snapshot_that_contradicts_tells_of_a_change_nobody_logged() -> None:
    events = [event("log", 1_000), snapshot(1_000 + FAR_MS, bound=200.0)]
    assert held(quota_intervals(events, BOTH)) == [
        (None, 100.0, 1_005, 1_000 + FAR_MS, "log"),
        (None, 200.0, 1_000 + FAR_MS, None, "snapshot"),
    ]


def test_a_static_value_holds_where_no_other_is_set() -> None:
    default: dict[str, Any] = {"quota_user": None, "quota_client_id": DEFAULT}
    events = [
        event("static", 0, broker_id=1, bound=50.0, **default),
        event("log", 1_000, **default),
        event("log", 50_000, bound=None, **default),
    ]
    assert held(quota_intervals(events, BOTH)) == [
        (1, 50.0, 0, 1_005, "static"),
        (1, 100.0, 1_005, 50_005, "log"),
        (1, 50.0, 50_005, None, "static"),
        (2, 100.0, 1_005, 50_005, "log"),
    ]


def test_a_value_changed_and_set_back_in_the_same_millisecond_holds_on() -> None:
    times = [(1_000, 100.0, 1), (50_000, 200.0, 2), (50_000, 100.0, 3)]
    events = [
        event("server_log", at_ms, bound=bound, source_line=line) for at_ms, bound, line in times
    ]
    assert held(quota_intervals(events, (1,))) == [(None, 100.0, 1_000, None, "server_log")]


def test_an_event_known_twice_counts_once() -> None:
    events = [event("log", 1_000), event("log", 1_000)]
    assert len(quota_intervals(events, BOTH)) == 1


def test_without_brokers_a_value_holds_everywhere() -> None:
    assert held(quota_intervals([event("log", 1_000)], ())) == [(None, 100.0, 1_005, None, "log")]


CHANGES = st.lists(
    st.tuples(
        st.integers(200, 60_000),  # ms since the change before
        st.sampled_from([None, 100.0, 200.0, 300.0]),
        st.integers(0, 40),  # how long the brokers take to apply it
        st.integers(0, 40),
    ),
    max_size=8,
)


def _told(changes: list[tuple[int, float | None, int, int]]) -> dict[str, list[QuotaEvent]]:
    """Return the same true changes as each source tells them."""
    told: dict[str, list[QuotaEvent]] = {"log": [], "1": [], "2": []}
    at_ms, before = 1_000, None
    for gap_ms, bound, lag_1_ms, lag_2_ms in changes:
        at_ms += gap_ms
        told["log"].append(event("log", at_ms, bound=bound))
        if bound != before:
            told["1"].append(event("server_log", at_ms + lag_1_ms, broker_id=1, bound=bound))
            told["2"].append(event("server_log", at_ms + lag_2_ms, broker_id=2, bound=bound))
        before = bound
    return told


@UNTIMED
@given(CHANGES)
def test_beside_whole_server_logs_the_request_log_adds_nothing(
    changes: list[tuple[int, float | None, int, int]],
) -> None:
    told = _told(changes)
    exact = quota_intervals([*told["1"], *told["2"]], BOTH)
    assert quota_intervals([*told["log"], *told["1"], *told["2"]], BOTH) == exact


@UNTIMED
@given(CHANGES, st.integers(0, 2 * FAR_MS))
def test_however_far_a_broker_lags_its_whole_log_tells_all_of_it(
    changes: list[tuple[int, float | None, int, int]], lag_ms: int
) -> None:
    by_bound = itertools.groupby(changes, key=lambda change: change[1])
    log = _told([next(alike) for _, alike in by_bound])["log"]
    own = [event("server_log", e.earliest_ms + lag_ms, broker_id=1, bound=e.bound) for e in log]
    assert quota_intervals([*log, *own], [1], {1: [0]}) == quota_intervals(own, [1])


@UNTIMED
@given(CHANGES, st.integers(1, FAR_MS))
def test_of_all_that_a_broker_took_over_at_once_it_had_the_last_value_alone(
    changes: list[tuple[int, float | None, int, int]], more_ms: int
) -> None:
    log = _told([*changes, (200, 400.0, 0, 0)])["log"]
    learned_ms = 2 * log[-1].latest_ms - log[0].latest_ms + more_ms
    own = event("server_log", learned_ms, broker_id=1, bound=400.0)
    assert quota_intervals([*log, own], [1], {1: [0]}) == quota_intervals([own], [1])


@UNTIMED
@given(CHANGES)
def test_each_broker_is_told_of_by_its_own_server_log_or_else_by_the_request_log(
    changes: list[tuple[int, float | None, int, int]],
) -> None:
    told = _told(changes)
    rows = quota_intervals([*told["log"], *told["1"]], BOTH)
    for broker, events in ((1, told["1"]), (2, told["log"])):
        own = [r for r in rows if r["broker_id"] in (None, broker)]
        expected = quota_intervals(events, (broker,))
        assert [h[1:4] for h in held(own)] == [h[1:4] for h in held(expected)]


@UNTIMED
@given(CHANGES, st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(
    changes: list[tuple[int, float | None, int, int]], chance: random.Random
) -> None:
    told = _told(changes)
    events = [*told["log"], *told["2"], snapshot(5_000), snapshot(40_000, bound=300.0)]
    rows = quota_intervals(events, BOTH)
    chance.shuffle(events)
    assert quota_intervals(events, reversed(BOTH)) == rows


@UNTIMED
@given(CHANGES)
def test_intervals_of_one_quota_on_one_broker_neither_overlap_nor_repeat_a_value(
    changes: list[tuple[int, float | None, int, int]],
) -> None:
    told = _told(changes)
    events = [*told["log"], *told["1"], snapshot(20_000, bound=200.0)]
    for broker in BOTH:
        own = [r for r in quota_intervals(events, BOTH) if r["broker_id"] in (None, broker)]
        for first, second in itertools.pairwise(own):
            assert first["valid_from_ms"] < first["valid_until_ms"] <= second["valid_from_ms"]
            if first["valid_until_ms"] == second["valid_from_ms"]:
                assert first["bound"] != second["bound"]
