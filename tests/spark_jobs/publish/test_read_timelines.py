from __future__ import annotations

from pathlib import Path

from spark_jobs.publish.read_facts import read_timelines
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_rows

SPAN = (NOON_MS, NOON_MS + 100_000)


def test_values_of_one_entity_stand_together_in_order_of_time(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    later = row("quota_changes", bound=2.0, valid_from_ms=NOON_MS + 25_000)
    earlier = row("quota_changes", bound=1.0, valid_until_ms=NOON_MS + 25_000)
    other = row("quota_changes", quota_user="<default>")
    write_rows(scope, "quota_changes", [later, other, earlier])
    timelines = read_timelines(scope, SPAN)
    bounds = {t.entity: [held["bound"] for held in t.held] for t in timelines}
    assert bounds == {"every user by default": [50_000.0], "user 'alice'": [1.0, 2.0]}
    places = [(h["left_percent"], h["width_percent"]) for h in timelines[1].held]
    assert places == [(0.0, 25.0), (25.0, 75.0)]


def test_values_of_another_time_are_left_out(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    before = row("quota_changes", valid_until_ms=NOON_MS)
    after = row("quota_changes", valid_from_ms=SPAN[1] + 1)
    write_rows(scope, "quota_changes", [before, after])
    assert read_timelines(scope, SPAN) == ()
