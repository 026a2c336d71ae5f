from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota_pages.history import Wanted, sample_starts, sample_starts_of
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_rows

TIMES = st.lists(st.integers(0, 20_000), min_size=1, max_size=60).map(sorted)


def of_broker(times: list[int], window_ms: int) -> list[int]:
    """Return the sample begins as ``SampledStat.record`` makes them, one record after another."""
    begun: list[int] = []
    for at_ms in times:
        if not begun or at_ms - begun[-1] >= window_ms:
            begun.append(at_ms)
    return begun


@given(TIMES, st.sampled_from([1, 500, 1000, 3000]))
def test_from_a_life_s_first_record_on_they_are_the_broker_s(
    times: list[int], window_ms: int
) -> None:
    found = sample_starts(np.array(times), window_ms, is_epoch_begin=True)
    assert found is not None
    assert found.tolist() == of_broker(times, window_ms)


@given(TIMES, TIMES)
def test_after_a_pause_they_are_known_whatever_came_before(
    before: list[int], times: list[int]
) -> None:
    log = [*before, *(before[-1] + 1000 + t for t in times)]
    found = sample_starts(np.array(log), 1000, is_epoch_begin=False)
    assert found is not None
    whole = of_broker(log, 1000)
    assert found.tolist() == whole[len(whole) - len(found) :]


def test_without_begin_and_pause_they_are_not_known() -> None:
    assert sample_starts(np.arange(0, 5000, 100), 1000, is_epoch_begin=False) is None
    assert sample_starts(np.array([], np.int64), 1000, is_epoch_begin=True) is None


@pytest.mark.parametrize(("first_seq", "known"), [(0, True), (7, False)])
def test_they_are_read_from_the_decisions_of_the_sensor(
    tmp_path: Path, first_seq: int, known: bool
) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "decisions", [
        row("decisions", recorded_at_ms=NOON_MS + 300 * i, sensor_seq=first_seq + i,
            source_line=i + 1)
        for i in range(10)
    ] + [row("decisions", quota_user="bob", recorded_at_ms=NOON_MS + 1)])  # fmt: skip
    wanted = Wanted("producer_byte_rate", "alice", "", NOON_MS + 1000, NOON_MS + 60_000)
    found = sample_starts_of(scope, wanted, {1: 1000, 2: 1000})
    assert found == {1: [NOON_MS + 1200, NOON_MS + 2400] if known else [], 2: []}
