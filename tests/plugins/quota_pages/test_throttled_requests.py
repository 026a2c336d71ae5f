from __future__ import annotations

from pathlib import Path
from typing import Any

from quota_pages.entity_page import REQUESTS_MAX, throttled_requests
from quota_pages.history import Wanted
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_rows

MUTATION = {"quota_type": "controller_mutation_rate", "api_name": "CREATE_TOPICS"}


def found(folder: Path, *decisions: dict[str, Any], quota_type: str = "producer_byte_rate") -> list:
    scope = scope_in(folder)
    write_rows(scope, "decisions", [row("decisions", **decision) for decision in decisions])
    wanted = Wanted(quota_type, "alice", "", NOON_MS, NOON_MS + 60_000)
    return throttled_requests(scope, wanted, (1, 2))


def held(line: int, **columns: Any) -> dict[str, Any]:
    times = {"recorded_at_ms": NOON_MS + line, "logged_throttle_time_ms": 50}
    return times | {"source_line": line} | columns


def test_what_was_held_back_is_listed_in_order_of_time(tmp_path: Path) -> None:
    requests = found(
        tmp_path,
        held(7),
        held(3, logged_throttle_time_ms=0),
        held(5, broker_id=2),
        held(6, broker_id=3),
        held(8, quota_user="bob"),
        held(9, recorded_at_ms=NOON_MS + 60_000),
    )
    assert [request["line"] for request in requests] == [
        "broker=1/kafka-request.log:5", "broker=1/kafka-request.log:7",
    ]  # fmt: skip


def test_the_topics_of_a_mutation_are_one_request_with_the_worst_verdict(tmp_path: Path) -> None:
    topic = {"logged_throttle_time_ms": 777} | MUTATION
    requests = found(
        tmp_path,
        held(1, replayed_throttle_time_ms=0, **topic),
        held(1, replayed_throttle_time_ms=822, logged_admitted=False, **topic),
        held(1, replayed_throttle_time_ms=None, verdict="wrongly_admitted", **topic),
        quota_type="controller_mutation_rate",
    )
    (one,) = requests
    assert not one["logged_admitted"]
    assert (one["logged_throttle_time_ms"], one["replayed_throttle_time_ms"]) == (777, 822)
    assert one["verdict"] == "wrongly_admitted"


def test_of_many_only_as_many_are_read_as_are_shown(tmp_path: Path) -> None:
    assert len(found(tmp_path, *(held(line) for line in range(1, 60)))) == REQUESTS_MAX
