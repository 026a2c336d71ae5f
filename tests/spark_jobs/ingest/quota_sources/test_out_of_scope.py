"""Connection-rate and replication quotas are named as out of scope, and taken for no client's."""

from __future__ import annotations

import datetime as dt

import pytest

from spark_jobs.ingest.quota_sources.journal import read_journal
from spark_jobs.ingest.quota_sources.logged_alterations import logged_alterations
from spark_jobs.ingest.quota_sources.out_of_scope import (
    out_of_scope_alterations,
    out_of_scope_settings,
)
from spark_jobs.ingest.quota_sources.server_log import read_server_log
from spark_jobs.ingest.quota_sources.snapshot import read_snapshot
from spark_jobs.ingest.quota_sources.static_config import read_static_config

JOURNAL = [
    "1795229264942 --entity-type ips --entity-name 10.0.0.1 "
    "--add-config connection_creation_rate=10",
    "1795229264942 --alter --ip 10.0.0.1 --add-config connection_creation_rate=10",
    "1795229264942 --alter --ip-defaults --delete-config connection_creation_rate",
    "1795229264942 --entity-type brokers --entity-name 1 "
    "--add-config leader.replication.throttled.rate=1000,follower.replication.throttled.rate=1000",
    "1795229264942 --alter --broker 1 --add-config leader.replication.throttled.rate=1000",
    "1795229264942 --alter --broker-defaults --add-config max.connection.creation.rate=5",
    "1795229264942 --alter --topic t --add-config leader.replication.throttled.replicas=[0:1,1:2]",
]
SNAPSHOT = """\
Quota configs for ip '10.0.0.1' are connection_creation_rate=10.0
Quota configs for the default ip are connection_creation_rate=20.0
Configs for brokers '1' are leader.replication.throttled.rate=1000
Default configs for brokers in the cluster are:
  follower.replication.throttled.rate=1000 sensitive=false synonyms={}
Dynamic configs for broker 1 are:
  leader.replication.throttled.rate=900 sensitive=false synonyms={}
Quota configs for user-principal 'alice' are producer_byte_rate=1024.0
"""
PROPERTIES = """\
listener.name.clients.max.connection.creation.rate=50
# leader.replication.throttled.rate=9
follower.replication.throttled.rate=1000
replication.quota.window.num=5
quota.window.num=7
"""
SERVER_LOG = [
    "[2026-11-21 03:26:45,230] INFO Updating max connection rate override for /10.0.0.1 to 10 (k)",
    "[2026-11-21 03:26:45,231] INFO Removing max connection rate override for /10.0.0.1 (k)",
    "[2026-11-21 03:26:45,232] INFO Updated default max IP connection rate to 20 (k)",
    "[2026-11-21 03:26:45,233] INFO Updated broker-wide max connection creation rate to 50 (k)",
    # What every broker says of itself when it starts: no quota.
    "[2026-11-21 03:26:45,234] INFO Updated connection-accept-rate max connection creation rate "
    "to 2147483647 (k)",
    "[2026-11-21 03:26:45,235] TRACE LeaderReplication: Quota violated for sensor "
    "(LeaderReplication-byte-rate), metric: (x), metric-value: (1.0), bound: (1.0) (k)",
]  # fmt: skip


@pytest.mark.parametrize("line", JOURNAL)
def test_a_journal_may_set_them_and_no_client_quota_comes_of_it(line: str) -> None:
    assert read_journal(line, "journal") == []


def test_a_snapshot_may_show_them_between_client_quotas() -> None:
    (event,) = read_snapshot(SNAPSHOT, 1795229264942, "snapshot.txt")
    assert (event.quota_type, event.quota_user, event.bound) == (
        "producer_byte_rate",
        "alice",
        1024.0,
    )


def test_properties_may_hold_them_and_only_the_clients_window_counts() -> None:
    config = read_static_config(PROPERTIES, "server.properties", 1)
    assert (config.samples, config.quota_events, config.ignored) == (7, (), ())


def test_a_server_log_tells_of_connection_rates_and_not_of_the_unlimited_one() -> None:
    log = read_server_log(SERVER_LOG, 1, "server.log", dt.UTC)
    assert log.out_of_scope_lines == (1, 2, 3, 4)
    assert (log.quota_events, log.throttles, log.unread_lines) == ((), (), ())


def test_a_logged_alteration_of_an_address_is_named_and_changes_no_client_quota() -> None:
    alteration = {
        "quota_type": "connection_creation_rate",
        "quota_user": None,
        "quota_client_id": None,
        "bound": 10.0,
    }
    row = {
        "quota_alterations": [alteration], "client_id": "a", "correlation_id": 1,
        "is_forwarded": False, "log_time_ms": 5, "remote_time_us": 0,
        "response_queue_time_us": 0, "send_time_us": 0, "source_file": "f.log", "source_line": 1,
    }  # fmt: skip
    assert logged_alterations([row]) == []
    (warning,) = out_of_scope_alterations([row, row])
    assert warning.startswith("f.log: connection_creation_rate appears 2 time(s)")
    assert "out of scope" in warning


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\n".join(JOURNAL), {"connection_creation_rate": 3, "leader.replication.throttled.rate": 2,
                              "follower.replication.throttled.rate": 1,
                              "max.connection.creation.rate": 1}),
        (SNAPSHOT, {"connection_creation_rate": 2, "leader.replication.throttled.rate": 2,
                    "follower.replication.throttled.rate": 1}),
        (PROPERTIES, {"max.connection.creation.rate": 1,
                      "follower.replication.throttled.rate": 1}),
        ('{"entity": {"ip": null}, "values": {"connection_creation_rate": 5}}',
         {"connection_creation_rate": 1}),
        ("producer_byte_rate=5\nmy_connection_creation_rate=5\nquota.window.num=3", {}),
    ],
    ids=["journal", "snapshot", "properties", "json", "clients"],
)  # fmt: skip
def test_each_is_named_once_with_how_often_it_is_set(text: str, names: dict[str, int]) -> None:
    warnings = out_of_scope_settings(text, "file")
    assert [w.partition(" time(s)")[0] for w in warnings] == [
        f"file: {name} appears {count}" for name, count in sorted(names.items())
    ]
    assert all("out of scope" in warning for warning in warnings)
