"""Mutations in two intervals, one after the other, are decided as if they were in one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota import mutation_times
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import BucketState
from spark_jobs.replay.sensors.mutation_interval import (
    TWINS_MS,
    MutationInterval,
    ReplayedMutations,
    lines_since,
    reads_from_ms,
)
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS, mutation_lines
from spark_jobs.replay.sensors.sensor_states import (
    DECISION,
    STATE,
    BrokerRules,
    CarriedState,
)
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.warehouse.days import Interval
from spark_jobs.warehouse.tables import DECISIONS, QUOTA_STATE
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.mutation_logs import LATE_MAX_MS, Row, logs, quotas
from tests.spark_jobs.replay.sensors.request_rows import requests
from tests.spark_jobs.replay.sensors.test_mutations import mutation

LONG_MS = 10 * 86_400_000
RULES = dict.fromkeys((1, 2, 3), BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000))
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)
WHOLE = Interval(0, NOON_MS + LONG_MS)


def replayed(
    rows: list[Row],
    interval: Interval,
    before: ReplayedMutations | None = None,
    of_before: Interval | None = None,
) -> ReplayedMutations:
    """Return what becomes of ``rows`` in an interval, after what was handed on by that before."""
    carried: list[Any] = []
    from_ms, inventory = interval.from_ms, PartitionInventory()
    if before is not None and of_before is not None:
        stored = before.rows.select(QUOTA_STATE.names).filter(
            pc.equal(before.rows["row_kind"], STATE)
        )
        carried = [CarriedState.handed_on(row) for row in stored.cast(QUOTA_STATE).to_pylist()]
        from_ms, inventory = reads_from_ms(carried, of_before), before.handed_on
    read_us = (from_ms - TWINS_MS) * 1000
    read = [
        row
        for row in rows
        if row["log_time_ms"] >= interval.from_ms or row["recorded_estimate_us"] >= read_us
    ]
    table = pa.Table.from_batches([requests(*read)]).select(list(MUTATION_COLUMNS))
    lines = mutation_lines(table, controller_listeners=frozenset({"CONTROLLER"}))
    of_interval = MutationInterval(
        interval, RULES, dict(carried), TOLERANCES, quotas(), BrokerLog()
    )
    return of_interval.replayed(lines_since(lines, from_ms, interval), inventory)


def decisions(found: ReplayedMutations) -> list[Row]:
    is_decision = pc.equal(found.rows["row_kind"], DECISION)
    return found.rows.filter(is_decision).select(DECISIONS.names).to_pylist()


def in_order(rows: list[Row]) -> list[Row]:
    names = ("broker_id", "quota_user", "sensor_epoch", "sensor_seq")
    return sorted(rows, key=lambda row: [row[name] for name in names])


@st.composite
def cuts(draw: st.DrawFn, rows: list[Row]) -> int:
    """Return a moment near a line."""
    near = draw(st.sampled_from(rows))["log_time_ms"]
    return near + draw(st.sampled_from([0, 1, -500, 20_000]))


def evening_until(cut: int) -> Interval:
    return Interval(0, cut, handover_ms=LATE_MAX_MS, ahead_ms=LONG_MS)


def assert_decided_as_one(rows: list[Row], cut: int) -> None:
    first = replayed(rows, evening_until(cut))
    second = replayed(rows, Interval(cut, NOON_MS + LONG_MS), first, evening_until(cut))
    assert all(row["log_time_ms"] < cut for row in decisions(first))
    assert all(row["log_time_ms"] >= cut for row in decisions(second))
    whole = replayed(rows, WHOLE)
    assert in_order(decisions(first) + decisions(second)) == in_order(decisions(whole))
    assert second.inventory == whole.inventory


# A stretch ends where the bucket is full again, or after so many requests.
@pytest.mark.parametrize("requests_max", [2000, 2])
@given(st.data(), logs())
@settings(max_examples=40)
def test_wherever_a_log_of_mutations_is_cut_it_is_decided_as_one(
    requests_max: int, data: st.DataObject, rows: list[Row]
) -> None:
    with mock.patch.object(mutation_times, "ANCHORED_REQUESTS_MAX", requests_max):
        assert_decided_as_one(rows, data.draw(cuts(rows)))


def create(at_ms: int, topic: str, partitions: int, error_code: int = 0, **columns: Any) -> Row:
    topics = (topic, partitions, error_code)
    return timed(mutation("CREATE_TOPICS", topics, at_ms=at_ms), at_ms) | columns


def delete(at_ms: int, topic: str, **columns: Any) -> Row:
    return timed(mutation("DELETE_TOPICS", (topic, None, 0), at_ms=at_ms), at_ms) | columns


def timed(row: Row, at_ms: int) -> Row:
    """Return a row of a request of its own, written 10 ms after its record."""
    at_ms += NOON_MS
    interval = {"recorded_earliest_ms": at_ms - 20, "recorded_latest_ms": at_ms + 20}
    own = {"user": "alice", "client_id": "admin", "throttle_time_ms": 0, "send_time_us": 0}
    named = {"correlation_id": at_ms % 1_000_003, "connection": f"c{at_ms}"}
    return row | interval | own | named | {"log_time_ms": at_ms + 10}


BY_BROKER = {"broker_id": 3, "is_forwarded": False, "listener": "PLAINTEXT"}


def handed_on(rows: list[Row], cut: int) -> CarriedState:
    """Return the only sensor as handed on where the log is cut, its last amounts at the end."""
    found = replayed(rows, evening_until(cut)).rows
    (row,) = found.filter(pc.equal(found["row_kind"], STATE)).to_pylist()
    return CarriedState.handed_on(row)[1]


def test_a_sensor_is_handed_on_where_its_last_stretch_began() -> None:
    times_ms = (0, 30_000, 31_000, 32_000)
    rows = [create(at_ms, "t", 9) for at_ms in times_ms]
    state = handed_on(rows, NOON_MS + 40_000)
    assert state.resumes_at is not None
    assert (state.resumes_at[0], state.sensor_seq) == (NOON_MS + 30_000, 1)
    assert state.bucket == BucketState(2.0, 2.0, NOON_MS, 40.0, 1.0)


def test_a_stretch_of_many_ends_where_no_other_request_may_have_come_in_between() -> None:
    times_ms = (0, 30_000, 31_000, 31_010, 31_500)
    rows = [create(at_ms, "t", 9) for at_ms in times_ms]
    with mock.patch.object(mutation_times, "ANCHORED_REQUESTS_MAX", 2):
        state = handed_on(rows, NOON_MS + 40_000)
    assert state.resumes_at is not None
    assert state.resumes_at[0] == NOON_MS + 31_500


def test_what_the_log_leaves_open_of_a_bucket_is_handed_on() -> None:
    unknown = delete(1_000, "t")
    rows = [create(0, "s", 9), unknown, *(create(2_000 + i * 500, "s", 1) for i in range(3))]
    rows[0] |= {"recorded_earliest_ms": NOON_MS - 80}
    with mock.patch.object(mutation_times, "ANCHORED_REQUESTS_MAX", 2):
        state = handed_on(rows, NOON_MS + 7_100)
    assert state.resumes_at is not None
    assert (state.resumes_at[0], state.sensor_seq) == (NOON_MS + 3_000, 4)
    assert state.bucket is not None
    assert state.bucket.tokens_min < state.bucket.tokens_max
    assert (state.bucket.debt_slack_ms, state.bucket.debt_bound) == (100.0, 1.0)


def test_a_sensor_that_was_silent_for_an_hour_is_handed_on_as_it_ended() -> None:
    rows = [create(at_ms, "t", 9) for at_ms in (0, 1_000)]
    cut = NOON_MS + EXPIRED_AFTER_MS + LATE_MAX_MS
    assert handed_on(rows, cut + 2_000).resumes_at is None
    assert handed_on(rows, cut + 1_000).resumes_at is not None
    assert_decided_as_one([*rows, create(EXPIRED_AFTER_MS + 30_000, "t", 9)], cut + 2_000)


def test_a_charge_that_may_have_been_elsewhere_is_not_forgotten_at_the_cut() -> None:
    times_ms = EXPIRED_AFTER_MS - 1_000, EXPIRED_AFTER_MS + 6_000
    rows = [create(0, "t", 9, **BY_BROKER), *(create(at_ms, "t", 9) for at_ms in times_ms)]
    cut = NOON_MS + EXPIRED_AFTER_MS + 1_000 + LATE_MAX_MS
    *_, last = decisions(replayed(rows, WHOLE))
    assert last["tokens"] is None
    assert_decided_as_one(rows, cut)


def test_a_twin_is_told_by_a_line_before_those_that_are_read_again() -> None:
    asked = create(0, "t", 9)
    twin = asked | BY_BROKER | {"recorded_estimate_us": (NOON_MS + 9) * 1000, "source_line": 9}
    rows = [asked, delete(2, "t"), twin]
    assert replayed(rows, WHOLE).inventory == PartitionInventory()
    assert_decided_as_one(rows, NOON_MS + 5 + EXPIRED_AFTER_MS + LATE_MAX_MS)


def test_partitions_are_handed_on_as_they_were_before_what_is_read_again() -> None:
    later_ms = EXPIRED_AFTER_MS + 30_000
    rows = [create(0, "t", 9), create(later_ms, "s", 3), delete(later_ms + 9, "t")]
    found = replayed(rows, evening_until(NOON_MS + later_ms + LATE_MAX_MS + 60_000))
    assert found.inventory == PartitionInventory({"s": 3})
    assert found.handed_on == PartitionInventory({"t": 9})


def test_a_sensor_whose_mutations_all_met_another_one_is_not_lost_between_intervals() -> None:
    untouched = BucketState(debt_slack_ms=40.0)
    for bucket, is_lost in ((untouched, False), (untouched._replace(last_update_ms=1), True)):
        state = CarriedState(0, 7, 0, (), bucket=bucket)
        assert state.is_lost(slots=11, restart_ms=0, recorded_at_ms=NOON_MS) == is_lost
