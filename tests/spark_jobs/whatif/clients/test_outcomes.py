from __future__ import annotations

from typing import Any

from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.whatif.clients.outcomes import Outcomes
from spark_jobs.whatif.clients.scenario import Mode
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

NO = Refusal("QUOTA_VIOLATED", "too much")
NAN = float("nan")


def request(
    at_ms: int = 0, amount: float = 100.0, api_name: str = "PRODUCE", **others: Any
) -> PolicyRequest:
    fields: dict[str, Any] = {"broker_id": 1, "user": "alice", "client_id": "app"} | others
    return PolicyRequest(
        at_ms=at_ms, connection="c", api_name=api_name, api_version=9, amount=amount, **fields
    )


def creating(*parts: TopicPart, **others: Any) -> PolicyRequest:
    return request(api_name="CREATE_TOPICS", amount=NAN, topics=parts, **others)


def figures(*answers: tuple[PolicyRequest, Decision], policy: str = "kip13") -> dict[str, Any]:
    (only,) = rows(*answers, policy=policy)
    return only


def rows(*answers: tuple[PolicyRequest, Decision], policy: str = "kip13") -> list[dict[str, Any]]:
    outcomes = Outcomes(policy, "label", Mode.AS_LOGGED)
    for asked, decision in answers:
        outcomes.add(asked, decision, "state")
    return outcomes.rows()


def delayed(delay_ms: int, held: Held = Held.RESPONSE, **others: Any) -> Decision:
    return Decision(delay_ms=delay_ms, held=held, **others)


def test_a_row_has_the_columns_of_the_contract() -> None:
    found = figures((request(), ADMITTED))
    assert set(found) == set(WHATIF.names)
    assert (found["policy"], found["label"], found["mode"]) == ("kip13", "label", "as_logged")


def test_clients_brokers_and_kinds_are_told_apart() -> None:
    found = rows(
        (request(), ADMITTED),
        (request(broker_id=2), ADMITTED),
        (request(user="bob"), ADMITTED),
        (request(client_id=None), ADMITTED),
        (request(api_name="FETCH"), ADMITTED),
        (request(api_name="METADATA"), ADMITTED),
    )
    keys = [(r["broker_id"], r["user"], r["client_id"], r["kind"]) for r in found]
    assert keys == [
        (1, "alice", None, "produce"),
        (1, "alice", "app", "fetch"),
        (1, "alice", "app", "other"),
        (1, "alice", "app", "produce"),
        (1, "bob", "app", "produce"),
        (2, "alice", "app", "produce"),
    ]


def test_what_was_asked_is_admitted_refused_or_taken_back() -> None:
    found = figures(
        (request(api_name="FETCH"), ADMITTED),
        (request(api_name="FETCH"), delayed(70)),
        (request(api_name="FETCH"), delayed(30, is_taken_back=True)),
        (request(api_name="FETCH"), Decision(refusal=NO)),
    )
    assert (found["requests"], found["asked"], found["admitted"]) == (4, 400.0, 200.0)
    assert (found["refused"], found["taken_back"], found["delayed"]) == (100.0, 100.0, 200.0)
    assert (found["delayed_requests"], found["refused_requests"]) == (2, 1)
    assert (found["throttle_time_ms"], found["throttle_time_max_ms"]) == (100, 70)
    assert found["lost"] == 0.0, "what a fetch did not read is still there"


def test_a_refusal_that_keeps_its_client_waiting_delays_nothing_that_was_admitted() -> None:
    found = figures((request(), delayed(50, refusal=NO)))
    assert (found["throttle_time_ms"], found["delayed"], found["refused"]) == (50, 0.0, 100.0)


def test_of_a_request_whose_topics_are_refused_the_rest_is_admitted() -> None:
    parts = (TopicDecision("a", 60.0, NO), TopicDecision("b", 30.0))
    found = figures((request(), Decision(topics=parts)))
    assert (found["admitted"], found["refused"], found["refused_requests"]) == (40.0, 60.0, 1)


def test_sizes_that_the_log_lacks_count_nothing_and_are_counted() -> None:
    found = figures((request(amount=NAN), ADMITTED), (request(), ADMITTED))
    assert (found["asked"], found["unsized_requests"]) == (100.0, 1)


def test_replicas_are_nobody() -> None:
    assert rows((request(is_replica=True), ADMITTED)) == []


