from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.static_config import StaticConfig, read_static_config
from spark_jobs.quota.codes import DEFAULT

KIP_13 = """\
broker.id=1
quota.producer.default=2097152
quota.consumer.default=1000
quota.producer.override="clientA:4M;clientB:10485760"
quota.consumer.bytes.per.second.overrides=c1=5,c2=6
"""


def read(text: str, version: str | None = None) -> StaticConfig:
    return read_static_config(text, "server.properties", 7, at_ms=1_000, version=version)


def test_what_is_not_set_has_kafkas_defaults() -> None:
    assert read("node.id=1") == StaticConfig()
    assert (StaticConfig().samples, StaticConfig().window_size_ms) == (11, 1000)


def test_samples_and_windows_are_read() -> None:
    config = read(
        "quota.window.num=5\nquota.window.size.seconds = 2\n"
        "controller.quota.window.num=21\ncontroller.quota.window.size.seconds=3\n"
    )
    assert (config.samples, config.window_size_ms) == (5, 2_000)
    assert (config.controller_samples, config.controller_window_size_ms) == (21, 3_000)


def test_a_callback_of_its_own_is_reported() -> None:
    assert read("client.quota.callback.class=org.acme.Quotas ").callback_class == "org.acme.Quotas"
    assert read("client.quota.callback.class=").callback_class is None


@pytest.mark.parametrize(
    ("text", "uses_zookeeper"),
    [
        ("zookeeper.connect=zk:2181", True),
        ("process.roles=broker", False),
        ("zookeeper.connect=zk:2181\nprocess.roles=controller", False),
        ("listeners=PLAINTEXT://:9092", None),
    ],
)
def test_the_metadata_a_broker_reads_is_known(text: str, uses_zookeeper: bool | None) -> None:
    assert read(text).uses_zookeeper is uses_zookeeper


def test_static_quotas_belong_to_one_broker_and_its_client_ids() -> None:
    events = read(KIP_13).quota_events
    assert {(e.quota_type, e.quota_client_id, e.bound, e.source_line) for e in events} == {
        ("producer_byte_rate", DEFAULT, 2_097_152.0, 2),
        ("consumer_byte_rate", DEFAULT, 1_000.0, 3),
        ("producer_byte_rate", "clientA", 4_194_304.0, 4),
        ("producer_byte_rate", "clientB", 10_485_760.0, 4),
        ("consumer_byte_rate", "c1", 5.0, 5),
        ("consumer_byte_rate", "c2", 6.0, 5),
    }
    assert {(e.quota_user, e.broker_id, e.earliest_ms, e.source) for e in events} == {
        (None, 7, 1_000, "static")
    }


@pytest.mark.parametrize(
    ("version", "events", "ignored"), [("2.8.1", 2, 2), ("3.0.0", 0, 4), ("4.1.0", 0, 4)]
)
def test_a_release_ignores_static_quotas_it_does_not_know(
    version: str, events: int, ignored: int
) -> None:
    config = read(KIP_13, version)
    assert (len(config.quota_events), len(config.ignored)) == (events, ignored)


def test_kafkas_own_default_of_a_static_quota_is_none() -> None:
    assert read(f"quota.producer.default={2**63 - 1}").quota_events == ()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("quota.window.num=eleven", "quota.window.num='eleven'"),
        ("quota.window.num=0", "quota.window.num='0'"),
        ("controller.quota.window.size.seconds=1.5", "'1.5'"),
        ("quota.producer.default=fast", "'fast'"),
        ("quota.producer.default=0", "'0'"),
        ("quota.consumer.override=clientA", "'clientA' in quota.consumer.override"),
        ("quota.consumer.override=clientA:x", "'x'"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(line: str, found: str) -> None:
    with pytest.raises(BadInputError, match=r"server\.properties, line 2: found") as raised:
        read("# quotas\n" + line)
    assert found in str(raised.value)
    assert "expected" in str(raised.value)
