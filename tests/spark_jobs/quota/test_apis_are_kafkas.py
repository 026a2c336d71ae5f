"""The table of requests is what Kafka's own jars say: nothing in it is kept by hand."""

from __future__ import annotations

import pytest

from spark_jobs.quota.apis import API_KEYS, APIS, NEWEST_RELEASE, Api, counted_by
from spark_jobs.quota.partition_inventory import MUTATION_APIS, STRICT_SINCE
from tests.oracle.api_table import BROKERS, CLIENTS, api_rows, together
from tests.oracle.cluster_plan import parse_version


@pytest.mark.jvm
@pytest.mark.parametrize("version", [CLIENTS[-1], "3.9.1", BROKERS[-1]])
def test_a_jar_knows_nothing_that_the_table_lacks(version: str) -> None:
    rows = api_rows(version)
    assert len(rows) > 50
    for row in rows:
        held = as_row(APIS[row["key"]])
        assert together(row, held) == held, "run `python -m tests.oracle.api_table`"


@pytest.mark.jvm
def test_the_newest_jar_knows_all_that_the_table_has() -> None:
    assert {row["key"] for row in api_rows(BROKERS[-1])} == APIS.keys()
    assert parse_version(BROKERS[-1])[:2] == NEWEST_RELEASE


def test_the_quotas_on_bytes_count_produces_fetches_and_share_fetches() -> None:
    assert [APIS[key].name for key in counted_by("produce")] == ["PRODUCE"]
    assert [APIS[key].name for key in counted_by("fetch")] == ["FETCH", "SHARE_FETCH"]


def test_mutations_are_what_the_controller_counts() -> None:
    counted = {api.name for api in APIS.values() if "controllerMutation" in api.controller}
    assert counted == set(MUTATION_APIS) == set(STRICT_SINCE)


def test_a_request_has_a_key_by_each_of_its_names() -> None:
    assert API_KEYS["ELECT_PREFERRED_LEADERS"] == API_KEYS["ELECT_LEADERS"] == 43
    assert API_KEYS["ALTER_ISR"] == API_KEYS["ALTER_PARTITION"] == 56
    assert APIS[56].name == "ALTER_PARTITION"


@pytest.mark.parametrize(
    ("name", "is_exempt", "is_between_brokers"),
    [
        ("FETCH", False, False),
        ("UNREGISTER_BROKER", False, False),
        ("DESCRIBE_QUORUM", False, False),
        ("UNREGISTER_CONTROLLER", False, False),
        ("STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE", False, False),
        ("SHARE_ACKNOWLEDGE", False, False),
        ("WRITE_SHARE_GROUP_STATE", False, True),
        ("ALLOCATE_PRODUCER_IDS", False, True),
        ("BROKER_HEARTBEAT", False, True),
        ("UPDATE_METADATA", True, True),
        ("WRITE_TXN_MARKERS", True, True),
        ("FETCH_SNAPSHOT", True, True),
    ],
)
def test_who_sends_a_request_and_whether_the_request_quota_counts_it(
    name: str, is_exempt: bool, is_between_brokers: bool
) -> None:
    api = APIS[API_KEYS[name]]
    assert (api.is_exempt, api.is_between_brokers) == (is_exempt, is_between_brokers)


def as_row(api: Api) -> dict[str, object]:
    return {
        "key": api.key,
        "names": list(api.names),
        "newest_version": api.newest_version,
        "is_cluster_action": api.is_cluster_action,
        "broker": sorted(api.broker),
        "controller": sorted(api.controller),
        "strict_since": api.strict_since,
        "throttle_time_since": api.throttle_time_since,
    }
