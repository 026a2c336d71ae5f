"""Decisions beside logged outcomes → figures."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState
from spark_jobs.score.agreement import compare
from spark_jobs.score.consistency import check_consistency
from spark_jobs.score.logged_outcomes import (
    LoggedMutation,
    LoggedOutcomes,
    LoggedProduce,
    QuotaChange,
)
from spark_jobs.score.score_capture import (
    capture_figures,
    planted_figures,
    read_planted,
    sensor_figures,
)

ALICE = frozenset({("user", "alice"), ("client-id", "app")})


def rules(profile: RateProfile = RateProfile.RATE_3_8, samples: int = 11) -> BrokerRules:
    return BrokerRules(profile, samples, 1000, 11, 1000)


RULES = {1: rules()}


def decision(n: int, **more: Any) -> dict[str, Any]:
    return {
        "broker_id": 1, "connection": "c", "correlation_id": n, "quota_type": "producer_byte_rate",
        "quota_user": "alice", "quota_client_id": "", "resource": None, "sensor_epoch": 0,
        "sensor_seq": n, "recorded_at_ms": 1000 * n, "amount": 500.0, "bound": 100.0,
        "replayed_throttle_time_ms": 0, "replayed_admitted": True, "verdict": "agree",
        "reason": None,
    } | more  # fmt: skip


def mutation(n: int, topic: str, **more: Any) -> dict[str, Any]:
    return decision(n, quota_type="controller_mutation_rate", resource=topic, **more)


def logged(*throttles_ms: int, mutations: dict[str, bool] | None = None) -> LoggedOutcomes:
    """Produces 0, 1, … of alice with these throttles, and topics of request 0."""
    outcomes = LoggedOutcomes()
    outcomes.take_quota("producer_byte_rate", QuotaChange(-60_000.0, ALICE, is_set=True))
    for n, throttle_ms in enumerate(throttles_ms):
        at_ms = 1000.0 * n
        outcomes.produces[1, "c", n, None] = LoggedProduce(
            throttle_ms, at_ms - 3, at_ms + 3, at_ms, ALICE
        )
    for topic, is_admitted in (mutations or {}).items():
        outcomes.forwarded_mutations[1, "c", 0, topic] = LoggedMutation(is_admitted, 0.0)
    return outcomes


def figures(rows: list[dict[str, Any]], outcomes: LoggedOutcomes) -> dict[str, Any]:
    return capture_figures(
        compare(rows, outcomes), outcomes, check_consistency(rows, RULES, before={})
    )


def replayed(throttles_ms: tuple[int, ...], **more: Any) -> list[dict[str, Any]]:
    return [
        decision(n, replayed_throttle_time_ms=throttle_ms, **more)
        for n, throttle_ms in enumerate(throttles_ms)
    ]


def test_throttles_are_compared_where_either_side_throttled() -> None:
    found = figures(replayed((0, 10, 11, 15, 0, 9)), logged(0, 10, 10, 10, 10, 0))
    assert found["produce_decisions"] == 6
    assert found["decision_agreement"] == 4 / 6
    assert found["throttled"] == 5
    assert found["throttle_exact"] == 1 / 5
    assert found["throttle_within_1ms"] == 2 / 5
    assert found["throttle_within_5ms"] == 3 / 5


def test_what_has_no_bound_or_a_request_quota_decides_nothing_but_is_covered() -> None:
    unbound = figures(replayed((0, 0), bound=None), logged(0, 0))
    spared = logged(0, 0)
    spared.request_quota_entities.add(("user", "alice"))
    for found in (unbound, figures(replayed((0, 0)), spared)):
        assert (found["produce_decisions"], found["decision_agreement"]) == (0, None)
        assert (found["coverage"], found["admissible"]) == (1.0, 1.0)


def test_a_decision_missing_twice_there_or_of_no_request_shows() -> None:
    rows = [*replayed((0, 0)), decision(1), decision(9)]
    found = figures(rows, logged(0, 0, 0))
    assert found["coverage"] == 1 / 3
    assert found["duplicates"] == 1
    assert found["rows_not_in_log"] == 1


def test_a_record_time_outside_of_the_logged_phases_is_not_admissible() -> None:
    rows = [decision(0, recorded_at_ms=3), decision(1, recorded_at_ms=1004)]
    assert figures(rows, logged(0, 0))["admissible"] == 1 / 2


def test_mutations_are_compared_by_admission() -> None:
    rows = [mutation(0, "a"), mutation(0, "b"), mutation(0, "c", bound=None), mutation(0, "x")]
    found = figures(rows, logged(mutations={"a": True, "b": False, "c": False}))
    assert (found["mutation_decisions"], found["mutation_agreement"]) == (2, 1 / 2)
    assert found["rows_not_in_log"] == 1


def test_a_mutation_whose_bucket_is_not_known_is_compared_with_nothing() -> None:
    unknown = {"verdict": "indeterminate", "reason": "state_unknown"}
    rows = [mutation(0, "a"), mutation(0, "b", **unknown)]
    found = figures(rows, logged(mutations={"a": True, "b": False}))
    assert (found["mutation_decisions"], found["mutation_agreement"]) == (1, 1.0)


def test_flags_are_counted_by_type_and_by_request() -> None:
    rows = [
        decision(0, verdict="under_throttled"),
        decision(0, verdict="over_throttled", quota_type="consumer_byte_rate"),
        mutation(0, "a", verdict="wrongly_admitted"),
        decision(1, verdict="indeterminate"),
    ]
    found = figures(rows, logged(0, 0, mutations={"a": True}))
    assert found["flags_by_type"] == {
        "producer_byte_rate": 1,
        "consumer_byte_rate": 1,
        "controller_mutation_rate": 1,
    }
    assert (found["flagged_bandwidth"], found["flagged"]) == (2, 2)
    assert found["indeterminate_share"] == 1 / 2


def test_every_sensor_has_its_own_figures() -> None:
    rows = [decision(0), decision(1, quota_user="bob", replayed_throttle_time_ms=5), decision(2)]
    alice, bob = sensor_figures(compare(rows, logged(0, 4, 7)).sensors)
    assert (alice["quota_user"], alice["decisions"], alice["decision_agreement"]) == (
        "alice",
        2,
        0.5,
    )
    assert (bob["quota_user"], bob["throttled"], bob["throttle_within_1ms"]) == ("bob", 1, 1.0)


def simulated(amounts: list[float], every_ms: int = 1000) -> list[dict[str, Any]]:
    """Rows as a right replay writes them."""
    rate, rows = Rate(RateProfile.RATE_3_8), []
    for n, amount in enumerate(amounts):
        now_ms = every_ms * n
        rate.record(amount, now_ms)
        measured = rate.measure(now_ms)
        throttle_ms = 0
        if measured > 100.0:
            throttle_ms = throttle_time_ms(measured, 100.0, rate.window_size_ms(now_ms))
        row = decision(n, amount=amount, recorded_at_ms=now_ms)
        rows.append(row | {"replayed_throttle_time_ms": throttle_ms})
    return rows


def test_throttles_that_follow_from_their_inputs_are_consistent() -> None:
    rows = simulated([500.0] * 30)
    assert any(row["replayed_throttle_time_ms"] for row in rows)
    found = check_consistency(reversed(rows), RULES, before={})
    assert (found.checked, found.equal) == (30, 30)


def test_one_invented_throttle_is_not_consistent() -> None:
    rows = simulated([500.0] * 30)
    rows[20]["replayed_throttle_time_ms"] += 1
    assert check_consistency(rows, RULES, before={}).equal == 29


def test_a_shifted_record_time_is_not_consistent() -> None:
    rows = simulated([500.0] * 30)
    rows[5]["recorded_at_ms"] += 2
    assert check_consistency(rows, RULES, before={}).equal < 30


@pytest.mark.parametrize("rule", [rules(RateProfile.RATE_3_8, 5), rules(RateProfile.RATE_3_3)])
def test_the_rules_of_another_broker_are_not_consistent(rule: BrokerRules) -> None:
    rows = simulated([500.0, 90.0, 700.0] * 15, every_ms=350)
    assert check_consistency(rows, {1: rule}, before={}).equal < 45


def test_a_lost_state_begins_a_new_simulation() -> None:
    rows = simulated([5000.0] * 20) + [row | {"sensor_epoch": 1} for row in simulated([20.0] * 20)]
    assert check_consistency(rows, RULES, before={}).equal == 40


def test_a_known_state_is_gone_on_from() -> None:
    rows, key = simulated([500.0] * 30), SensorKey(1, "producer_byte_rate", "alice", "")
    rate = Rate(RateProfile.RATE_3_8)
    for row in rows[:20]:
        rate.record(row["amount"], row["recorded_at_ms"])
        rate.measure(row["recorded_at_ms"])
    samples = tuple((s.start_ms, s.last_event_ms, s.value) for s in rate.slots)
    before = {key: CarriedState(0, 19, rate.index, samples)}
    assert check_consistency(rows[20:], RULES, before).equal == 10
    assert check_consistency(rows[20:], RULES, {}).equal < 10


def test_nothing_is_checked_after_an_unknown_amount() -> None:
    rows = simulated([500.0] * 30)
    rows[10]["amount"] = None
    assert check_consistency(rows, RULES, before={}).checked == 10


def test_recall_and_precision_count_planted_faults_among_the_flags() -> None:
    planted = read_planted(b'{"violations": [[1, "c", 1, null], [1, "c", 2, "t"]]}', "truth.json")
    found = planted_figures(planted, {(1, "c", 1, None), (1, "c", 3, None)})
    assert found == {"tampered": 2, "recall": 0.5, "precision": 0.5, "precision_bandwidth": 0.5}


def test_a_file_that_is_no_truth_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"truth\.json is no list of planted faults"):
        read_planted(b'{"violations": [1]}', "truth.json")
