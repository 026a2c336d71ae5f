from __future__ import annotations

import pytest

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.resolve.timeline.default_quota_callback import EnabledLevels
from spark_jobs.resolve.timeline.enabled_levels import BEGINNING_MS, END_MS, LevelRule, level_steps

NONE, CLIENT_ID, USER = EnabledLevels.NONE, EnabledLevels.CLIENT_ID, EnabledLevels.USER
FORGETS = LevelRule(until_restart=False)


def test_a_level_stays_enabled_after_its_quota_was_removed() -> None:
    steps = level_steps([(USER, 10, 20), (CLIENT_ID, 30, 40)], LevelRule())
    assert steps == ((BEGINNING_MS, NONE), (10, USER), (30, USER | CLIENT_ID))


def test_a_restart_forgets_the_levels_of_removed_quotas() -> None:
    steps = level_steps([(USER, 10, 20), (CLIENT_ID, 30, END_MS)], LevelRule(), restarts_ms=[50])
    assert steps[-1] == (50, CLIENT_ID)


def test_since_4_2_a_level_ends_with_its_last_quota() -> None:
    steps = level_steps([(USER, 10, 20), (USER, 20, 30), (CLIENT_ID, 15, 25)], FORGETS)
    assert steps == (
        (BEGINNING_MS, NONE),
        (10, USER),
        (15, USER | CLIENT_ID),
        (25, USER),
        (30, NONE),
    )


@pytest.mark.parametrize("rule", [LevelRule(), FORGETS])
def test_without_quotas_no_level_was_ever_enabled(rule: LevelRule) -> None:
    assert level_steps([], rule) == ((BEGINNING_MS, NONE),)


@pytest.mark.parametrize(
    ("version", "uses_zookeeper", "until_restart", "shared"),
    [
        ("4.2.0", False, False, 0),
        ("4.1.0", False, True, 0),
        ("3.7.2", False, True, 0),
        ("3.7.2", True, True, 4),
        ("2.6.0", True, True, 3),
        (None, False, True, 0),
    ],
)
def test_the_version_decides_how_levels_are_kept(
    version: str | None, uses_zookeeper: bool, until_restart: bool, shared: int
) -> None:
    rule = LevelRule.of_broker(version, uses_zookeeper=uses_zookeeper)
    assert rule.until_restart == until_restart
    assert rule.shared_types == frozenset(QUOTA_TYPES[:shared])


def test_with_zookeeper_a_quota_enables_its_level_for_every_type() -> None:
    rule = LevelRule.of_broker("3.7.2", uses_zookeeper=True)
    assert rule.types_with("request_percentage") == frozenset(QUOTA_TYPES)
    assert LevelRule().types_with("request_percentage") == {"request_percentage"}
