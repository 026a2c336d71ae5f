"""The cost of alignment is measured on the requests of a log, none left out."""

from __future__ import annotations

from benchmarks.alignment_cost import in_stream, stream_rows
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from tests.builders.synthetic_broker import log_of

WINDOW = Window(samples=11, window_ms=1_000, keeps_overlapping=True)
# A kilobyte each 50 ms: a third more than the bound allows.
LOG = log_of(range(0, 20_000, 50), [1_000.0] * 400, 15_000.0, WINDOW)


def test_a_stream_has_every_request_of_the_log_with_its_connection() -> None:
    rows = stream_rows(LOG, SensorCodes(), is_throttled=True)
    assert len(rows) == 400
    assert rows.lines["connection"].to_pylist() == [
        str(each) for each in LOG.events.connection.tolist()
    ]
    assert (rows.logged_ms > 0).any()


def test_both_ways_are_measured_for_sensors_near_their_bound_and_far_from_it() -> None:
    found = in_stream(LOG)
    assert set(found) == {"throttled", "never near its bound"}
    assert all(of["estimated_us"] > 0 and of["aligned_us"] > 0 for of in found.values())
