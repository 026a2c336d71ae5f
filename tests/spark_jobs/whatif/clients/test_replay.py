"""From requests to rows, in both modes."""

from __future__ import annotations

from typing import Any

from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.whatif.clients.client_log import LoggedRequest
from spark_jobs.whatif.clients.replay import closed_loop_rows, outcome_rows
from spark_jobs.whatif.clients.scenario import ClientSettings, Mode, ScenarioPolicy
from tests.spark_jobs.whatif.clients.client_requests import logged

SECOND_MS = 1_000
START_MS = 1_000_000
TIGHT = {"user": "alice", "producer_byte_rate": 100, "consumer_byte_rate": 100}
ONE_BY_ONE = ClientSettings(fills_batches=False)


def tight(**others: Any) -> ScenarioPolicy:
    return ScenarioPolicy("broker_bandwidth", "tight", {"quotas": [TIGHT]}, **others)


def every_second(seconds: int, amount: float, **fields: Any) -> list[LoggedRequest]:
    return [logged(START_MS + i * SECOND_MS, amount, **fields) for i in range(seconds)]


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    assert set(row) == set(WHATIF.names)
    return row


def test_a_client_that_waits_is_throttled_less_and_has_the_rest_waiting() -> None:
    log = every_second(30, 500.0)
    as_logged = only(outcome_rows(tight(), [one.request for one in log]))
    found = only(closed_loop_rows(tight(clients=ONE_BY_ONE), {"c": log}))
    assert (as_logged["mode"], found["mode"]) == (Mode.AS_LOGGED, Mode.CLOSED_LOOP)
    assert found["requests"] < as_logged["requests"] == 30
    assert found["throttle_time_ms"] < as_logged["throttle_time_ms"]
    assert found["admitted"] + found["waiting"] == as_logged["admitted"] == 15_000
    # 29 s at 100 B/s, and what a window of ten more lets through at first.
    assert 2_900 <= found["admitted"] <= 4_500
    assert (as_logged["waiting"], found["lost"]) == (0, 0)


def test_the_replay_ends_with_the_last_request_of_the_log() -> None:
    log = every_second(2, 5_000.0)
    found = only(closed_loop_rows(tight(clients=ONE_BY_ONE), {"c": log}))
    assert (found["requests"], found["waiting"]) == (1, 5_000)


def test_requests_that_the_policy_does_not_decide_on_have_no_row() -> None:
    log = [logged(START_MS, api_name="METADATA"), logged(START_MS + 5)]
    assert only(closed_loop_rows(tight(), {"c": log}))["kind"] == "produce"


def test_what_clients_give_up_is_lost_and_retries_are_their_own() -> None:
    log = {"c": every_second(10, 3_000.0)}
    config = {"quota.producer.default": "1000", "retries": 2, "retry.backoff.ms": 100}
    twice = only(closed_loop_rows(ScenarioPolicy("kip13_immediate_error", "e", config), log))
    assert twice["lost"] > 0
    assert twice["refused"] >= 3 * twice["lost"]
    assert twice["admitted"] + twice["lost"] + twice["waiting"] == 30_000
    without = ScenarioPolicy(
        "kip13_immediate_error", "e", {"quota.producer.default": "1000"}, clients=ONE_BY_ONE
    )
    assert only(closed_loop_rows(without, log))["lost"] == 0


def test_mutations_that_were_tried_again_in_the_log_are_one() -> None:
    fields = {"api_name": "CREATE_TOPICS", "topics": ()}
    log = [logged(START_MS, **fields), logged(START_MS + 900, **fields)]
    refused = LoggedRequest(log[0].request, log[0].arrived_us, is_refused=True)
    policy = ScenarioPolicy("broker_controller_mutation", "m")
    assert only(closed_loop_rows(policy, {"c": [refused, log[1], log[1]]}))["requests"] == 2
    assert only(closed_loop_rows(policy, {"c": [log[0], log[1], log[1]]}))["requests"] == 3


def test_nothing_logged_is_no_row() -> None:
    assert closed_loop_rows(tight(), {}) == []
