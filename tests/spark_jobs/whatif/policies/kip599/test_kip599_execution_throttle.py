"""KIP-599, early revision, rejected: throttle the execution instead of the admission."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.policies.change import ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_early import Kip599ExecutionThrottle
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.mutation_requests import (
    T,
    admitted,
    create,
    measured,
    request,
)

CONFIG = {"quota.partition.mutations.rate": 5, "quota.partition.mutations.burst": 100}
NEW = TopicPart("new", 10.0)


def at_minus_200(**config: object) -> Kip599ExecutionThrottle:
    found = Kip599ExecutionThrottle.configured(CONFIG | config)
    first = found.decide(create(300))
    assert (first.measured, first.delay_ms) == (-200, 0)
    return found


def test_a_debt_of_200_at_5_per_second_is_executed_40_seconds_later() -> None:
    decision = at_minus_200().decide(request(NEW))
    assert (measured(decision), admitted(decision)) == ([-200], [True])
    assert (decision.delay_ms, decision.held, decision.is_told) == (40_000, Held.EXECUTION, False)


def test_40_seconds_are_more_than_the_request_timeout_so_the_client_times_out() -> None:
    assert at_minus_200().decide(request(NEW)).findings == ("request_timed_out",)
    patient = at_minus_200(**{"request.timeout.ms": 40_000})
    assert patient.decide(request(NEW)).findings == ()


def test_the_retry_gets_topic_exists_and_spends_nothing() -> None:
    found = at_minus_200()
    found.decide(request(NEW))
    retry = found.decide(request(NEW, at_s=30))
    assert retry.refusal is not None
    assert (retry.refusal.error, retry.refusal.is_retriable) == ("TOPIC_ALREADY_EXISTS", False)
    assert (retry.measured, retry.delay_ms) == (-60, 0)


def test_mutations_are_executed_in_the_order_in_which_they_were_accepted() -> None:
    found = at_minus_200()
    assert found.decide(create(50, topics=(TopicPart("a", 50.0),))).delay_ms == 40_000
    assert found.decide(create(50, topics=(TopicPart("b", 50.0),))).delay_ms == 50_000


def test_the_answer_waits_for_the_last_topic_of_the_request() -> None:
    decision = at_minus_200().decide(request(NEW, TopicPart("newer", 1.0)))
    assert decision.delay_ms == 42_000


def test_every_version_is_accepted() -> None:
    decision = at_minus_200().decide(request(NEW, api_version=2))
    assert (decision.delay_ms, decision.refusal) == (40_000, None)


def test_a_deleted_topic_can_be_created_again() -> None:
    found = at_minus_200()
    found.decide(request(NEW))
    found.decide(request(NEW, api_name="DELETE_TOPICS"))
    assert admitted(found.decide(request(NEW))) == [True]


def test_a_validated_topic_is_not_registered() -> None:
    found = at_minus_200()
    found.decide(request(NEW, validate_only=True))
    assert admitted(found.decide(request(NEW))) == [True]


def test_a_topic_that_failed_otherwise_is_neither_registered_nor_waited_for() -> None:
    found = at_minus_200()
    failed = found.decide(request(TopicPart("new", 10.0, other_error_code=37)))
    assert (failed.delay_ms, failed.measured) == (0, -200)
    assert admitted(found.decide(request(NEW))) == [True]


def test_topics_stay_registered_when_another_controller_takes_over_with_a_full_bucket() -> None:
    found = at_minus_200()
    found.decide(request(NEW))
    found.observe(ControllerFailedOver(T))
    assert admitted(found.decide(request(NEW))) == [False]
    assert measured(found.decide(request(TopicPart("newer", 1.0)))) == [100]


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(PolicyConfigError, match="whole number from 1 to 2147483647"):
        Kip599ExecutionThrottle.configured({"request.timeout.ms": 0})


def test_unknown_partitions_are_reported_and_all_later_delays_are_uncertain() -> None:
    found = Kip599ExecutionThrottle.configured(CONFIG)
    assert found.decide(create(math.nan)).findings == ("partitions_unknown",)
    assert found.decide(request(NEW)).findings == ("state_unknown",)


def test_a_topic_that_exists_does_not_refuse_the_others_of_its_request() -> None:
    found = at_minus_200()
    found.decide(request(NEW))
    decision = found.decide(request(NEW, TopicPart("newer", 1.0)))
    assert (admitted(decision), decision.refusal) == ([False, True], None)
    assert decision.delay_ms == 42_000
