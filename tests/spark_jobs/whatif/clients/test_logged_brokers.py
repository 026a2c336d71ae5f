from __future__ import annotations

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.whatif.clients.logged_changes import broker_config, config_of_all
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from tests.builders.tables_builder import row

OLD = row("brokers", broker_id=1, version="3.2.0", samples=5, window_ms=2_000)
NEW = row("brokers", broker_id=2, version="4.1.0", samples=5, window_ms=1_000)


def test_a_policy_of_brokers_has_their_settings_where_it_has_none_of_its_own() -> None:
    told = ScenarioPolicy("broker_bandwidth", "b").on_broker(broker_config(OLD)).begin()
    assert (told.profile, told.samples, told.window_ms) == (RateProfile.RATE_0_9, 5, 2_000)
    own = ScenarioPolicy("broker_bandwidth", "b", {"quota.window.num": 3})
    found = own.on_broker(broker_config(OLD)).begin()
    assert (found.profile, found.samples, found.window_ms) == (RateProfile.RATE_0_9, 3, 2_000)


def test_a_documents_policy_has_the_documents_settings() -> None:
    policy = ScenarioPolicy("kip13", "k", {"quota.producer.default": "1M"})
    assert policy.on_broker(broker_config(OLD)) == policy


def test_of_several_brokers_it_has_what_they_agree_on() -> None:
    found = config_of_all([OLD, NEW])
    assert found["quota.window.num"] == 5
    assert not {"broker.version", "quota.window.size.seconds"} & set(found)
    assert config_of_all([]) == {}


def test_a_version_that_is_not_known_is_not_said() -> None:
    assert "broker.version" not in broker_config(row("brokers", version=None))
