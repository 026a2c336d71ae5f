from __future__ import annotations

from typing import Any

from spark_jobs.whatif.clients.logged_changes import (
    broker_starts,
    changes_until,
    failovers,
    quota_changes,
)
from spark_jobs.whatif.policies.change import (
    BrokerStarted,
    ControllerFailedOver,
    QuotaChanged,
    TopicAdded,
)
from tests.builders.tables_builder import row


def interval(from_ms: int, until_ms: int | None, bound: float, **others: Any) -> dict[str, Any]:
    times = {"valid_from_ms": from_ms, "valid_until_ms": until_ms}
    return row("quota_changes", bound=bound, **times, **others)


def changed(at_ms: int, bound: float | None, broker_id: int | None = None) -> QuotaChanged:
    return QuotaChanged(at_ms, "producer_byte_rate", "alice", None, bound, broker_id)


def test_a_value_that_the_next_one_replaces_is_not_removed() -> None:
    rows = [interval(20, None, 2.0), interval(10, 20, 1.0)]
    assert quota_changes(rows) == [changed(10, 1.0), changed(20, 2.0)]


def test_a_value_that_ends_is_removed() -> None:
    rows = [interval(10, 20, 1.0), interval(20, None, 5.0, broker_id=2)]
    assert quota_changes(rows) == [changed(10, 1.0), changed(20, None), changed(20, 5.0, 2)]


def test_starts_are_told_in_time_order() -> None:
    rows = [row("broker_starts", started_ms=ms, broker_id=ms) for ms in (3, 1)]
    assert broker_starts(rows) == [BrokerStarted(1, 1), BrokerStarted(3, 3)]


def test_another_deciding_broker_is_a_failover() -> None:
    rows = [
        row("requests", broker_id=broker_id, recorded_estimate_us=ms * 1000)
        for ms, broker_id in ((1, 1), (2, 1), (3, 2), (4, 1))
    ]
    assert failovers(rows) == [ControllerFailedOver(3), ControllerFailedOver(4)]


def test_a_broker_hears_of_itself_and_of_what_holds_everywhere_until_the_end() -> None:
    changes = [TopicAdded(5, 1, "a"), changed(3, 1.0), BrokerStarted(4, 2), changed(9, 2.0, 1)]
    assert changes_until(changes, 9, broker_id=1) == [changed(3, 1.0), TopicAdded(5, 1, "a")]
    assert changes_until(changes, broker_id=2) == [changed(3, 1.0), BrokerStarted(4, 2)]
    assert len(changes_until(changes)) == 4
