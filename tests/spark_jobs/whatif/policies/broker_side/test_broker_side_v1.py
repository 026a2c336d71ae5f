from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.whatif.policies.broker_side.broker_side_v1 import (
    METER_TICKS,
    QUOTA_EXCEEDED,
    BrokerSideV1,
    DroppedRequest,
    MeterName,
    Ticks,
    dropped_requests,
)
from spark_jobs.whatif.policies.broker_side.bytes_in_thresholds import (
    TOPIC_THRESHOLD,
    TOTAL_THRESHOLD,
)
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import (
    BrokerStarted,
    ConfigChanged,
    ControllerFailedOver,
    QuotaChanged,
    TopicAdded,
    TopicRemoved,
)
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.policy import StateScope
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.broker_side_requests import (
    T,
    count,
    overloaded,
    policy_of,
    produce,
    refused,
    set_topic,
    thresholds_of,
)

MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, NOT_LEADER, TIMED_OUT = 10, 18, 6, 7

each_other_error = pytest.mark.parametrize(
    "code", [MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, NOT_LEADER]
)


def test_the_catalogue_knows_it() -> None:
    assert policy_class("broker_side_v1") is BrokerSideV1


def test_the_total_binds_a_broker_together() -> None:
    assert BrokerSideV1.scope is StateScope.BROKER
    assert BrokerSideV1.apis == {"PRODUCE"}
    policy = policy_of(1)
    keys = [policy.state_key(produce(T, {"a": 1.0}, broker_id=broker)) for broker in (1, 1, 2)]
    assert keys == ["1", "1", "2"]


class TestThresholds:
    def test_must_two_topics_without_a_threshold_share_what_is_left(self) -> None:
        policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
        assert thresholds_of(policy, "abcd") == [60, 30, 5, 5]

    def test_must_a_threshold_that_exceeds_the_total_is_refused(self) -> None:
        policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
        with pytest.raises(PolicyConfigError, match=r"\{'c': 15\}.* 105, must not exceed .* 100"):
            set_topic(policy, c=15)
        assert thresholds_of(policy, "abcd") == [60, 30, 5, 5]

    def test_must_a_threshold_that_makes_up_the_total_leaves_0_for_the_others(self) -> None:
        policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
        set_topic(policy, c=10)
        assert thresholds_of(policy, "abcd") == [60, 30, 10, 0]
        policy.observe(TopicAdded(T, 1, "e"))
        assert thresholds_of(policy, "de") == [0, 0]

    def test_must_a_new_topic_shares_too(self) -> None:
        policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
        policy.observe(TopicAdded(T, 1, "e"))
        assert thresholds_of(policy, "cde") == [3, 3, 3]


