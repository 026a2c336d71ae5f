from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.publish.read_facts import gather
from spark_jobs.warehouse.read import count_rows
from tests.builders.day_builder import decision
from tests.builders.tables_builder import scope_in, write_day, write_rows


def test_verdicts_are_counted_and_no_quota_is_not_a_decision(tmp_path: Path) -> None:
    scope = write_day(scope_in(tmp_path))
    rows = [
        decision(0),
        decision(1, verdict="under_throttled"),
        decision(2, verdict="indeterminate", reason="sample_timing"),
        decision(3, verdict="indeterminate", reason="sample_timing"),
        decision(4, verdict="indeterminate", reason="state_unknown"),
        decision(5, verdict="no_quota", bound=None),
        decision(6, reason="likely_request_time"),
    ]
    write_rows(scope, "decisions", rows)
    verdicts = gather(scope).verdicts
    assert (verdicts.recorded, verdicts.decided, verdicts.no_quota) == (7, 6, 1)
    assert (verdicts.agree, verdicts.wrong, verdicts.indeterminate) == (2, 1, 3)
    assert (verdicts.judged, verdicts.likely) == (3, 1)
    assert list(verdicts.indeterminate_by_reason.items()) == [
        ("sample_timing", 2),
        ("state_unknown", 1),
    ]


def test_the_use_of_a_quota_is_taken_against_the_bound_of_the_moment(tmp_path: Path) -> None:
    scope = write_day(scope_in(tmp_path))
    at_the_low_bound = decision(0, bound=100.0, rate=90.0)
    at_the_high_bound = decision(1, bound=1000.0, rate=300.0)
    write_rows(scope, "decisions", [at_the_low_bound, at_the_high_bound])
    (use,) = gather(scope).uses.values()
    assert use.use_max == pytest.approx(0.9)
    assert (use.bound_min, use.bound_max, use.rate_max) == (100.0, 1000.0, 300.0)


@settings(max_examples=30)
@given(
    values=st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(-5, 5)), min_size=1, max_size=300
    ),
    size=st.integers(1, 7),
)
def test_counting_in_batches_is_counting_at_once(
    values: list[tuple[str | None, int]], size: int
) -> None:
    table = pa.table({"key": [k for k, _ in values], "value": [v for _, v in values]})
    measures = [("value", "min"), ("value", "max"), ("value", "sum")]
    counted = count_rows(iter(table.to_batches(max_chunksize=size)), ["key"], measures)
    assert counted is not None
    expected = {}
    for key in {k for k, _ in values}:
        own = [v for k, v in values if k == key]
        expected[key] = (len(own), min(own), max(own), sum(own))
    got = {row["key"]: tuple(row.values())[1:] for row in counted.to_pylist()}
    assert got == expected
