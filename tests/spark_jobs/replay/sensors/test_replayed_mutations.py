"""The replay of mutations: sensors in runs, states carried, one decision per amount."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.kernels import CHARGES_MISSING
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.sensors.replayed_mutations import replay_mutations
from spark_jobs.replay.sensors.sensor_states import DECISION, STATE, BrokerRules, CarriedState
from spark_jobs.replay.verdicts.verdicts import Tolerances
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.amount_rows import amount, batch_of

RULES = {1: BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)}
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)
RESTART_MS = NOON_MS + 5_000
HOUR_MS = 3_600_000


def mutation(at_ms: int, partitions: float, **columns: Any) -> dict[str, Any]:
    earlier = dict.fromkeys(("earliest_ms", "response_earliest_ms"), at_ms - 1)
    strict = {
        "quota_type": "controller_mutation_rate", "is_strict": True, "bound": 1.0,
        "source_line": at_ms, "resource": "t",
    }  # fmt: skip
    return amount(at_ms, partitions, **earlier | strict | columns)


def replay(
    rows: list[dict[str, Any]], carried: dict[SensorKey, CarriedState] | None = None
) -> list[dict[str, Any]]:
    found = replay_mutations(batch_of(rows), RULES, carried or {}, TOLERANCES)
    return found.to_pylist()


def decisions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["row_kind"] == DECISION]


def states(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["row_kind"] == STATE]


def test_an_empty_day_decides_nothing() -> None:
    assert replay([]) == []


def test_a_bucket_is_carried() -> None:
    first = replay([mutation(0, 30.0)])
    (state,) = states(first)
    assert state["tokens"] == pytest.approx(11.0 - 30.0)
    again = replay([mutation(1000, 30.0)], carried=dict([CarriedState.of_row(state)]))
    (decided,) = decisions(again)
    assert not decided["replayed_admitted"]
    assert decided["verdict"] == "wrongly_admitted"
    assert decided["sensor_seq"] == 1


@pytest.mark.parametrize(("apart_ms", "verdict"), [(1, "indeterminate"), (2, "wrongly_admitted")])
def test_of_two_admissions_at_once_the_log_does_not_tell_which_is_wrong(
    apart_ms: int, verdict: str
) -> None:
    once_ms = 19_500
    rows = [
        mutation(0, 30.0),
        mutation(once_ms, 3.0, correlation_id=1),
        mutation(once_ms + apart_ms, 3.0, correlation_id=2),
    ]
    _, right, wrong = decisions(replay(rows))
    assert (right["verdict"], wrong["verdict"]) == ("agree", verdict)


def test_a_debt_that_nobody_knows_is_learned_from_the_throttle_of_a_refusal() -> None:
    """A second after a refusal that says that its debt lasts for 2 s more."""
    unknown = mutation(0, 30.0, bucket_gap=CHARGES_MISSING)

    def admitted(said_ms: int) -> dict[str, Any]:
        refused = mutation(
            10_000, 1.0, bucket_gap=CHARGES_MISSING, logged_admitted=False,
            logged_throttle_time_ms=said_ms,
        )  # fmt: skip
        return decisions(replay([unknown, refused, mutation(11_000, 1.0)]))[-1]

    assert admitted(2_000)["verdict"] == "wrongly_admitted"
    # Its line may be late by 350 ms: the debt may have ended.
    assert admitted(1_350)["reason"] == "state_unknown"


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [
        ({}, "wrongly_admitted"),
        ({"is_atomic": False}, "indeterminate"),  # topic by topic, the debt may end in between
        ({"api_name": "DELETE_TOPICS"}, "indeterminate"),  # of these the order is not known
        ({"logged_throttle_time_ms": 5}, "indeterminate"),
        ({"has_request_bound": True}, "indeterminate"),
    ],
)
def test_a_topic_is_refused_after_another_of_its_request_whatever_the_state_is(
    columns: dict[str, Any], verdict: str
) -> None:
    unknown = mutation(0, 30.0, bucket_gap=CHARGES_MISSING)
    request = {
        "api_name": "CREATE_TOPICS", "correlation_id": 7, "logged_throttle_time_ms": 600,
        "is_atomic": True, "bucket_gap": CHARGES_MISSING,
    } | columns  # fmt: skip
    refused = mutation(40_000, 1.0, logged_admitted=False, resource_index=0, **request)
    let_in = mutation(40_000, 1.0, resource_index=1, **request)
    assert decisions(replay([unknown, refused, let_in]))[-1]["verdict"] == verdict


@pytest.mark.parametrize(
    ("topics", "throttle_time_ms", "verdicts"),
    [
        # Of 5 partitions/s: 3 of them leave a debt of 600 ms.
        (["3", "refused"], 605, ["indeterminate"]),
        (["3", "refused"], 606, ["wrongly_admitted"]),
        (["3", "1", "refused"], 606, ["indeterminate", "wrongly_admitted"]),
        (["?", "1", "refused"], 606, ["indeterminate", "wrongly_admitted"]),
        # What comes after it leaves no debt to the one refused.
        (["3", "refused", "4"], 606, ["wrongly_admitted", "wrongly_admitted"]),
        # Were the last one refused, the one before it came before the last that was.
        (["refused", "3", "4"], 606, ["indeterminate", "wrongly_admitted"]),
        (["3", "4"], 606, ["indeterminate", "wrongly_admitted"]),
        # The bucket may have been full before the three, unless a topic was refused before them.
        (["3", "refused"], 400, ["indeterminate"]),
        (["refused", "3", "refused"], 400, ["wrongly_admitted"]),
        # It was refilled for 9 ms before the response at most.
        (["refused", "3", "refused"], 585, ["wrongly_admitted"]),
        (["refused", "3", "refused"], 586, ["indeterminate"]),
        (["refused", "?", "refused"], 400, ["indeterminate"]),
    ],
)
def test_a_topic_leaves_the_debt_of_its_partitions_to_the_next(
    topics: list[str], throttle_time_ms: int, verdicts: list[str]
) -> None:
    unknown = mutation(0, 30.0, bucket_gap=CHARGES_MISSING, bound=5.0)
    request = {
        "api_name": "CREATE_TOPICS", "correlation_id": 7, "is_atomic": True, "bound": 5.0,
        "logged_throttle_time_ms": throttle_time_ms, "bucket_gap": CHARGES_MISSING,
        "response_latest_ms": 40_008,
    }  # fmt: skip
    sizes = {"refused": 1.0, "?": float("nan")}
    rows = [
        mutation(
            40_000, sizes.get(topic) or float(topic), logged_admitted=topic != "refused",
            resource_index=i, **request,
        )
        for i, topic in enumerate(topics)
    ]  # fmt: skip
    found = [row["verdict"] for row in decisions(replay([unknown, *rows]))[1:]]
    let_in = [verdict for verdict, topic in zip(found, topics, strict=True) if topic != "refused"]
    assert let_in == verdicts


def test_a_topic_that_cannot_have_been_admitted_may_have_spent_nothing() -> None:
    """A debt of 18 partitions ends after 18 s: one that is admitted soon after that is right."""
    request = {
        "api_name": "CREATE_TOPICS", "correlation_id": 7, "is_atomic": True,
        "logged_throttle_time_ms": 300, "response_latest_ms": 18_009,
    }  # fmt: skip
    rows = [
        mutation(0, 29.0),
        # Its throttle says that the debt was not over, though it was by its line's time.
        mutation(18_001, 3.0, logged_admitted=False, resource_index=0, **request),
        mutation(18_001, 9.0, resource_index=1, **request),
        mutation(18_400, 3.0, correlation_id=8),
    ]
    found = [row["verdict"] for row in decisions(replay(rows))]
    assert found[2] == "wrongly_admitted"
    assert found[3] not in WRONG_VERDICTS


@pytest.mark.parametrize("bound", [0.03, 0.06, 0.07, 1.0])
def test_a_full_bucket_is_one_whatever_its_bound(bound: float) -> None:
    wide = mutation(0, 1.0, earliest_ms=-80, bound=bound)
    later = mutation(3_000_000, 1.0, earliest_ms=2_999_970, bound=bound)
    (state,) = states(replay([wide, later]))
    assert state["bucket"]["debt_slack_ms"] == 30.0


def test_a_bucket_that_was_restarted_is_full_again() -> None:
    rows = [
        mutation(0, 30.0),
        mutation(1_000, 1.0, logged_admitted=False),
        mutation(6_000, 1.0, restart_ms=RESTART_MS),
    ]
    found = replay(rows)
    assert [d["replayed_admitted"] for d in decisions(found)] == [True, False, True]
    assert [d["tokens"] for d in decisions(found)] == [-19.0, -18.0, 10.0]
    places = [(d["sensor_epoch"], d["sensor_seq"]) for d in decisions(found)]
    assert places == [(0, 0), (0, 1), (1, 0)]
    (state,) = states(found)
    assert (state["sensor_epoch"], state["sensor_seq"]) == (1, 1)


def test_mutations_have_no_interval_of_a_request_quota_and_prove_nothing() -> None:
    (row,) = decisions(replay([mutation(0, 1.0)]))
    told = row["is_proven"], row["throttle_time_min_ms"], row["throttle_time_max_ms"]
    assert told == (False, None, None)


@pytest.mark.parametrize(("gap_ms", "epoch"), [(30_000, 0), (30_001, 1)])
def test_a_sensor_is_forgotten_once_kafkas_expiry_has_surely_run(gap_ms: int, epoch: int) -> None:
    found = decisions(replay([mutation(0, 1.0), mutation(HOUR_MS + gap_ms, 1.0)]))
    assert [d["sensor_epoch"] for d in found] == [0, epoch]
