from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.whatif.clients.scenario import chosen_policies, read_scenario
from spark_jobs.whatif.policies.change import TopicAdded
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError

EXAMPLE = Path(__file__).parents[4] / "examples" / "whatif.toml"

BAD = {
    'policy = "kip13"': "s.toml: found 'kip13' for policy",
    "": "s.toml: found nothing for policy",
    "policy = []": r"s.toml: found \[\] for policy",
    "policy = [1]": "policy 1: found 1; write a policy as",
    "[[policy]\n": "this is no TOML: .*line 1",
    "[[polices]]\nname='kip13'": "there is no key 'polices'; the keys are policy",
    "[[policy]]": "policy 1: found nothing for name",
    "[[policy]]\nname = ' '": "found ' ' for name",
    "[[policy]]\nname = 7": "found 7 for name",
    "[[policy]]\nname = 'kip14'": "no policy is called 'kip14'; there are: broker_side_v1, kip13",
    "[[policy]]\nname = 'kip13'\nlabel = ''": "found '' for label",
    "[[policy]]\nname = 'kip13'\nquota = 1": "policy 1: there is no key 'quota'",
    "[[policy]]\nname = 'kip13'\nconfig = 1": "policy 1: found 1 for config",
    "[[policy]]\nname = 'kip13'\n[policy.config]\nquota.window.num = 3": (
        'found a table for quota .* in quotes: "quota.window" ='
    ),
    "[[policy]]\nname = 'kip13'\n[[policy]]\nname = 'kip13'": "2 policies are labelled 'kip13'",
    "[[policy]]\nname = 'kip13'\n[policy.clients]\nretires = 1": (
        "policy 1: clients: .*unknown field `retires`.* The keys are retries, retry.backoff.ms"
    ),
    "[[policy]]\nname = 'kip13'\ntopics = 1": "found 1 for topics",
    "[[policy]]\nname = 'kip13'\ntopics = [1]": "topic 1: found 1",
    "[[policy]]\nname = 'kip13'\n[[policy.topics]]\ntopic = 'a'": "found nothing for broker-id",
    "[[policy]]\nname = 'kip13'\n[[policy.topics]]\ntopic = 1\nbroker-id = 1": "found 1 for topic",
    "[[policy]]\nname = 'kip13'\n[[policy.topics]]\ntopics = 'a'": "there is no key 'topics'",
    "[[policy]]\nname = 'kip13'\n[[policy.topics]]\ntopic = 'a'\nbroker-id = true": (
        "found True for broker-id; it is a whole number"
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_scenario_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(BadInputError, match=BAD[text]):
        read_scenario(text, "s.toml")


def test_a_configuration_is_refused_with_the_rule_it_breaks() -> None:
    text = '[[policy]]\nname = "kip13"\n[policy.config]\n"quota.producer.override" = "a:"'
    with pytest.raises(PolicyConfigError, match=r"kip13: quota\.producer.override = 'a:'"):
        read_scenario(text, "s.toml")


def test_topics_that_cannot_be_are_refused() -> None:
    text = (
        '[[policy]]\nname = "kip13_topic_partition"\n[[policy.topics]]\ntopic = "a"\n'
        "broker-id = 1\npartitions = 2\nleaders = 3"
    )
    with pytest.raises(PolicyConfigError, match="3 of 2 partitions"):
        read_scenario(text, "s.toml")


def test_a_policy_has_its_label_its_configuration_and_its_topics() -> None:
    text = (
        '[[policy]]\nname = "kip13_topic_partition"\nlabel = "split"\n[policy.config]\n'
        '"quota.producer.default" = "8M"\n[[policy.topics]]\ntopic = "a"\nbroker-id = 1\n'
        "partitions = 8\nleaders = 3"
    )
    (found,) = read_scenario(text, "s.toml")
    assert (found.name, found.label) == ("kip13_topic_partition", "split")
    assert found.config == {"quota.producer.default": "8M"}
    assert found.topics == (TopicAdded(0, 1, "a", 8, 3),)


def test_policies_are_chosen_by_name_or_label() -> None:
    text = "".join(
        f'[[policy]]\nname = "{name}"\nlabel = "{label}"\n'
        for name, label in (("kip13", "a"), ("kip13", "b"), ("kip599_rate", "c"))
    )
    policies = read_scenario(text, "s.toml")
    assert chosen_policies(policies, [], "s.toml") == policies
    assert [p.label for p in chosen_policies(policies, ["kip13"], "s.toml")] == ["a", "b"]
    assert [p.label for p in chosen_policies(policies, ["c", "b"], "s.toml")] == ["b", "c"]
    with pytest.raises(BadInputError, match="no policy 'd' in it; there are: a, b, c"):
        chosen_policies(policies, ["d"], "s.toml")


def test_the_example_is_a_scenario() -> None:
    labels = [p.label for p in read_scenario(EXAMPLE.read_text("utf-8"), "example")]
    assert labels[:3] == ["as it was", "other quotas", "kip13"]
