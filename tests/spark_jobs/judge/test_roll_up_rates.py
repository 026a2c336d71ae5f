from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_jobs.judge import judge_decisions as module
from spark_jobs.judge.judge_decisions import roll_up_rates
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS
from tests.builders.tables_builder import DAY, NOON_MS, row, write_rows

MINUTE_MS, HOUR_MS, DAY_MS = ROLLUP_SPANS_MS


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    return RunScope(tmp_path, "east", DAY)


def rolled_up(scope: RunScope, span_ms: int, **of: object) -> list[dict]:
    rows = read_table(scope, "rate_rollups").to_pylist()
    return [r for r in rows if r["span_ms"] == span_ms and of.items() <= r.items()]


def second(after_s: int, **columns: object) -> dict:
    return row("rates", second_ms=NOON_MS + after_s * 1000, **columns)


def throttled(after_s: int, line: int, **columns: object) -> dict:
    at_ms = NOON_MS + after_s * 1000
    return row(
        "decisions", recorded_at_ms=at_ms, log_time_ms=at_ms + 5, source_line=line, **columns
    )


def test_a_minute_has_the_sum_of_amounts_the_highest_rate_and_the_lowest_tokens(
    scope: RunScope,
) -> None:
    write_rows(scope, "rates", [
        second(0, amount=10.0, rate=5.0, tokens=3.0, bound=7.0),
        second(59, amount=20.0, rate=9.0, tokens=-2.0, bound=8.0),
        second(60, amount=40.0, rate=1.0, tokens=None, bound=None),
    ])  # fmt: skip
    assert roll_up_rates(scope) == 4
    first, next_one = rolled_up(scope, MINUTE_MS)
    assert (first["seconds"], first["amount"], first["rate"], first["tokens"]) == (2, 30.0, 9.0, -2)
    assert (first["bound_min"], first["bound_max"]) == (7.0, 8.0)
    assert (next_one["seconds"], next_one["tokens"], next_one["bound_max"]) == (1, None, None)
    (hour,) = rolled_up(scope, HOUR_MS)
    (day,) = rolled_up(scope, DAY_MS)
    for whole in (hour, day):
        assert (whole["seconds"], whole["amount"], whole["rate"]) == (3, 70.0, 9.0)
    assert day["from_ms"] == dt.datetime(2026, 11, 10, tzinfo=dt.UTC).timestamp() * 1000


def test_a_throttled_request_counts_for_the_sensor_that_throttled_it_only(scope: RunScope) -> None:
    write_rows(scope, "rates", [second(0), second(0, quota_type="request_percentage")])
    of_request = {"quota_type": "request_percentage", "replayed_throttle_time_ms": 20}
    write_rows(scope, "decisions", [
        throttled(0, 1, logged_throttle_time_ms=90, replayed_throttle_time_ms=90),
        throttled(0, 1, logged_throttle_time_ms=90, **of_request),
        throttled(1, 2, logged_throttle_time_ms=7, replayed_throttle_time_ms=7),
    ])  # fmt: skip
    roll_up_rates(scope)
    for span_ms in ROLLUP_SPANS_MS:
        (produced,) = rolled_up(scope, span_ms, quota_type="producer_byte_rate")
        (requested,) = rolled_up(scope, span_ms, quota_type="request_percentage")
        assert (produced["throttled_requests"], produced["throttle_time_ms"]) == (2, 97)
        assert (requested["throttled_requests"], requested["throttle_time_ms"]) == (0, 0)


def test_a_file_has_one_span_in_order_of_sensor_and_time(scope: RunScope, monkeypatch) -> None:
    monkeypatch.setattr(module, "ROWS_IN_GROUP", 16)
    write_rows(scope, "rates", [
        second(60 * minute, quota_user=user, broker_id=broker_id)
        for minute in range(5) for user in ("zoe", "alice") for broker_id in (2, 1)
    ])  # fmt: skip
    roll_up_rates(scope)
    order = ("quota_type", "quota_user", "quota_client_id", "broker_id", "from_ms")
    files = sorted(scope.partition_dir("rate_rollups").glob("*.parquet"))
    assert len(files) == len(ROLLUP_SPANS_MS)
    for file, span_ms, groups in zip(files, ROLLUP_SPANS_MS, (2, 4, 4), strict=True):
        rows = pq.read_table(file)
        assert set(rows["span_ms"].to_pylist()) == {span_ms}
        assert rows.sort_by([(name, "ascending") for name in order]).equals(rows)
        assert pq.ParquetFile(file).metadata.num_row_groups == groups


def test_a_day_without_rates_has_no_rows(scope: RunScope) -> None:
    assert roll_up_rates(scope) == 0
    assert read_table(scope, "rate_rollups").num_rows == 0


def test_nothing_is_lost_from_a_span_to_the_next(scope: RunScope) -> None:
    write_rows(scope, "rates", [second(37 * i, amount=float(i)) for i in range(300)])
    roll_up_rates(scope)
    rows = read_table(scope, "rate_rollups")
    for name, whole in (("amount", sum(range(300))), ("seconds", 300)):
        for span_ms in ROLLUP_SPANS_MS:
            of_span = rows.filter(pc.equal(rows["span_ms"], span_ms))
            assert pc.sum(of_span[name]).as_py() == whole


def test_the_sums_do_not_tell_in_which_order_seconds_came(scope: RunScope) -> None:
    amounts = [0.1, 0.7, 1e6 + 0.3, 0.2, 3.3]
    assert sum(amounts) != sum(reversed(amounts))
    found = set()
    for order in (amounts, amounts[::-1], sorted(amounts)):
        write_rows(scope, "rates", [second(n, amount=a) for n, a in enumerate(order)])
        roll_up_rates(scope)
        spans = (MINUTE_MS, HOUR_MS, DAY_MS)
        found |= {row["amount"] for span_ms in spans for row in rolled_up(scope, span_ms)}
    assert [*found] == [pytest.approx(1_000_004.6, rel=1e-15)]