class TestDecisions:
    def test_an_append_is_refused_iff_broker_and_topic_are_both_above(self) -> None:
        # total 30 above 20; a 20 above 5; b 10 below 15.
        assert refused(overloaded(), T + 5_001, {"a": 1.0, "b": 1.0}) == [True, False]

    def test_a_topic_above_its_own_threshold_passes_while_the_broker_is_under_its_total(
        self,
    ) -> None:
        policy = policy_of(31, {"a": 5, "b": 15})
        policy.decide(produce(T, {"a": 100.0, "b": 50.0}))
        assert refused(policy, T + 5_001, {"a": 1e9}) == [False]

    def test_a_rate_equal_to_its_threshold_is_not_above_it(self) -> None:
        broker_at_12, topic_at_12 = policy_of(12, {"a": 5}), policy_of(23, {"a": 12, "b": 11})
        broker_at_12.decide(produce(T, {"a": 60.0}))
        topic_at_12.decide(produce(T, {"a": 60.0, "b": 60.0}))
        assert broker_at_12.decide(produce(T + 5_001, {"a": 1.0})).measured == 12.0
        assert refused(broker_at_12, T + 5_002, {"a": 1.0}) == [False]
        assert refused(topic_at_12, T + 5_001, {"a": 1.0, "b": 1.0}) == [False, True]

    def test_requests_see_the_rate_of_the_last_tick(self) -> None:
        policy = policy_of(1)
        assert refused(policy, T, {"a": 1e9}) == [False]
        assert refused(policy, T + 4_999, {"a": 1e9}) == [False]
        assert refused(policy, T + 5_001, {"a": 1.0}) == [True]

    def test_dropping_goes_on_until_the_rate_falls_below_the_threshold(self) -> None:
        policy = policy_of(10, {"a": 1})
        policy.decide(produce(T, {"a": 60.0}))
        at_ticks = [T + 1 + 5_000 * tick for tick in range(1, 5)]
        # 12, 11.04 and 10.16 are above 10; the next, 9.35, is not.
        assert [refused(policy, at, {"a": 1.0})[0] for at in at_ticks] == [True, True, True, False]

    def test_a_refusal_records_nothing(self) -> None:
        policy = overloaded()
        assert refused(policy, T + 5_001, {"a": 1e9}) == [True]
        assert (count(policy, MeterName.BYTES_IN), count(policy, MeterName.BYTES_IN, "a")) == (
            150,
            100,
        )

    def test_an_admitted_amount_is_recorded_on_both_meters(self) -> None:
        policy = overloaded()
        assert refused(policy, T + 5_001, {"b": 7.0}) == [False]
        assert count(policy, MeterName.BYTES_IN) == 157
        assert count(policy, MeterName.BYTES_IN, "b") == 57
        assert count(policy, MeterName.BYTES_IN, "a") == 100

    def test_one_request_can_be_part_admitted(self) -> None:
        decision = overloaded().decide(produce(T + 5_001, {"a": 3.0, "b": 4.0}))
        assert decision.refusal is None
        assert [(one.topic, one.amount, one.measured) for one in decision.topics] == [
            ("a", 3.0, 20.0),
            ("b", 4.0, 10.0),
        ]
        first, second = decision.topics
        assert second.refusal is None
        assert first.refusal is not None
        assert first.refusal.error == QUOTA_EXCEEDED
        assert first.refusal.reason == (
            "topic 'a': 20.0 bytes per second are above its 5, while the broker's 30.0 are above "
            "its 20"
        )

    def test_a_request_is_refused_when_all_of_it_is(self) -> None:
        decision = overloaded().decide(produce(T + 5_001, {"a": 3.0}))
        assert decision.refusal == decision.topics[0].refusal
        assert decision.refusal is not None
        assert decision.measured == pytest.approx(30.0)
        assert decision.bound == 20.0

    def test_a_refusal_is_an_error_that_drops_the_data_and_nothing_is_delayed(self) -> None:
        decision = overloaded().decide(produce(T + 5_001, {"a": 3.0}))
        assert decision.refusal is not None
        assert (decision.refusal.error, decision.refusal.is_retriable) == (QUOTA_EXCEEDED, False)
        assert (decision.delay_ms, decision.held, decision.is_told) == (0, Held.NOTHING, False)

    def test_the_amount_is_the_record_bytes_of_the_topic_not_the_request_on_the_wire(self) -> None:
        policy = overloaded()
        assert produce(T, {"a": 100.0}).amount == 1_000_000.0
        assert count(policy, MeterName.BYTES_IN) == 150

    def test_replication_is_exempt(self) -> None:
        policy = overloaded()
        request = produce(T + 5_001, {"a": 3.0}, is_replica=True)
        assert policy.decide(request) == ADMITTED
        assert count(policy, MeterName.BYTES_IN) == 150
        assert dropped_requests(request, ADMITTED) == ()

    def test_a_share_decides_as_an_explicit_threshold_does(self) -> None:
        policy = policy_of(20, {"a": 5}, "abc")  # b = c = 7
        policy.decide(produce(T, {"b": 40.0, "c": 65.0}))
        assert refused(policy, T + 5_001, {"a": 1.0, "b": 1.0, "c": 1.0}) == [False, True, True]
        policy.observe(TopicRemoved(T, 1, "b"))
        assert refused(policy, T + 5_002, {"c": 1.0}) == [False]

    def test_a_changed_threshold_holds_for_the_next_request(self) -> None:
        policy = overloaded()
        assert refused(policy, T + 5_001, {"a": 1.0}) == [True]
        policy.observe(ConfigChanged(T + 5_002, {TOTAL_THRESHOLD: 30}))
        assert refused(policy, T + 5_002, {"a": 1.0}) == [False]
        policy.observe(ConfigChanged(T, {TOTAL_THRESHOLD: 29, TOPIC_THRESHOLD: {"a": 14}}))
        assert refused(policy, T + 5_003, {"a": 1.0}) == [True]

    def test_brokers_measure_each_on_its_own(self) -> None:
        policy = overloaded()
        assert policy.decide(produce(T + 5_001, {"a": 1.0}, broker_id=2)).refusal is None

    def test_a_restarted_broker_has_measured_nothing_and_keeps_its_topics(self) -> None:
        policy = overloaded()
        policy.observe(TopicAdded(T, 1, "c"))
        policy.observe(BrokerStarted(T + 5_001, 1))
        assert policy.meter(1, MeterName.BYTES_IN) is None
        assert refused(policy, T + 5_001, {"a": 1e9}) == [False]
        assert thresholds_of(policy, "abc") == [5, 15, 0]

    def test_a_topic_that_leaves_takes_its_meter_along(self) -> None:
        policy = overloaded()
        policy.observe(TopicRemoved(T + 5_001, 1, "a"))
        assert policy.meter(1, MeterName.BYTES_IN, "a") is None
        assert refused(policy, T + 5_001, {"a": 1.0}) == [False]
        assert count(policy, MeterName.BYTES_IN) == 151

    def test_other_systems_changes_are_none(self) -> None:
        policy = overloaded()
        policy.observe(QuotaChanged(T, "producer_byte_rate", "alice", None, 1.0))
        policy.observe(ControllerFailedOver(T))
        assert refused(policy, T + 5_001, {"a": 1.0, "b": 1.0}) == [True, False]

    def test_an_amount_that_the_log_lacks_is_decided_on_and_not_counted(self) -> None:
        policy = overloaded()
        decision = policy.decide(produce(T + 5_001, {"a": math.nan, "b": math.nan}))
        assert decision.findings == ("bytes_unknown",)
        assert [one.refusal is not None for one in decision.topics] == [True, False]
        assert count(policy, MeterName.BYTES_IN) == 150
        assert count(policy, MeterName.THROTTLED_BYTES_IN) == 0

    def test_a_request_whose_topics_the_log_lacks_is_admitted_with_a_finding(self) -> None:
        decision = overloaded().decide(produce(T + 5_001, {}))
        assert (decision.refusal, decision.findings) == (None, ("topics_unknown",))

    def test_the_older_librarys_schedule_is_a_setting_and_decides_otherwise(self) -> None:
        touched, fixed = overloaded(), overloaded(**{METER_TICKS: Ticks.FIXED_SCHEDULE.value})
        assert refused(touched, T + 5_000, {"a": 1.0}) == [False]
        assert refused(fixed, T + 5_000, {"a": 1.0}) == [True]
        assert refused(touched, T + 5_001, {"a": 1.0}) == [True]

    @given(
        steps=st.lists(
            st.tuples(
                st.integers(0, 9_000), st.sampled_from(["a", "b", "c", "ab"]), st.integers(0, 500)
            ),
            max_size=60,
        )
    )
    def test_every_byte_is_admitted_or_throttled_and_a_refused_one_was_above_both(
        self, steps: list[tuple[int, str, int]]
    ) -> None:
        policy, now_ms, offered = policy_of(20, {"a": 5}), T, 0
        for step_ms, topics, amount in steps:
            now_ms += step_ms
            offered += amount * len(topics)
            decision = policy.decide(produce(now_ms, {each: float(amount) for each in topics}))
            for one in decision.topics:
                is_above = decision.measured > 20 and one.measured > policy.thresholds.of(
                    1, one.topic
                )
                assert (one.refusal is not None) == is_above
        throttled = count(policy, MeterName.THROTTLED_BYTES_IN)
        assert count(policy, MeterName.BYTES_IN) + throttled == offered
        by_topic = sum(count(policy, MeterName.BYTES_IN, topic) for topic in "abc")
        assert by_topic == count(policy, MeterName.BYTES_IN)


