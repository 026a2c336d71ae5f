from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.check.auditable import QuotaShare, quota_shares
from spark_jobs.check.looked_at import Group

ALICE = Group(
    broker_id=1,
    listener="CLIENTS",
    user="alice",
    client_id="app",
    api_name="PRODUCE",
    is_forwarded=False,
    is_replica=False,
    is_answered=True,
    is_sized=True,
)


def shares(
    groups: Mapping[Group, int],
    mutations: Sequence[Mapping[str, Any]] = (),
    users: Sequence[str] = ("alice",),
    *,
    is_zookeeper: bool = False,
    is_whole: bool = True,
) -> dict[str, QuotaShare]:
    found = quota_shares(
        groups,
        mutations,
        lambda quota_type, broker_id, user, client_id: user in users,
        is_zookeeper=is_zookeeper,
        is_whole=is_whole,
    )
    return {each.quota_type: each for each in found}


def mutation(
    topic: str = "orders",
    partitions: int | None = 3,
    api_name: str = "CREATE_TOPICS",
    error_code: int = 0,
    at_ms: int = 0,
    **values: Any,
) -> dict[str, Any]:
    item = {"topic": topic, "partitions": partitions, "error_code": error_code}
    return {
        "broker_id": 1,
        "listener": "CONTROLLER",
        "user": "alice",
        "client_id": "app",
        "is_forwarded": True,
        "api_name": api_name,
        "correlation_id": at_ms,
        "mutations": [item],
        "validate_only": False,
        "recorded_estimate_us": at_ms * 1000,
        "recorded_earliest_ms": at_ms,
        "recorded_latest_ms": at_ms,
    } | values


def test_a_request_is_auditable_whose_size_and_value_are_known() -> None:
    found = shares({ALICE: 5, ALICE._replace(is_sized=False): 3, ALICE._replace(user="bob"): 2})[
        "producer_byte_rate"
    ]
    assert (found.requests, found.unsized, found.without_value, found.auditable) == (10, 3, 2, 5)


def test_what_is_no_clients_is_not_counted() -> None:
    fetch = ALICE._replace(api_name="FETCH")
    heartbeat = ALICE._replace(api_name="BROKER_HEARTBEAT", listener="CONTROLLER")
    found = shares(
        {
            fetch: 1,
            fetch._replace(is_replica=True): 10,
            fetch._replace(is_forwarded=True, listener="CONTROLLER"): 100,
            fetch._replace(listener="CONTROLLER"): 1000,
            heartbeat: 10_000,
        }
    )
    assert found["consumer_byte_rate"].requests == 1
    assert found["request_percentage"].requests == 1


def test_request_time_is_counted_of_answered_requests_of_any_kind() -> None:
    found = shares(
        {ALICE: 1, ALICE._replace(is_answered=False): 10, ALICE._replace(api_name="METADATA"): 100}
    )
    assert found["request_percentage"].requests == 101
    assert found["producer_byte_rate"].requests == 11


def test_a_mutation_needs_the_line_of_its_controller() -> None:
    alone = mutation(is_forwarded=False, listener="CLIENTS")
    found = shares({ALICE: 1}, [alone])["controller_mutation_rate"]
    assert (found.requests, found.without_controller, found.auditable) == (1, 1, 0)
    both = shares({ALICE: 1}, [alone, mutation()])["controller_mutation_rate"]
    assert (both.requests, both.without_controller, both.auditable) == (1, 0, 1)
    with_zookeeper = shares({ALICE: 1}, [alone], is_zookeeper=True)["controller_mutation_rate"]
    assert with_zookeeper.auditable == 1


def test_in_a_sample_a_controllers_line_may_be_where_nobody_looked() -> None:
    alone = mutation("other", is_forwarded=False, listener="CLIENTS")
    found = shares({ALICE: 1}, [alone, mutation()], is_whole=False)["controller_mutation_rate"]
    assert (found.requests, found.without_controller) == (1, 0)
    no_controller = shares({ALICE: 1}, [alone], is_whole=False)["controller_mutation_rate"]
    assert no_controller.without_controller == 1


def test_deleting_a_topic_can_be_audited_where_the_log_has_its_creation() -> None:
    create = mutation(at_ms=1)
    delete = mutation(partitions=None, api_name="DELETE_TOPICS", at_ms=2)
    known = shares({ALICE: 1}, [delete, create])["controller_mutation_rate"]
    assert (known.requests, known.unsized) == (2, 0)
    unknown = shares({ALICE: 1}, [delete])["controller_mutation_rate"]
    assert (unknown.requests, unknown.unsized) == (1, 1)


def test_what_was_refused_before_a_quota_was_asked_is_no_mutation() -> None:
    exists = mutation(error_code=36)
    assert shares({ALICE: 1}, [exists])["controller_mutation_rate"].requests == 0
