from __future__ import annotations

import pytest

from spark_jobs.quota.codes import DEFAULT, QUOTA_LEVELS
from spark_jobs.resolve.timeline.default_quota_callback import (
    EnabledLevels,
    candidate_entities,
    enabled_level,
    quota_level,
    quota_limit,
    quota_metric_tags,
)

MIXED = EnabledLevels.CLIENT_ID | EnabledLevels.USER | EnabledLevels.USER_CLIENT_ID


@pytest.mark.parametrize("place", range(8), ids=QUOTA_LEVELS)
def test_the_first_of_the_eight_levels_that_holds_a_quota_wins(place: int) -> None:
    entities = candidate_entities("alice", "svc")
    quotas = frozenset(entities[place:])
    tags = quota_metric_tags(MIXED, "alice", "svc", quotas)
    assert quota_limit(tags, quotas) == entities[place]
    assert quota_level(entities[place]) == QUOTA_LEVELS[place]


@pytest.mark.parametrize(
    ("place", "tags"),
    list(
        enumerate(
            [
                ("alice", "svc"),
                ("alice", "svc"),
                ("alice", ""),
                ("alice", "svc"),
                ("alice", "svc"),
                ("alice", ""),
                ("", "svc"),
                ("", "svc"),
            ]
        )
    ),
)
def test_the_sensor_follows_the_level_that_matched(place: int, tags: tuple[str, str]) -> None:
    quotas = {candidate_entities("alice", "svc")[place]}
    assert quota_metric_tags(MIXED, "alice", "svc", quotas) == tags


@pytest.mark.parametrize(
    ("enabled", "tags"),
    [
        (EnabledLevels.NONE, ("", "svc")),
        (EnabledLevels.CLIENT_ID, ("", "svc")),
        (EnabledLevels.USER, ("alice", "")),
        (EnabledLevels.USER_CLIENT_ID, ("alice", "svc")),
        (MIXED, ("", "svc")),
        (EnabledLevels.USER | EnabledLevels.USER_CLIENT_ID, ("", "svc")),
    ],
)
def test_without_a_match_the_enabled_levels_choose_the_sensor(
    enabled: EnabledLevels, tags: tuple[str, str]
) -> None:
    assert quota_metric_tags(enabled, "alice", "svc", ()) == tags
    assert quota_limit(tags, ()) is None


def test_an_empty_client_id_of_a_user_and_client_level_is_bound_by_the_users_quota() -> None:
    quotas = {("alice", DEFAULT), ("alice", None)}
    tags = quota_metric_tags(MIXED, "alice", "", quotas)
    assert tags == ("alice", "")
    assert quota_limit(tags, quotas) == ("alice", None)


def test_a_client_that_calls_itself_default_is_not_the_default_entity() -> None:
    own = candidate_entities(DEFAULT, DEFAULT)
    assert quota_limit((DEFAULT, DEFAULT), {(DEFAULT, DEFAULT)}) == (DEFAULT, DEFAULT)
    assert own[0] != (DEFAULT, DEFAULT)
    assert own[4] == (DEFAULT, DEFAULT)


@pytest.mark.parametrize(
    ("entity", "level"),
    [
        ((None, "svc"), EnabledLevels.CLIENT_ID),
        ((None, DEFAULT), EnabledLevels.CLIENT_ID),
        (("alice", None), EnabledLevels.USER),
        ((DEFAULT, DEFAULT), EnabledLevels.USER_CLIENT_ID),
    ],
)
def test_a_quota_enables_the_level_of_its_entity(
    entity: tuple[str | None, str | None], level: EnabledLevels
) -> None:
    assert enabled_level(entity) == level
