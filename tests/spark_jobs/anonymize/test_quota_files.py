from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.anonymize.quota_files import (
    written_journal,
    written_properties,
    written_snapshot,
    written_version,
)
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.journal import read_journal
from spark_jobs.ingest.quota_sources.out_of_scope import out_of_scope_settings
from spark_jobs.ingest.quota_sources.snapshot import read_snapshot
from spark_jobs.ingest.quota_sources.static_config import read_static_config

NAMES = Pseudonyms(b"the key of the tests, 32 bytes..")


def renamed(events: Iterable[QuotaEvent]) -> list[QuotaEvent]:
    return [
        replace(
            event,
            quota_user=event.quota_user and NAMES.name(event.quota_user, Kind.TOPIC),
            quota_client_id=event.quota_client_id and NAMES.name(event.quota_client_id, Kind.TOPIC),
        )
        for event in events
    ]


SNAPSHOTS = {
    "brokers": (
        "Quota configs for user-principal 'alice', client-id 'svc' are "
        "producer_byte_rate=1024.0, consumer_byte_rate=1.5E7\n\n"
        "Quota configs for the default user-principal are request_percentage=0.5\n"
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192\n"
        "Quota configs for ip '10.0.0.7' are connection_creation_rate=5.0\n"
    ),
    "zookeeper": "Configs for user-principal 'al'ice', default client-id are "
    "producer_byte_rate=1024\n",
    "json": json.dumps(
        {
            "entries": [
                {
                    "entity": [{"entityType": "user", "entityName": "alice"}],
                    "values": [{"key": "producer_byte_rate", "value": 1024}],
                },
                {
                    "entity": {"user": None, "client-id": "svc"},
                    "values": {"request_percentage": 1},
                },
                {"entity": {"ip": "10.0.0.7"}, "values": {"connection_creation_rate": 5}},
            ]
        }
    ),
}


@pytest.mark.parametrize("form", SNAPSHOTS)
def test_a_copied_snapshot_shows_the_same_quotas(form: str) -> None:
    text = SNAPSHOTS[form]
    copy = written_snapshot(text, "f", NAMES)
    assert read_snapshot(copy, 7, "f") == renamed(read_snapshot(text, 7, "f"))
    assert out_of_scope_settings(copy, "f") == out_of_scope_settings(text, "f")
    for word in ("alice", "al'ice", "svc", "10.0.0.7", "SCRAM"):
        assert word not in copy


def test_a_snapshot_that_does_not_read_is_refused_as_an_audit_does() -> None:
    with pytest.raises(BadInputError, match="line 1"):
        written_snapshot("Quota configs for nobody\n", "f", NAMES)


JOURNAL = """# set by secret
1795229264942 --entity-type users --entity-name alice --add-config producer_byte_rate=400000
1795229264943 --zookeeper secret:2181 --entity-type users --entity-default --entity-type clients \
--entity-name 'my svc' --delete-config consumer_byte_rate --add-config request_percentage=5

1795229264944 --entity-type ips --entity-name 10.0.0.7 --add-config connection_creation_rate=5
1795229264945 --entity-type topics --entity-name secret --add-config retention.ms=5
"""


def test_a_copied_journal_has_the_same_changes_on_the_same_lines() -> None:
    copy = written_journal(JOURNAL, "f", NAMES)
    assert read_journal(copy, "f") == renamed(read_journal(JOURNAL, "f"))
    assert len(read_journal(copy, "f")) == 3
    assert out_of_scope_settings(copy, "f") == out_of_scope_settings(JOURNAL, "f")
    for word in ("alice", "svc", "secret", "10.0.0.7", "retention"):
        assert word not in copy


@given(st.text("ab-'\" \\$é日", min_size=1, max_size=8))
@example("--")
def test_a_journals_names_may_hold_what_a_shell_reads(name: str) -> None:
    quoted = "'" + name.replace("'", "'\\''") + "'"
    text = f"1795229264942 --entity-type users --entity-name={quoted} --add-config " + (
        "producer_byte_rate=4\n"
    )
    copy = written_journal(text, "f", NAMES)
    assert read_journal(copy, "f") == renamed(read_journal(text, "f"))


PROPERTIES = """# secret
broker.id=1
process.roles=broker,controller
listeners=SECRET://host-7:9092
ssl.keystore.password=secret
quota.window.num = 5
quota.window.size.seconds=2
quota.producer.default=4M
quota.consumer.default=9223372036854775807
quota.producer.override=client A:4194304, clientB=5K
max.connection.creation.rate=7
listener.name.secret.max.connection.creation.rate=7
"""


def test_copied_properties_say_the_same_of_quotas_and_nothing_else() -> None:
    copy = written_properties(PROPERTIES, "f", NAMES)
    original = read_static_config(PROPERTIES, "f", 1)
    expected = replace(original, quota_events=tuple(renamed(original.quota_events)))
    assert read_static_config(copy, "f", 1) == expected
    assert len(original.quota_events) == 3
    assert out_of_scope_settings(copy, "f") == out_of_scope_settings(PROPERTIES, "f")
    for word in ("secret", "SECRET", "host-7", "client A", "clientB", "listeners"):
        assert word not in copy


def test_a_broker_with_a_plugin_stays_one_without_its_name() -> None:
    text = "client.quota.callback.class=com.secret.Callback\nzookeeper.connect=secret:2181\n"
    copy = written_properties(text, "f", NAMES)
    config = read_static_config(copy, "f", 1)
    assert config.callback_class is not None
    assert config.uses_zookeeper
    assert "secret" not in copy


@pytest.mark.parametrize(
    ("text", "written"),
    [("4.1.0\n", "4.1.0\n"), ("3.7.2-secret-4", "3.7.2\n"), ("secret", "unknown\n")],
)
def test_a_version_is_its_numbers(text: str, written: str) -> None:
    assert written_version(text) == written
