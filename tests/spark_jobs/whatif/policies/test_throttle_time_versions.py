"""The table of versions against the message definitions that the log is read with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.ingest import messages
from spark_jobs.whatif.policies.throttle_time_versions import (
    THROTTLE_TIME_SINCE,
    tells_throttle_time,
)

DEFINITIONS = sorted(Path(messages.__path__[0]).glob("kafka_messages/*/*Response.json"))
APIS = {
    "ProduceResponse": "PRODUCE",
    "FetchResponse": "FETCH",
    "ShareFetchResponse": "SHARE_FETCH",
    "CreateTopicsResponse": "CREATE_TOPICS",
    "DeleteTopicsResponse": "DELETE_TOPICS",
    "CreatePartitionsResponse": "CREATE_PARTITIONS",
    "AlterClientQuotasResponse": "ALTER_CLIENT_QUOTAS",
}


def first_version(path: Path) -> int:
    lines = [line for line in path.read_text().splitlines() if not line.strip().startswith("//")]
    fields = json.loads("\n".join(lines))["fields"]
    versions = next(f["versions"] for f in fields if f["name"] == "ThrottleTimeMs")
    return int(versions.removesuffix("+").partition("-")[0])


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_table_is_kafkas(path: Path) -> None:
    assert THROTTLE_TIME_SINCE[APIS[path.stem]] == first_version(path)


def test_there_are_definitions_to_compare_with() -> None:
    assert {path.stem for path in DEFINITIONS} == set(APIS)


def test_a_request_that_is_not_in_the_table_is_told_nothing() -> None:
    assert not tells_throttle_time("LEADER_AND_ISR", 7)
