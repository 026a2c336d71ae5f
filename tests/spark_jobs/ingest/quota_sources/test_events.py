from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.warehouse.tables import QUOTA_EVENTS
from tests.spark_jobs.ingest.quota_sources.quota_events import event


def test_an_event_survives_the_table() -> None:
    before = event("log", 1_000)
    (row,) = pa.Table.from_pylist([before.row()], QUOTA_EVENTS).to_pylist()
    assert QuotaEvent.of_row({**row, "date": "2026-11-21"}) == before


@pytest.mark.parametrize(
    ("source", "likely_ms"), [("log", 1_005), ("server_log", 1_050), ("snapshot", 1_050)]
)
def test_the_likely_moment_depends_on_the_source(source: str, likely_ms: int) -> None:
    assert event(source, earliest_ms=900, latest_ms=1_050).likely_ms == likely_ms


def test_the_likely_moment_lies_in_the_interval() -> None:
    assert event("log", earliest_ms=1_040, latest_ms=1_050).likely_ms == 1_040


@pytest.mark.parametrize(
    "fields",
    [
        {"quota_type": "bytes"},
        {"source": "rumour"},
        {"earliest_ms": 2, "latest_ms": 1},
        {"quota_user": None, "quota_client_id": None},
    ],
)
def test_an_impossible_event_is_a_bug(fields: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        event(**fields)  # type: ignore[arg-type]
