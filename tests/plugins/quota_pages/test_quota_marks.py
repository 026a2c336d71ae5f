from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quota_pages.history import Wanted, quota_marks
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_rows

MINUTE_MS = 60_000


def marks(folder: Path, *changes: dict[str, Any], user: str = "alice", client_id: str = "") -> list:
    scope = scope_in(folder)
    write_rows(scope, "quota_changes", [row("quota_changes", **change) for change in changes])
    wanted = Wanted("producer_byte_rate", user, client_id, NOON_MS, NOON_MS + 10 * MINUTE_MS)
    return [(m.at_ms - NOON_MS, m.broker_id, m.text) for m in quota_marks(scope, wanted)]


def held(after_ms: int, until_ms: int | None, **columns: Any) -> dict[str, Any]:
    until = None if until_ms is None else NOON_MS + until_ms
    return {"valid_from_ms": NOON_MS + after_ms, "valid_until_ms": until, **columns}


def test_a_value_that_follows_another_is_one_mark(tmp_path: Path) -> None:
    assert marks(
        tmp_path,
        held(-MINUTE_MS, MINUTE_MS, bound=100_000.0),
        held(MINUTE_MS, None, bound=250_000.0),
    ) == [(MINUTE_MS, None, "user 'alice': 250 kB/s")]


def test_a_value_that_nothing_follows_was_removed(tmp_path: Path) -> None:
    found = marks(tmp_path, held(0, 2 * MINUTE_MS, bound=100_000.0, broker_id=2))
    assert found == [(0, 2, "user 'alice': 100 kB/s"), (2 * MINUTE_MS, 2, "user 'alice': removed")]


@pytest.mark.parametrize(
    ("key", "entity", "counts"),
    [
        (("alice", ""), ("<default>", None), True),
        (("alice", ""), ("bob", None), False),
        (("alice", ""), (None, "<default>"), False),
        (("", "etl"), (None, "etl"), True),
        (("", "etl"), (None, "<default>"), True),
        (("", "etl"), ("alice", "etl"), False),
        (("alice", "etl"), ("<default>", "etl"), True),
        (("alice", "etl"), ("alice", None), False),
    ],
)
def test_what_can_limit_the_sensor_is_marked_and_nothing_else(
    tmp_path: Path, key: tuple[str, str], entity: tuple[str | None, str | None], counts: bool
) -> None:
    change = held(0, None, quota_user=entity[0], quota_client_id=entity[1])
    assert len(marks(tmp_path, change, user=key[0], client_id=key[1])) == counts


def test_changes_outside_the_time_shown_have_no_mark(tmp_path: Path) -> None:
    assert marks(tmp_path, held(-1, None), held(10 * MINUTE_MS, None, quota_user="<default>")) == []
