"""A sensor's mutations are gathered, and stay whole: a request's topics share one response."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_jobs.quota.kernels import CHARGES_MISSING, OTHER_BUCKET, OTHER_SENSOR, SAME_BUCKET
from spark_jobs.quota.mutation_bucket import Bucket
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import BucketState
from spark_jobs.replay.sensors import aligned_mutations
from spark_jobs.replay.sensors.aligned_mutations import (
    align_mutations,
    request_numbers,
    sensor_runs,
)
from spark_jobs.replay.sensors.amounts import AMOUNTS
from spark_jobs.replay.sensors.replayed_mutations import replay_mutations
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.replay.verdicts.verdicts import Tolerances
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.amount_rows import amount, batch_of

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
RULES = {1: BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)}


@given(TOPICS)
@settings(max_examples=40)
def test_a_sensors_rows_come_out_once_in_their_order(topics: list[int]) -> None:
    rows = batch_of(mutations(*topics))
    found, _ = align_mutations(rows, RULES, {}, 1_000)
    kept = [name for name in AMOUNTS.names if name != "recorded_at_ms"]
    assert found.select(kept).to_pylist() == rows.select(kept).to_pylist()
    # The topics of a request share a record time, inside its interval.
    at_ms = {(row["source_line"], row["recorded_at_ms"]) for row in found.to_pylist()}
    assert len(at_ms) == len(topics)
    assert all(r["earliest_ms"] <= r["recorded_at_ms"] <= r["latest_ms"] for r in found.to_pylist())


@pytest.mark.parametrize("admitted", [(False, True), (True, False)])
def test_a_topic_admitted_after_one_that_was_refused_was_recorded_later(
    admitted: tuple[bool, bool],
) -> None:
    # 11 partitions are there; 12 are spent, and a second later the debt of 1 has ended.
    spent = amount(0, 12.0, quota_type="controller_mutation_rate", bound=1.0, is_strict=True)
    topics = [
        amount(
            1_000, 1.0, quota_type="controller_mutation_rate", bound=1.0, is_strict=True,
            correlation_id=2, resource_index=i, logged_admitted=is_admitted, earliest_ms=990,
            latest_ms=1_005,
        )
        for i, is_admitted in enumerate(admitted)
    ]  # fmt: skip
    found, _ = align_mutations(batch_of([spent, *topics]), RULES, {}, 1_000)
    _, first_ms, second_ms = (at_ms - NOON_MS for at_ms in found["recorded_at_ms"].to_pylist())
    is_later = admitted == (False, True)
    assert (first_ms < 1_000 <= second_ms) == is_later
    assert (first_ms == second_ms) != is_later


ASKED = st.tuples(
    st.sampled_from([0, 1, 700, 3_000, 20_000]),
    st.lists(
        st.tuples(st.sampled_from([1.0, 7.0, 30.0, float("nan")]), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([SAME_BUCKET, SAME_BUCKET, CHARGES_MISSING, OTHER_BUCKET]),
    st.booleans(),
    st.sampled_from([1.0, 0.7, 3.0, float("nan")]),
)


@given(st.lists(ASKED, min_size=1, max_size=12))
@example([(0, [(1.0, True), (1.0, False)], CHARGES_MISSING, True, 1.0)])
@settings(max_examples=100)
def test_a_bucket_that_chose_the_times_ends_as_the_one_replayed_at_them(
    asked: list[tuple[Any, ...]],
) -> None:
    chosen: list[Bucket] = []

    def noted(**settings: Any) -> Bucket:
        chosen.append(Bucket(**settings))
        return chosen[-1]

    at_ms, rows = 0, []
    for line, (gap_ms, topics, gap, is_strict, bound) in enumerate(asked):
        at_ms += gap_ms
        for index, (partitions, is_admitted) in enumerate(topics):
            # Charges elsewhere are told at a request's first topic, another bucket at each.
            told = gap if gap == OTHER_BUCKET or index == 0 else SAME_BUCKET
            rows.append(
                amount(
                    at_ms, partitions, quota_type="controller_mutation_rate", source_line=line,
                    resource_index=index, is_strict=is_strict, bound=bound, bucket_gap=told,
                    logged_admitted=is_admitted, earliest_ms=at_ms - 9, latest_ms=at_ms + 9,
                )
            )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned_mutations, "Bucket", noted)
        aligned, begun = align_mutations(batch_of(rows), RULES, {}, 1_000)
    *_, state = replay_mutations(aligned, RULES, {}, Tolerances(5, 13_000, 1_000)).to_pylist()
    held, bucket = BucketState(**state["bucket"]), chosen[-1]
    assert held[:3] == (bucket.least, bucket.most, bucket.last_update_ms)
    (line,) = begun.values()
    assert line["source_line"] in {row["source_line"] for row in rows}


@pytest.mark.parametrize(("debt_ms", "verdict"), [(500, "no_quota"), (1_500, "agree")])
def test_one_that_another_sensor_recorded_spends_nothing_and_met_no_quota(
    debt_ms: int, verdict: str
) -> None:
    """The debt that a refusal tells of has the partition of the first after a change, or has not.

    That change gave its client a quota; the one before it had been taken away.
    """
    own = {
        "quota_type": "controller_mutation_rate", "bound": 1.0, "bound_until": math.nan,
        "bound_left": math.nan, "is_strict": True, "since_change_ms": 90_000,
        "change_distance_ms": 90_000,
    }  # fmt: skip
    first = {"has_joined": True, "since_change_ms": 3, "change_distance_ms": 3}
    rows = [
        amount(0, 11.5, **own),
        amount(2_000, 1.0, **(own | first)),
        amount(3_500, 3.5, **own),
        amount(3_600, 1.0, logged_admitted=False, logged_throttle_time_ms=debt_ms - 100, **own),
    ]
    for number, each in enumerate(rows):
        at_ms = each["recorded_at_ms"]
        each |= {"correlation_id": number, "source_line": number, "earliest_ms": at_ms}
        each |= {"latest_ms": at_ms, "response_earliest_ms": at_ms, "response_latest_ms": at_ms}
    aligned, _ = align_mutations(batch_of(rows), RULES, {}, 1_000)
    decided = replay_mutations(aligned, RULES, {}, Tolerances(5, 0, 1_000)).to_pylist()
    assert [each["verdict"] for each in decided[:4]] == ["agree", verdict, "agree", "agree"]
    assert decided[3]["tokens"] == pytest.approx(-debt_ms / 1_000 + 0.1)


def test_one_just_before_the_next_change_was_not_met_before_the_last_one() -> None:
    """A change long ago sent its client here: what comes 527 ms before the next one stays here."""
    own = {
        "quota_type": "controller_mutation_rate", "bound": 1.0, "bound_until": math.nan,
        "bound_left": math.nan, "has_joined": True, "since_change_ms": 30_000,
        "change_distance_ms": 30_000,
    }  # fmt: skip
    rows = [
        amount(0, 11.0, **own),
        amount(1_000, 3.0, logged_throttle_time_ms=1_000, **(own | {"change_distance_ms": 527})),
        amount(2_000, 1.0, logged_throttle_time_ms=500, **(own | {"bound": 2.0})),
    ]
    for number, each in enumerate(rows):
        at_ms = each["recorded_at_ms"]
        each |= {"correlation_id": number, "source_line": number, "earliest_ms": at_ms}
        each |= {"latest_ms": at_ms, "response_earliest_ms": at_ms, "response_latest_ms": at_ms}
    aligned, _ = align_mutations(batch_of(rows), RULES, {}, 1_000)
    assert aligned.column("bound").to_pylist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("at_min", "elsewhere", "starts"),
    [
        ([0, 50, 70], [], [0]),
        ([0, 61], [], [0, 1]),
        # The sensor has recorded nothing by then, so it can forget nothing.
        ([0, 61], [0], [0]),
        # Nor does what another sensor records keep it from expiring; it does so once.
        ([0, 50, 70], [1], [0, 2]),
        ([0, 61, 70], [1], [0, 1]),
        ([0, 61, 70, 140], [1], [0, 1, 3]),
    ],
)
def test_an_epoch_ends_an_hour_after_the_sensor_itself_recorded(
    at_min: list[int], elsewhere: list[int], starts: list[int]
) -> None:
    rows = [
        amount(60_000 * minute, 1.0, bucket_gap=OTHER_SENSOR if i in elsewhere else 0)
        for i, minute in enumerate(at_min)
    ]
    found, run = sensor_runs(batch_of(rows))
    assert found == starts
    assert run.tolist() == [sum(s <= i for s in starts) - 1 for i in range(len(rows))]


@pytest.mark.parametrize("column", IDENTITY)
def test_each_part_of_what_names_a_request_tells_two_apart(column: str) -> None:
    first, second = mutations(1) * 2
    assert request_numbers(batch_of([first, second])).tolist() == [0, 0]
    other = second | {column: "other" if isinstance(second[column], str) else 99}
    assert request_numbers(batch_of([first, other])).tolist() == [0, 1]


def test_a_topic_more_is_no_request_more() -> None:
    rows = batch_of(mutations(2, 1, 3))
    assert request_numbers(rows).tolist() == [0, 0, 1, 2, 2, 2]


def test_a_request_is_one_where_another_came_between_its_topics() -> None:
    first, other, second = mutations(2)[:1] + mutations(1, 1)[1:] + mutations(2)[1:]
    assert request_numbers(batch_of([first, other, second])).tolist() == [0, 1, 0]


def test_one_row_has_no_change() -> None:
    rows = batch_of(mutations(1))
    assert request_numbers(rows).tolist() == [0]
