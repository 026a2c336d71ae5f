"""What a broker's row groups tell before they are replayed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.replay.broker_stream import RowGroup, stops
from tests.spark_jobs.replay.sensors.request_rows import requests

T0 = 1_700_000_000_000
STOPPED = [(1_000, 1, "a"), (4_000, 1, "a"), (4_020, 1, "b"), (4_050, 1, "c"), (4_060, 1, "a")]
"""Lines (ms, broker, connection) around a stop of 3 s of broker 1."""
OTHERS = [(1_500, 2, "d"), (4_010, 2, "e"), (9_000, 2, "d")]


def groups(folder: Path, *parts: list[tuple[int, int, str]]) -> list[RowGroup]:
    """Return a row group of each part, each in a file of its own."""
    found = []
    for number, part in enumerate(parts):
        path = folder / f"{number}.parquet"
        lines = requests(
            *(
                {"broker_id": broker_id, "connection": connection, "log_time_ms": T0 + ms}
                for ms, broker_id, connection in part
            )
        )
        pq.write_table(pa.Table.from_batches([lines]), path)
        found.append(RowGroup(str(path), 0, len(part), 0, is_shared=True))
    return found


@pytest.mark.parametrize("cut", range(len(STOPPED) + 1))
def test_the_stops_of_a_broker_are_those_of_its_own_lines_in_all_files(
    tmp_path: Path, cut: int
) -> None:
    parts = [each for each in ([*STOPPED[:cut], *OTHERS], STOPPED[cut:]) if each]
    found = stops(groups(tmp_path, *parts), 1).silent_ms - T0
    assert found.tolist() == [[1_000, 4_000]]


def test_a_line_in_another_file_ends_a_silence(tmp_path: Path) -> None:
    # 350 ms and less are no stop.
    between = [(ms, 1, "x") for ms in range(1_300, 4_000, 300)]
    assert not len(stops(groups(tmp_path, STOPPED, between), 1).silent_ms)
