"""What holds for every policy on partition mutations and for today's broker quotas."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from spark_jobs.whatif import policies
from spark_jobs.whatif.policies.catalogue import POLICIES, policy_class
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.policy import Policy
from tests.spark_jobs.whatif.policies.mutation_requests import EXAMPLE, T, admitted, create

NAMES = [name for name in POLICIES if name.startswith(("kip599", "broker_"))]
NAMES.remove("broker_side_v1")
LATE = ["kip599_rate", "kip599_rate_burst_spread", "kip599_token_bucket"]
BY_TOPIC = [*LATE, "broker_controller_mutation"]
EARLY = ["kip599_early", "kip599_execution_throttle", "kip599_no_error"]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(policies.__path__, "spark_jobs.whatif.policies.")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_found_under_its_name(name: str) -> None:
    found = policy_class(name)
    assert found.name == name
    assert found.title
    assert Policy in found.__mro__


@pytest.mark.parametrize("name", NAMES)
def test_without_a_configuration_nothing_is_throttled(name: str) -> None:
    found = policy_class(name).configured({})
    for _ in range(3):
        decision = found.decide(create(10**9, handler_time_us=10**9, api_name=api_of(found)))
        assert (decision.delay_ms, decision.held, decision.refusal) == (0, Held.NOTHING, None)


@pytest.mark.parametrize("name", NAMES)
def test_every_request_has_a_state_key(name: str) -> None:
    found = policy_class(name).configured({})
    assert found.state_key(create(1, client_id=None, api_name=api_of(found)))


@pytest.mark.parametrize("name", BY_TOPIC)
def test_topics_without_a_quota_are_listed_all_the_same(name: str) -> None:
    decision = policy_class(name).configured({}).decide(create(3, 4))
    assert [(topic.topic, topic.amount) for topic in decision.topics] == [("t0", 3), ("t1", 4)]


@pytest.mark.parametrize("name", BY_TOPIC)
def test_560_mutations_are_admitted_and_the_next_is_told_12_seconds(name: str) -> None:
    found = policy_class(name).configured(EXAMPLE)
    assert admitted(found.decide(create(*[80] * 7))) == [True] * 7
    decision = found.decide(create(1))
    assert (admitted(decision), decision.delay_ms) == ([False], 12_000)


@pytest.mark.parametrize("name", EARLY)
def test_the_early_revisions_known_limits_are_said(name: str) -> None:
    said = " ".join(policy_class(name).known_limits)
    assert "ZooKeeper" in said
    assert "METADATA" in said


@pytest.mark.parametrize("name", LATE)
def test_admission_after_the_burst_is_what_each_document_promises(name: str) -> None:
    found = policy_class(name).configured(EXAMPLE)
    found.decide(create(*[80] * 7))
    by_second = [s for s in range(101) if admitted(found.decide(create(0, at_ms=T + 1000 * s)))[0]]
    assert by_second[0] == (100 if name == "kip599_rate" else 12)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def api_of(found: Policy) -> str:
    return "CREATE_TOPICS" if "CREATE_TOPICS" in found.apis else "PRODUCE"
