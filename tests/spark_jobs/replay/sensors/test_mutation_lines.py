"""The controller's line decides; a broker's twin stands in where that line is missing."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.replay.sensors.mutation_lines import TWIN_APART_MAX_MS, decided_lines
from tests.builders.tables_builder import NOON_MS

NOT_CONTROLLER = 41


def line(at_ms: int = 0, *, forwarded: bool = False, error: int = 0, **own: Any) -> dict[str, Any]:
    at_ms += NOON_MS
    return {
        "api_name": "CREATE_TOPICS",
        "user": "carol",
        "client_id": "admin",
        "correlation_id": 7,
        "is_forwarded": forwarded,
        "listener": "CONTROLLER" if forwarded else "PLAINTEXT",
        "recorded_estimate_us": at_ms * 1000,
        "recorded_earliest_ms": at_ms - 1,
        "recorded_latest_ms": at_ms + 40,
        "mutations": [{"topic": "a", "partitions": 3, "error_code": error}],
    } | own


def split(*rows: dict[str, Any], zookeeper: bool = False) -> tuple[list[Any], list[Any]]:
    return decided_lines(rows, frozenset({"CONTROLLER"}), uses_zookeeper=zookeeper)


def test_a_twin_goes_with_the_controllers_line() -> None:
    controllers, twin = line(5, forwarded=True), line()
    assert split(twin, controllers) == ([controllers], [])


def test_what_a_broker_creates_on_its_own_is_decided_on_the_controllers_listener() -> None:
    own = line(listener="CONTROLLER", user="ANONYMOUS", client_id="2")
    assert split(own) == ([own], [])


@pytest.mark.parametrize(
    "other",
    [
        {"user": "dave"},
        {"client_id": "other"},
        {"correlation_id": 8},
        {"api_name": "DELETE_TOPICS"},
        {"mutations": [{"topic": "b", "partitions": 3, "error_code": 0}]},
    ],
)
def test_a_line_of_another_mutation_is_no_original(other: dict[str, Any]) -> None:
    controllers, twin = line(5, forwarded=True, **other), line()
    assert split(twin, controllers) == ([controllers], [twin])


def test_what_timed_out_with_zookeeper_was_carried_out() -> None:
    """Its leaders were not known in time; a KRaft controller gives up before it carries it out."""
    timed_out, refused = line(error=7), line(9, error=89)
    assert split(timed_out, refused, zookeeper=True) == ([line(error=0), refused], [])
    assert split(line(9, forwarded=True, error=7)) == ([line(9, forwarded=True, error=7)], [])


def test_one_line_of_the_controller_is_the_original_of_one_twin() -> None:
    first, again = line(), line(20)
    assert split(first, again, line(5, forwarded=True))[1] == [again]


@pytest.mark.parametrize(("beyond_ms", "is_original"), [(0, True), (1, False)])
def test_clocks_may_be_half_a_minute_apart(beyond_ms: int, is_original: bool) -> None:
    twin = line()
    for at_ms in (40 + TWIN_APART_MAX_MS + beyond_ms, -1 - TWIN_APART_MAX_MS - beyond_ms):
        assert (split(twin, line(at_ms, forwarded=True))[1] == []) == is_original


def test_a_controller_that_was_none_any_more_decided_nothing() -> None:
    twin = line()
    assert split(twin, line(1, forwarded=True, error=NOT_CONTROLLER))[1] == [twin]


def test_a_twin_that_no_quota_was_asked_for_tells_nothing() -> None:
    assert split(line(error=36)) == ([], [])


def test_with_zookeeper_every_broker_decides_what_reaches_it() -> None:
    assert split(line(), zookeeper=True) == ([line()], [])
