from __future__ import annotations

import pytest

from spark_jobs.quota.codes import DEFAULT, QUOTA_LEVELS
from spark_jobs.recommend.weigh.configured_values import (
    QuotaEntity,
    configured_entity,
    own_entity,
    takes_over,
)

LEVELS = [
    ("user+client-id", ("alice", "etl"), ("alice", "etl")),
    ("user+default-client-id", ("alice", DEFAULT), ("alice", "etl")),
    ("user", ("alice", None), ("alice", None)),
    ("default-user+client-id", (DEFAULT, "etl"), ("alice", "etl")),
    ("default-user+default-client-id", (DEFAULT, DEFAULT), ("alice", "etl")),
    ("default-user", (DEFAULT, None), ("alice", None)),
    ("client-id", (None, "etl"), (None, "etl")),
    ("default-client-id", (None, DEFAULT), (None, "etl")),
]


def test_every_level_is_tried_here() -> None:
    assert tuple(level for level, _, _ in LEVELS) == QUOTA_LEVELS


@pytest.mark.parametrize(("level", "configured", "own"), LEVELS)
def test_a_level_says_whose_value_holds_and_whose_would_win(
    level: str, configured: tuple, own: tuple
) -> None:
    assert configured_entity(level, "alice", "etl") == QuotaEntity(*configured)
    assert own_entity(level, "alice", "etl") == QuotaEntity(*own)


@pytest.mark.parametrize("entity", [("", None), (None, ""), ("alice", ""), ("a\0b", None)])
def test_an_empty_name_cannot_be_given_to_the_tool(entity: tuple) -> None:
    assert not QuotaEntity(*entity).can_be_named


def test_only_a_users_own_value_takes_over_clients_of_a_default_user() -> None:
    pairs = {(a, b) for a in QUOTA_LEVELS for b in QUOTA_LEVELS if takes_over(a, b)}
    assert pairs == {
        ("default-user", "default-user+client-id"),
        ("default-user", "default-user+default-client-id"),
    }
