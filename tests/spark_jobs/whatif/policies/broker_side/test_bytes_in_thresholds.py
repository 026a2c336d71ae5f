"""What topics get of a broker's total, and what of it is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.whatif.policies.broker_side.broker_side_v1 import METER_TICKS, BrokerSideV1
from spark_jobs.whatif.policies.broker_side.bytes_in_thresholds import (
    TOPIC_THRESHOLD,
    TOTAL_THRESHOLD,
)
from spark_jobs.whatif.policies.change import ConfigChanged, TopicAdded, TopicRemoved
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from tests.spark_jobs.whatif.policies.broker_side_requests import (
    T,
    policy_of,
    produce,
    set_topic,
    thresholds_of,
)


def test_a_topic_that_leaves_gives_its_share_back() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcde")
    policy.observe(TopicRemoved(T, 1, "e"))
    assert thresholds_of(policy, "cd") == [5, 5]
    policy.observe(TopicRemoved(T, 1, "never-there"))
    assert thresholds_of(policy, "cd") == [5, 5]


def test_without_implicit_topics_nothing_is_divided() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "ab")
    assert policy.thresholds.share(1) is None
    assert policy.thresholds.share(2) is None
    assert thresholds_of(policy, "ab") == [60, 30]


def test_a_threshold_that_is_removed_makes_the_topic_share() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    set_topic(policy, b=None, never_there=None)
    assert thresholds_of(policy, "abcd") == [60, 13, 13, 13]
    policy.observe(ConfigChanged(T, {TOPIC_THRESHOLD: None}))
    assert thresholds_of(policy, "abcd") == [25, 25, 25, 25]


def test_a_topic_that_appends_without_having_been_announced_is_new_to_the_broker() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    policy.decide(produce(T, {"e": 1.0}))
    assert thresholds_of(policy, "cde") == [3, 3, 3]
    policy.observe(TopicAdded(T, 1, "e"))
    assert thresholds_of(policy, "cde") == [3, 3, 3]


def test_shares_are_of_the_topics_of_the_broker_and_differ_between_brokers() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    for topic in "ac":
        policy.observe(TopicAdded(T, 2, topic))
    assert thresholds_of(policy, "c", broker_id=1) == [5]
    assert thresholds_of(policy, "c", broker_id=2) == [40]


def test_the_check_runs_over_all_configured_topics_wherever_they_are() -> None:
    policy = policy_of(100, {"elsewhere": 95}, "ab")
    with pytest.raises(PolicyConfigError, match="105"):
        set_topic(policy, a=10)


def test_shares_are_rounded_down() -> None:
    assert thresholds_of(policy_of(100, {"a": 1}, "abcde"), "bcde") == [24, 24, 24, 24]


def test_shares_are_exact_up_to_the_largest_long() -> None:
    assert thresholds_of(policy_of(2**63 - 1, {"a": 1}, "abc"), "bc") == [2**62 - 1] * 2


def test_a_raised_total_is_shared() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    policy.observe(ConfigChanged(T, {TOTAL_THRESHOLD: 200}))
    assert thresholds_of(policy, "abcd") == [60, 30, 55, 55]


def test_a_total_below_the_sum_is_refused() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    with pytest.raises(PolicyConfigError, match=rf"{TOTAL_THRESHOLD} = 89: .*90.* exceed .*89"):
        policy.observe(ConfigChanged(T, {TOTAL_THRESHOLD: 89}))
    assert (policy.thresholds.total, thresholds_of(policy, "abcd")) == (100, [60, 30, 5, 5])
    policy.observe(ConfigChanged(T, {TOTAL_THRESHOLD: 90}))
    assert thresholds_of(policy, "abcd") == [60, 30, 0, 0]


def test_a_total_that_rises_with_a_topics_threshold_is_one_change() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    policy.observe(ConfigChanged(T, {TOPIC_THRESHOLD: {"c": 15}, TOTAL_THRESHOLD: 115}))
    assert thresholds_of(policy, "abcd") == [60, 30, 15, 10]


def test_a_change_that_is_refused_in_part_changes_nothing() -> None:
    policy = policy_of(100, {"a": 60, "b": 30}, "abcd")
    changes = [{"a": 10, "c": -1}, {"a": None, "c": 80}, {"a": 10, "": 1}]
    for table in changes:
        with pytest.raises(PolicyConfigError):
            policy.observe(ConfigChanged(T, {TOTAL_THRESHOLD: 99, TOPIC_THRESHOLD: table}))
    assert (policy.thresholds.total, thresholds_of(policy, "abcd")) == (100, [60, 30, 5, 5])


@given(
    total=st.integers(0, 1_000),
    steps=st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 400) | st.none() | st.booleans())
    ),
)
def test_the_thresholds_of_a_broker_never_sum_above_the_total(
    total: int, steps: list[tuple[str, int | None]]
) -> None:
    policy, topics, explicit = policy_of(total), set[str](), dict[str, int]()
    for topic, step in steps:
        if step is True:
            policy.observe(TopicAdded(T, 1, topic))
            topics.add(topic)
        elif step is False:
            policy.observe(TopicRemoved(T, 1, topic))
            topics.discard(topic)
        else:
            wanted = {t: v for t, v in {**explicit, topic: step}.items() if v is not None}
            if sum(wanted.values()) > total:
                with pytest.raises(PolicyConfigError):
                    set_topic(policy, **{topic: step})
            else:
                set_topic(policy, **{topic: step})
                explicit = wanted
        found = {each: policy.thresholds.of(1, each) for each in topics}
        assert sum(found.values()) <= total
        assert explicit.items() >= {t: v for t, v in found.items() if t in explicit}.items()
        shares = {found[each] for each in topics - set(explicit)}
        assert len(shares) <= 1
        left = total - sum(found.values())
        assert not shares or 0 <= left < len(topics - set(explicit))


class TestBadConfigurations:
    @pytest.mark.parametrize(
        ("config", "rule"),
        [
            ({}, f"{TOTAL_THRESHOLD} = None: there is no default"),
            ({TOTAL_THRESHOLD: None}, "there is no default"),
            ({TOTAL_THRESHOLD: -1}, "-1: it must be a whole number of bytes per second from 0"),
            ({TOTAL_THRESHOLD: 1.5}, "1.5: it must be a whole number"),
            ({TOTAL_THRESHOLD: True}, "True: it must be a whole number"),
            ({TOTAL_THRESHOLD: "1_000"}, "'1_000': it must be a whole number"),
            ({TOTAL_THRESHOLD: "10M"}, "'10M': it must be a whole number"),
            ({TOTAL_THRESHOLD: 2**63}, f"{2**63}: .* to {2**63 - 1}"),
            ({TOPIC_THRESHOLD: {"a": -1}}, r"\{'a': -1\}: it must be a whole number"),
            ({TOPIC_THRESHOLD: {"a": 0.5}}, r"\{'a': 0.5\}: it must be a whole number"),
            ({TOPIC_THRESHOLD: {"a": None}}, r"\{'a': None\}: a topic without a value"),
            ({TOPIC_THRESHOLD: {"": 1}}, "'' cannot be the name of a topic"),
            ({TOPIC_THRESHOLD: {"a b": 1}}, "'a b' cannot be the name of a topic"),
            ({TOPIC_THRESHOLD: {7: 1}}, "7 cannot be the name of a topic"),
            ({TOPIC_THRESHOLD: 60}, "60: it must be a table of topics"),
            ({TOPIC_THRESHOLD: "a:60"}, "'a:60': it must be a table of topics"),
            (
                {TOPIC_THRESHOLD: {"a": 60, "b": 41}},
                "the sum of all topics' .*, 101, must not exceed .*, 100; lower a topic's",
            ),
            ({"bytes.in.threshold": {"a": 60}}, f"keys are {TOPIC_THRESHOLD}, "),
            ({METER_TICKS: "often"}, "it must be one of when_touched, fixed_schedule"),
        ],
    )  # fmt: skip
    def test_are_refused_with_the_rule(self, config: Mapping[str, object], rule: str) -> None:
        total = {} if not config else {TOTAL_THRESHOLD: 100}
        with pytest.raises(PolicyConfigError, match=rule):
            BrokerSideV1.configured({**total, **config})

    @pytest.mark.parametrize(
        ("values", "rule"),
        [
            ({"bytes.in.threshold": 1}, "there is no such key"),
            ({METER_TICKS: "fixed_schedule"}, "read when a broker starts"),
            ({TOTAL_THRESHOLD: None}, "None: it must be a whole number"),
        ],
    )
    def test_changes_are_refused_with_the_rule(
        self, values: Mapping[str, object], rule: str
    ) -> None:
        policy = policy_of(100, {"a": 60}, "ab")
        with pytest.raises(PolicyConfigError, match=rule):
            policy.observe(ConfigChanged(T, {TOPIC_THRESHOLD: {"a": 1}, **values}))
        assert thresholds_of(policy, "ab") == [60, 40]

    def test_numbers_may_be_texts_as_in_a_properties_file(self) -> None:
        policy = BrokerSideV1.configured(
            {TOTAL_THRESHOLD: " 100 ", TOPIC_THRESHOLD: {"a": "60"}, METER_TICKS: "when_touched"}
        )
        for topic in "ab":
            policy.observe(TopicAdded(T, 1, topic))
        assert thresholds_of(policy, "ab") == [60, 40]