class TestOtherMeters:
    @each_other_error
    def test_bytes_refused_for_another_reason_do_not_count_as_bytes_in(self, code: int) -> None:
        policy = policy_of(20)
        decision = policy.decide(produce(T, [TopicPart("a", 70.0, code), TopicPart("b", 30.0)]))
        assert [(one.amount, one.refusal) for one in decision.topics] == [(0.0, None), (30.0, None)]
        assert count(policy, MeterName.BYTES_IN) == 30
        assert policy.meter(1, MeterName.BYTES_IN, "a") is None

    @each_other_error
    def test_error_bytes_in_are_measured_per_broker(self, code: int) -> None:
        policy = policy_of(20)
        policy.decide(produce(T, [TopicPart("a", 70.0, code), TopicPart("b", 30.0, code)]))
        meter = policy.meter(1, MeterName.ERROR_BYTES_IN)
        assert meter is not None
        assert (meter.count, meter.rate(T + 5_001)) == (100, 20.0)
        assert policy.meter(1, MeterName.THROTTLED_BYTES_IN) is None

    def test_throttled_bytes_in_are_measured_per_broker(self) -> None:
        policy = overloaded()
        policy.decide(produce(T + 5_001, {"a": 35.0, "b": 1.0}))
        meter = policy.meter(1, MeterName.THROTTLED_BYTES_IN)
        assert meter is not None
        assert (meter.count, meter.rate(T + 10_002)) == (35, 7.0)
        assert policy.meter(1, MeterName.ERROR_BYTES_IN) is None

    def test_what_failed_otherwise_is_not_throttled_too(self) -> None:
        policy = overloaded()
        decision = policy.decide(produce(T + 5_001, [TopicPart("a", 9.0, MESSAGE_TOO_LARGE)]))
        assert decision.refusal is None
        assert count(policy, MeterName.ERROR_BYTES_IN) == 9
        assert count(policy, MeterName.THROTTLED_BYTES_IN) == 0

    def test_a_topic_of_failed_appends_only_does_not_share(self) -> None:
        policy = policy_of(20, topics="ab")
        policy.decide(produce(T, [TopicPart("c", 9.0, MESSAGE_TOO_LARGE)]))
        assert thresholds_of(policy, "ab") == [10, 10]

    def test_an_error_after_the_append_is_none_here(self) -> None:
        policy = policy_of(20)
        request = produce(T, [TopicPart("a", 70.0, TIMED_OUT)])
        assert dropped_requests(request, policy.decide(request)) == ()
        assert count(policy, MeterName.BYTES_IN) == 70