def test_the_worst_second_is_one_of_the_clock() -> None:
    found = figures(*((request(at_ms), ADMITTED) for at_ms in (900, 1_000, 1_999, 2_000, 9_000)))
    assert found["worst_burst"] == 200.0


def test_what_waits_to_be_carried_out_counts_when_it_is() -> None:
    later = figures((request(0), delayed(1_000, Held.EXECUTION)), (request(1_500), ADMITTED))
    assert later["worst_burst"] == 200.0
    at_once = figures((request(0), delayed(1_000)), (request(1_500), ADMITTED))
    assert at_once["worst_burst"] == 100.0


def test_refused_and_taken_back_amounts_are_no_burst() -> None:
    found = figures((request(), Decision(refusal=NO)), (request(5_000, amount=7.0), ADMITTED))
    assert found["worst_burst"] == 7.0


def test_a_produce_that_is_refused_is_lost_and_nobody_tries_again() -> None:
    assert figures((request(), Decision(refusal=NO)), (request(), ADMITTED))["lost"] == 100.0


def test_a_policy_that_plays_retries_knows_what_was_lost() -> None:
    outcomes = Outcomes("kip13_immediate_error", "label", Mode.AS_LOGGED)
    for user, amount in (("alice", 300.0), ("bob", 100.0)):
        outcomes.add(request(user=user, amount=amount), Decision(refusal=NO), "state")
    outcomes.settle_lost({"state": 100.0})
    assert [row["lost"] for row in outcomes.rows()] == [75.0, 25.0]
    assert [row["refused"] for row in outcomes.rows()] == [300.0, 100.0]


def test_a_refused_mutation_is_lost_unless_its_client_asks_again() -> None:
    both = (TopicPart("a", 4.0), TopicPart("b", 2.0))
    refused = Decision(topics=(TopicDecision("a", 4.0, NO), TopicDecision("b", 2.0, NO)))
    again = creating(TopicPart("a", 4.0), at_ms=1_000)
    admitted = Decision(topics=(TopicDecision("a", 4.0),))
    found = figures((creating(*both), refused), (again, admitted))
    assert (found["asked"], found["refused"], found["lost"]) == (10.0, 6.0, 2.0)
    only_b = figures((creating(*both), refused), (creating(both[1]), ADMITTED))
    assert only_b["lost"] == 4.0


def test_what_is_only_validated_cannot_be_lost() -> None:
    asked = creating(TopicPart("a", 4.0), validate_only=True)
    found = figures((asked, Decision(topics=(TopicDecision("a", 4.0, NO),))))
    assert (found["refused"], found["lost"]) == (4.0, 0.0)


def test_a_mutation_that_failed_for_another_reason_asked_for_nothing() -> None:
    asked = creating(TopicPart("a", 4.0, 36), TopicPart("b", 1.0))
    assert figures((asked, ADMITTED))["asked"] == 1.0


def test_the_delay_of_a_client_inside_its_share_is_harm() -> None:
    noisy, calm = request(user="noisy", amount=5_000.0), request(user="calm", amount=10.0)
    bound = {"measured": 500.0, "bound": 100.0}
    calm_row, noisy_row = rows((noisy, delayed(80, **bound)), (calm, delayed(90, **bound)))
    assert (calm_row["harm_time_ms"], calm_row["harmed_requests"]) == (90, 1)
    assert (noisy_row["harm_time_ms"], noisy_row["harmed_requests"]) == (0, 0)


def test_the_same_client_in_two_kinds_of_state_harms_nobody() -> None:
    outcomes = Outcomes("kip13", "label", Mode.AS_LOGGED)
    for user in ("alice", "bob"):
        outcomes.add(request(user=user, amount=1.0), delayed(50, bound=100.0), state_key=user)
    assert [row["harm_time_ms"] for row in outcomes.rows()] == [0, 0]


def test_a_share_of_request_time_is_measured_in_request_time() -> None:
    # 20 % of a second each 10 s, against a half of 5 %.
    busy = request(user="busy", handler_time_us=900_000)
    calm = request(user="calm", handler_time_us=200_000)
    answer = delayed(10, bound=5.0)
    _, calm_row = rows((busy, answer), (calm, answer), policy="broker_request_percentage")
    assert calm_row["harm_time_ms"] == 10
    more = request(user="calm", handler_time_us=300_000)
    _, more_row = rows((busy, answer), (more, answer), policy="broker_request_percentage")
    assert more_row["harm_time_ms"] == 0
