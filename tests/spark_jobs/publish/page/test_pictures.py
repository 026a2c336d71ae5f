from __future__ import annotations

import re

import numpy as np
import pytest

from spark_jobs.publish.facts.timelines import SensorHistory
from spark_jobs.publish.page.pictures import picture, time_ticks_s
from spark_jobs.quota.sensor_key import SensorKey
from tests.builders.tables_builder import NOON_MS


def history(seconds: int = 60, quota_type: str = "producer_byte_rate") -> SensorHistory:
    start_ms = NOON_MS + 1000 * np.arange(seconds)
    rising = np.linspace(0.0, 100_000.0, seconds)
    return SensorHistory(
        sensor=SensorKey(1, quota_type, "alice", ""),
        step_ms=1000,
        start_ms=start_ms,
        rate=rising,
        tokens=50.0 - rising / 1000,
        bound=np.full(seconds, 50_000.0),
        is_throttled=rising > 50_000,
    )


def drawn(shown: SensorHistory, window_ms: int = 11_000, label: str = "alice") -> str:
    return picture(shown, (int(shown.start_ms[0]), shown.end_ms), window_ms, 110.0, label)


def test_colours_are_names_that_the_page_decides() -> None:
    svg = drawn(history())
    assert "var(--rate)" in svg
    assert "var(--throttled)" in svg
    assert re.findall(r"#0[1-6]0[1-6]0[1-6]", svg) == []


def test_the_label_is_text() -> None:
    assert 'aria-label="&lt;b&gt;&#34;"' in drawn(history(), label='<b>"')


@pytest.mark.parametrize(("window_ms", "is_drawn"), [(11_000, True), (500, False)])
def test_the_window_is_drawn_where_it_is_long_enough_to_see(window_ms: int, is_drawn: bool) -> None:
    assert ("window" in drawn(history(), window_ms)) is is_drawn


@pytest.mark.parametrize("quota_type", ["producer_byte_rate", "controller_mutation_rate"])
def test_a_history_without_any_value_is_still_a_picture(quota_type: str) -> None:
    nothing = np.full(1, np.nan)
    empty = SensorHistory(
        SensorKey(1, quota_type, "a", ""), 1000, np.array([NOON_MS]), nothing, nothing, nothing,
        np.array([False]),
    )  # fmt: skip
    assert drawn(empty).startswith("<svg viewBox=")


@pytest.mark.parametrize("span_s", [1, 59, 600, 5_000, 86_400])
def test_there_are_a_few_ticks_at_round_moments(span_s: int) -> None:
    ticks = time_ticks_s(0.5, 0.5 + span_s)
    assert 1 <= len(ticks) <= 5
    steps = set(np.diff(ticks).tolist())
    assert len(steps) <= 1