class TestDroppedRequestLog:
    def test_has_each_dropped_part_with_its_reason(self) -> None:
        policy = overloaded()
        parts = [TopicPart("a", 3.0), TopicPart("b", 4.0), TopicPart("c", 5.0, MESSAGE_TOO_LARGE)]
        request = produce(T + 5_001, parts)
        decision = policy.decide(request)
        where = (T + 5_001, 1, "c-1", "app")
        assert decision.topics[0].refusal is not None
        assert dropped_requests(request, decision) == (
            DroppedRequest(*where, "a", 3.0, QUOTA_EXCEEDED, decision.topics[0].refusal.reason),
            DroppedRequest(
                *where,
                "c",
                5.0,
                "MESSAGE_TOO_LARGE",
                "failed before the append, for no reason of the quota",
            ),
        )

    @pytest.mark.parametrize(
        ("code", "error"),
        [(MESSAGE_TOO_LARGE, "MESSAGE_TOO_LARGE"), (RECORD_LIST_TOO_LARGE, "RECORD_LIST_TOO_LARGE"),
         (NOT_LEADER, "error code 6")],
    )  # fmt: skip
    def test_names_the_error(self, code: int, error: str) -> None:
        request = produce(T, [TopicPart("a", 1.0, code)])
        assert [one.error for one in dropped_requests(request, overloaded().decide(request))] == [
            error
        ]

    def test_is_empty_when_everything_was_appended(self) -> None:
        request = produce(T, {"a": 1.0})
        assert dropped_requests(request, policy_of(1).decide(request)) == ()

    def test_grows_nowhere(self) -> None:
        policy = overloaded()
        policy.decide(produce(T + 5_001, {"a": 1.0}))
        size = len(repr(vars(policy))), len(policy._meters[1])
        for _ in range(100):
            policy.decide(produce(T + 5_001, {"a": 1.0}))
        assert (len(repr(vars(policy))), len(policy._meters[1])) == size
