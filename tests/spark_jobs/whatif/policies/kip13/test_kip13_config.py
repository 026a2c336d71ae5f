from __future__ import annotations

import pytest

from spark_jobs.whatif.policies.change import ConfigChanged
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import Kip13, Kip13Family
from spark_jobs.whatif.policies.kip13.kip13_config import ByteBounds
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13DelayThenError
from tests.spark_jobs.whatif.policies.kip13_requests import T, produce

PRINTED = {
    "quota.producer.default": "2M",
    "quota.consumer.default": "2M",
    "quota.producer.override": '"clientA:4M,clientB:10M"',
    "quota.consumer.override": "clientC:3M,clientD:5M",
}


def producer_bounds(**config: object) -> ByteBounds:
    keys = {f"quota.producer.{key}": value for key, value in config.items()}
    return Kip13.configured(keys).settings.bounds["PRODUCE"]


def test_the_configuration_that_the_page_prints_is_read() -> None:
    bounds = Kip13.configured(PRINTED).settings.bounds
    assert bounds["PRODUCE"].default == bounds["FETCH"].default == 2 * 1024**2
    assert bounds["PRODUCE"].overrides == {"clientA": 4 * 1024**2, "clientB": 10 * 1024**2}
    assert bounds["FETCH"].overrides == {"clientC": 3 * 1024**2, "clientD": 5 * 1024**2}
    assert bounds["PRODUCE"].of("clientA") == 4 * 1024**2
    assert bounds["PRODUCE"].of("clientC") == 2 * 1024**2


@pytest.mark.parametrize(
    ("size", "expected"),
    [("7", 7), ("2K", 2048), ("2M", 2 * 1024**2), ("1G", 1024**3), ("3k", 3072), (5, 5)],
)
def test_k_m_and_g_are_powers_of_1024(size: object, expected: int) -> None:
    assert producer_bounds(default=size).default == expected


def test_an_override_is_split_at_its_last_colon() -> None:
    assert producer_bounds(override="a:b:4K, c : 5 ").overrides == {"a:b": 4096, "c": 5}


@pytest.mark.parametrize("nothing", ["", "  ", '""'])
def test_there_may_be_no_overrides(nothing: str) -> None:
    assert producer_bounds(override=nothing).overrides == {}


def test_what_is_not_configured_is_as_printed_and_n_is_ten() -> None:
    settings = Kip13.configured({}).settings
    assert settings.bounds["PRODUCE"] == settings.bounds["FETCH"] == ByteBounds(2 * 1024**2, {})
    assert (settings.samples, settings.window_ms) == (10, 1_000)


def test_a_number_may_be_written_as_text_as_in_a_properties_file() -> None:
    config = {"quota.window.num": "5", "quota.window.size.seconds": " 2 "}
    settings = Kip13.configured(config).settings
    assert (settings.samples, settings.window_ms) == (5, 2_000)


@pytest.mark.parametrize(
    ("key", "found", "rule"),
    [
        ("quota.producer.override", "clientA", "an override without a value"),
        ("quota.producer.override", "clientA:", "an override without a value"),
        ("quota.producer.override", "clientA:4M,clientB", "an override without a value"),
        ("quota.producer.override", ":4M", "an override without a name"),
        ("quota.consumer.override", " : 4M", "an override without a name"),
        ("quota.consumer.override", "a:4M,b:5M,a:6M", "'a' is overridden twice"),
        ("quota.consumer.override", "a:4M,", "nothing between two ','"),
        ("quota.consumer.override", "a:4M,,b:5M", "nothing between two ','"),
        ("quota.consumer.override", "a:0", "must be above 0"),
        ("quota.consumer.override", "a:-4M", "must be above 0"),
        ("quota.consumer.override", "a:four", "a whole number of bytes per second"),
        ("quota.consumer.override", {"a": 4}, "must be text"),
        ("quota.producer.default", "0", "must be above 0"),
        ("quota.producer.default", 0, "must be above 0"),
        ("quota.producer.default", "-2M", "must be above 0"),
        ("quota.producer.default", "9999999999G", "at most 9223372036854775807"),
        ("quota.producer.default", "2.5M", "a whole number of bytes per second"),
        ("quota.producer.default", 2.5, "a whole number of bytes per second"),
        ("quota.producer.default", True, "a whole number of bytes per second"),
        ("quota.producer.default", "2T", "a whole number of bytes per second"),
        ("quota.producer.default", "2MB", "a whole number of bytes per second"),
        ("quota.producer.default", "", "a whole number of bytes per second"),
        ("quota.window.num", 0, "at least 1"),
        ("quota.window.num", "ten", "a whole number"),
        ("quota.window.size.seconds", 0.5, "a whole number"),
        ("quota.response.form", "error", "one of throttle_time_ms, flag"),
        ("inter.broker.principal", 5, "must be text"),
        ("quota.produce.default", "2M", "there is no such key; there are"),
    ],
)
def test_a_broken_rule_is_named_with_its_key_and_what_was_found(
    key: str, found: object, rule: str
) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        Kip13.configured({key: found})
    assert refused.value.key == key
    assert rule in refused.value.rule
    assert str(refused.value).startswith(f"kip13: {key} = ")


def test_a_refused_change_changes_nothing() -> None:
    policy = Kip13.configured({**PRINTED, "quota.window.num": 1})
    before = policy.settings
    with pytest.raises(PolicyConfigError, match="above 0"):
        policy.observe(
            ConfigChanged(T, {"quota.producer.default": "9M", "quota.consumer.default": "0"})
        )
    assert policy.settings == before


def test_a_change_holds_from_its_moment_on_for_what_was_counted_before_too() -> None:
    policy = Kip13.configured({"quota.producer.default": 5})
    assert policy.decide(produce(T, 60)).delay_ms == 2_000
    policy.observe(ConfigChanged(T, {"quota.producer.default": 6}))
    assert policy.decide(produce(T, 0)).delay_ms == 0
    policy.observe(ConfigChanged(T, {"quota.producer.override": "app:4"}))
    assert policy.decide(produce(T, 0)).delay_ms == 5_000
    policy.observe(ConfigChanged(T, {"quota.producer.override": None}))
    assert policy.decide(produce(T, 0)).bound == 6


def test_a_grid_of_another_shape_begins_empty() -> None:
    policy = Kip13.configured({"quota.producer.default": 5})
    policy.decide(produce(T, 60))
    policy.observe(ConfigChanged(T, {"quota.window.num": 5}))
    decision = policy.decide(produce(T, 30))
    assert (decision.measured, decision.delay_ms) == (6.0, 1_000)


@pytest.mark.parametrize("policy", [Kip13, Kip13DelayThenError])
def test_every_policy_says_its_own_name_where_it_refuses(policy: type[Kip13Family]) -> None:
    with pytest.raises(PolicyConfigError, match=rf"^{policy.name}: "):
        policy.configured({"quota.window.num": -1})
