"""How late a line may be: its connection says so, and the silence of the whole log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.replay.sensors.line_lags import (
    STAMP_STEPS_MS,
    LineLags,
    Stops,
    silences_ms,
    stretches_ms,
)

T0 = 1_700_000_000_000


class Line(NamedTuple):
    """A request whose line was written at ``at_ms``, recorded ``took_ms`` before at the latest."""

    at_ms: int
    connection: str
    throttle_ms: int = 0
    took_ms: int = 0


def table(lines: list[Line], first_line: int = 0) -> pa.Table:
    at_ms = np.array([T0 + line.at_ms for line in lines], np.int64)
    recorded_ms = at_ms - [line.took_ms for line in lines]
    return pa.table(
        {
            "connection": pa.array([line.connection for line in lines]).dictionary_encode(),
            "log_time_ms": at_ms,
            "recorded_estimate_us": recorded_ms * 1000,
            "recorded_earliest_ms": recorded_ms,
            "source_line": first_line + np.arange(len(lines)),
            "throttle_time_ms": np.array([line.throttle_ms for line in lines]),
        }
    )


def in_parts(lines: list[Line], cut: int | None) -> list[list[Line]]:
    return [lines] if cut is None else [lines[:cut], lines[cut:]]


def stops(lines: list[Line], cut: int | None = None) -> Stops:
    """Return the stops that lines tell of, in one file or in two."""
    parts = [table(part) for part in in_parts(lines, cut)]
    written = [stretches_ms(part["log_time_ms"].to_numpy()) for part in parts]
    return Stops.of(silences_ms(written), parts)


def lags_ms(lines: list[Line], cut: int | None = None) -> list[int]:
    """Return how late each line may be, read at once or in two parts."""
    lags, found = LineLags(stops(lines, cut)), []
    for part in in_parts(lines, cut):
        found += lags.of(table(part, len(found)), np.arange(len(part))).tolist()
    return found


def test_a_line_is_no_later_than_the_one_before_on_its_connection() -> None:
    assert lags_ms([Line(0, "a"), Line(30, "a")])[1] == 30 + STAMP_STEPS_MS
    # Of a connection that nothing was read from before, nothing is known.
    assert lags_ms([Line(0, "a"), Line(30, "b")])[1] == LINE_LAG_MAX_MS


def test_a_line_is_no_later_than_the_throttle_before_it_was_over() -> None:
    assert lags_ms([Line(0, "a", throttle_ms=25), Line(30, "a")])[1] == 5 + STAMP_STEPS_MS


def busy(until_ms: int) -> list[Line]:
    """Return lines of another connection, one every 10 ms."""
    return [Line(at_ms, "busy") for at_ms in range(0, until_ms, 10)]


@pytest.mark.parametrize(("silent_ms", "lag_ms"), [(10, 60), (150, 200)])
def test_a_line_is_no_later_than_the_silence_of_the_whole_log(silent_ms: int, lag_ms: int) -> None:
    end_ms = 1_000 + silent_ms
    # The first thread that goes on ends the silence, others write their lines within 50 ms.
    last = [Line(end_ms, "busy"), Line(end_ms + LATE_LINE_MS, "idle", took_ms=1)]
    found = lags_ms([*busy(1_001), *last])
    assert found[-1] == lag_ms + STAMP_STEPS_MS


SILENT_MS = 3_000


@pytest.mark.parametrize("place", range(3))
def test_a_line_of_one_that_waited_for_a_stopped_process_may_be_as_late_as_the_stop_was_long(
    place: int,
) -> None:
    end_ms = 1_000 + SILENT_MS
    woken = [Line(end_ms + 2 * i, name) for i, name in enumerate(("busy", "b", "c"))]
    found = lags_ms([*busy(1_001), *woken])[-3 + place]
    # The busy connection has one from before the stop.
    assert found == SILENT_MS + 2 * place + STAMP_STEPS_MS


@pytest.mark.parametrize(("line", "lag_ms"), [(81, 200 + STAMP_STEPS_MS), (83, STAMP_STEPS_MS)])
def test_a_line_that_stands_before_another_one_of_its_connection_is_not_late_by_that(
    line: int, lag_ms: int
) -> None:
    # Estimates of one millisecond do not tell which of two waited for the process to go on.
    requests = table([*busy(801), Line(800, "a"), Line(1_000, "a", took_ms=1), Line(1_000, "a")])
    lines = requests["source_line"].to_numpy().copy()
    lines[-1] = line
    requests = requests.set_column(4, "source_line", pa.array(lines))
    assert LineLags().of(requests, np.arange(len(requests)))[-1] == lag_ms


@pytest.mark.parametrize("cut", [None, 2, 3])
@pytest.mark.parametrize(
    ("before", "is_stop"),
    [
        ("bcbc", True),
        # Of three active connections one had nothing to say; then the third had sent only once.
        ("bcddbc", False),
        ("bcdbc", True),
        ("bc", False),
        ("cccc", False),
    ],
)
def test_two_connections_that_were_active_before_a_silence_and_end_it_tell_of_a_stop(
    before: str, cut: int | None, *, is_stop: bool
) -> None:
    sent = [Line(1_000 - 50 * i, name) for i, name in enumerate(reversed(before))]
    lines = [*reversed(sent), Line(4_000, "b"), Line(4_002, "c")]
    assert stops(lines, cut).silent_ms.tolist() == [[T0 + 1_000, T0 + 4_000]] * is_stop
    assert (lags_ms(lines, cut)[-1] > LINE_LAG_MAX_MS) == is_stop


@pytest.mark.parametrize("cut", [None, 1, 2])
@pytest.mark.parametrize(
    ("throttle_ms", "woken_ms", "is_stop"),
    [
        ((1_500, 2_500), (4_000, 4_002), True),
        # One that was not throttled, or not any more, had nothing to wait for but its client.
        ((0, 2_500), (4_000, 4_002), False),
        ((900, 2_500), (4_000, 4_002), False),
        # Its throttle was over just then, stop or not.
        ((2_990, 2_500), (4_000, 4_002), False),
        ((1_500, 2_500), (4_000, 4_003), False),
    ],
)
def test_two_that_only_their_throttles_kept_silent_and_that_end_a_silence_at_once_tell_of_a_stop(
    throttle_ms: tuple[int, int], woken_ms: tuple[int, int], cut: int | None, *, is_stop: bool
) -> None:
    asleep = [Line(1_000, name, ms) for name, ms in zip("bc", throttle_ms, strict=True)]
    woken = [Line(ms, name) for name, ms in zip("bc", woken_ms, strict=True)]
    lines = [*asleep, Line(2_000, "d"), *woken]
    assert (stops(lines, cut).silent_ms.tolist() == [[T0 + 2_000, T0 + 4_000]]) == is_stop
    assert (lags_ms(lines, cut)[-2] > LINE_LAG_MAX_MS) == is_stop


@pytest.mark.parametrize(
    "woken",
    [
        [Line(4_000, "b")],
        [Line(4_000, "b"), Line(4_002, "c")],
        # A client that sends several at once wakes no others up.
        [Line(4_000, "b"), Line(4_001, "b"), Line(4_002, "b"), Line(4_003, "c")],
        [Line(4_000, "b"), Line(4_002, "c"), Line(4_051, "d")],
    ],
)
def test_a_silence_in_which_nobody_waited_is_no_stop(woken: list[Line]) -> None:
    lines = [*busy(1_001), *woken]
    assert not len(stops(lines).silent_ms)
    assert lags_ms(lines)[-len(woken)] == LINE_LAG_MAX_MS


LINES = st.lists(
    st.builds(
        Line,
        # Some with silences that may be stops.
        st.one_of(st.integers(0, 2_000), st.integers(0, 4).map(lambda n: n * 500)),
        st.sampled_from("abcd"),
        st.sampled_from((0, 0, 20, 450)),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=40,
)


def estimate_ms(line: Line) -> int:
    return line.at_ms - line.took_ms


@given(LINES, st.data())
def test_a_log_read_in_two_parts_tells_the_same_lags(
    lines: list[Line], data: st.DataObject
) -> None:
    lines.sort(key=estimate_ms)
    # Parts are cut between two estimates.
    cuts = [i for i in range(1, len(lines)) if estimate_ms(lines[i - 1]) < estimate_ms(lines[i])]
    cut = data.draw(st.sampled_from([*cuts, len(lines)]))
    assert lags_ms(lines) == lags_ms(lines, cut)


@given(LINES, st.data())
def test_a_stop_is_the_same_in_whatever_files_its_lines_are(
    lines: list[Line], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(lines)))
    shuffled = data.draw(st.permutations(lines))
    assert (stops(shuffled, cut).silent_ms == stops(lines).silent_ms).all()
