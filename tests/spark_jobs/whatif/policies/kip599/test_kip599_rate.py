"""KIP-599, late revision: the rate. Its examples, one by one."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.whatif.policies.change import ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kip599.kip599_rate import Kip599Rate
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.mutation_requests import (
    BURST_OF_560,
    EXAMPLE,
    T,
    admitted,
    create,
    measured,
    quota_changed,
    request,
)


def after_the_burst() -> Kip599Rate:
    policy = Kip599Rate.configured(EXAMPLE)
    assert admitted(policy.decide(create(*BURST_OF_560))) == [True] * 7
    return policy


def test_560_mutations_make_a_rate_of_5_6() -> None:
    decision = Kip599Rate.configured(EXAMPLE).decide(create(*BURST_OF_560))
    assert (decision.measured, decision.bound, decision.delay_ms) == (5.6, 5, 0)
    assert measured(decision)[1:] == [0.8, 1.6, 2.4, 3.2, 4.0, 4.8]


def test_the_computed_throttle_is_12_seconds() -> None:
    decision = after_the_burst().decide(create(1))
    assert (decision.delay_ms, decision.held) == (12_000, Held.NEXT_REQUEST)
    assert decision.refusal is not None
    assert decision.refusal.error == "THROTTLING_QUOTA_EXCEEDED"


def test_yet_it_refuses_until_the_sample_is_discarded_100_seconds_later() -> None:
    for at_s in (12.0, 13.0, 50.0, 99.0, 99.999):
        assert admitted(after_the_burst().decide(create(1, at_s=at_s))) == [False]
    decision = after_the_burst().decide(create(1, at_s=100.0))
    assert (measured(decision), admitted(decision)) == ([0.0], [True])


def test_a_broker_finds_5_6566_over_99_seconds_and_throttles_for_13() -> None:
    documents = after_the_burst()
    brokers = Rate(RateProfile.RATE_3_8, samples=100, window_ms=1000)
    for partitions in BURST_OF_560:
        brokers.record(partitions, now_ms=T)
    decision = documents.decide(create(1))
    rate, window_ms = brokers.measure(T), brokers.window_size_ms(T)
    assert (round(rate, 4), window_ms) == (5.6566, 99_000)
    assert throttle_time_ms(rate, 5.0, window_ms) == 13_000
    assert (measured(decision), decision.delay_ms) == ([5.6], 12_000)


def test_a_rate_of_exactly_the_quota_is_admitted() -> None:
    policy = Kip599Rate.configured(EXAMPLE)
    assert admitted(policy.decide(create(500, 1, 1))) == [True, True, False]


def test_a_refused_topic_is_not_recorded() -> None:
    policy = after_the_burst()
    policy.decide(create(300, at_s=50))
    assert measured(policy.decide(create(1, at_s=100))) == [0.0]


def test_old_versions_are_recorded_and_held() -> None:
    policy = after_the_burst()
    decision = policy.decide(create(50, api_version=5))
    assert (admitted(decision), decision.measured, decision.delay_ms) == ([True], 6.1, 22_000)
    assert decision.held is Held.NEXT_REQUEST


def test_failed_topics_are_not_recorded_and_validated_ones_are() -> None:
    policy = Kip599Rate.configured(EXAMPLE)
    failed = request(TopicPart("exists", 900.0, other_error_code=36))
    assert policy.decide(failed).measured == 0.0
    assert policy.decide(create(500, validate_only=True)).measured == 5.0


def test_a_new_controller_has_counted_nothing() -> None:
    policy = after_the_burst()
    policy.observe(ControllerFailedOver(T))
    assert measured(policy.decide(create(1))) == [0.0]


def test_a_changed_quota_is_compared_with_what_was_recorded_before() -> None:
    policy = after_the_burst()
    policy.observe(quota_changed(6.0))
    assert admitted(policy.decide(create(1))) == [True]


def test_without_a_quota_in_force_it_is_recorded_all_the_same() -> None:
    policy = Kip599Rate.configured(EXAMPLE)
    assert admitted(policy.decide(create(1_000, user="bob"))) == [True]
    policy.observe(quota_changed(5.0, user="bob"))
    assert admitted(policy.decide(create(1, user="bob"))) == [False]


def test_after_unknown_partitions_an_admission_is_uncertain_and_a_refusal_is_not() -> None:
    policy = Kip599Rate.configured(EXAMPLE)
    assert policy.decide(create(math.nan)).findings == ("partitions_unknown",)
    assert policy.decide(create(501, at_s=1)).findings == ("state_unknown",)
    refused = policy.decide(create(1, at_s=1))
    assert (admitted(refused), refused.findings) == ([False], ())
    assert policy.decide(create(1, at_s=101)).findings == ()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 120_000), st.integers(0, 300)), max_size=30))
def test_it_admits_exactly_while_the_grids_total_is_within_the_quota(
    steps: list[tuple[int, int]],
) -> None:
    policy = Kip599Rate.configured(EXAMPLE)
    recorded: list[tuple[int, int]] = []
    at_ms = T
    for step_ms, partitions in steps:
        at_ms += step_ms
        within = sum(n for ms, n in recorded if at_ms // 1000 - ms // 1000 < 100)
        decision = policy.decide(create(partitions, at_ms=at_ms))
        assert admitted(decision) == [within <= 500]
        assert measured(decision) == [within / 100]
        if within <= 500:
            recorded.append((at_ms, partitions))
        else:
            assert decision.delay_ms == (within - 500) * 200
