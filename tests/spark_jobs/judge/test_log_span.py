from __future__ import annotations

from pathlib import Path

from spark_jobs.judge.log_span import brokers_of, span_of
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_rows


def test_the_span_reaches_from_the_first_request_of_any_broker_to_the_last(
    tmp_path: Path,
) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "brokers", [row("brokers", broker_id=b) for b in (3, 1, 2)])
    times = [(1, NOON_MS + 5), (2, NOON_MS), (2, NOON_MS + 9)]
    requests = [row("requests", broker_id=b, log_time_ms=t) for b, t in times]
    write_rows(scope, "requests", requests)
    brokers = brokers_of(scope)
    assert [(b.broker_id, b.requests) for b in brokers] == [(1, 1), (2, 2), (3, 0)]
    assert span_of(brokers) == (NOON_MS, NOON_MS + 9)


def test_a_full_bucket_remembers_the_controllers_window(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    windows = {"samples": 11, "window_ms": 1000, "controller_samples": 3}
    write_rows(scope, "brokers", [row("brokers", **windows, controller_window_ms=2000)])
    (broker,) = brokers_of(scope)
    assert broker.remembers_ms("producer_byte_rate") == 11_000
    assert broker.remembers_ms("controller_mutation_rate") == 6000


def test_no_request_is_no_span(tmp_path: Path) -> None:
    assert span_of(brokers_of(scope_in(tmp_path))) is None
