from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.quota.codes import DEFAULT, QUOTA_LEVELS
from spark_jobs.resolve.timeline.default_quota_callback import (
    EnabledLevels,
    candidate_entities,
    enabled_level,
    quota_level,
    quota_limit,
    quota_metric_tags,
)
from spark_jobs.resolve.timeline.enabled_levels import BEGINNING_MS, END_MS, LevelRule
from spark_jobs.resolve.timeline.intervals import quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline, Resolution, which_quota
from tests.spark_jobs.ingest.quota_sources.quota_events import event

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
FORGETS = LevelRule(until_restart=False)


def row(
    user: str | None,
    client_id: str | None,
    from_ms: int = 0,
    until_ms: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "quota_type": PRODUCE,
        "quota_user": user,
        "quota_client_id": client_id,
        "bound": 100.0,
        "broker_id": None,
        "valid_from_ms": from_ms,
        "valid_until_ms": until_ms,
        "source": "log",
        "source_file": "kafka-request.log",
        "source_line": 7,
        **more,
    }


def at(resolutions: tuple[Resolution, ...], at_ms: int) -> Resolution:
    (found,) = (r for r in resolutions if r.valid_from_ms <= at_ms < r.valid_until_ms)
    return found


def resolve(*rows: dict[str, Any], at_ms: int = 500, **more: Any) -> Resolution:
    timeline = QuotaTimeline.of_rows(rows, **more)
    return at(timeline.resolve(PRODUCE, "alice", "svc", 1), at_ms)


@pytest.mark.parametrize("place", range(8), ids=QUOTA_LEVELS)
def test_of_all_quotas_that_match_the_highest_level_holds(place: int) -> None:
    entities = candidate_entities("alice", "svc")
    rows = [
        row(user, client_id, bound=float(10 + i))
        for i, (user, client_id) in enumerate(entities)
        if i >= place
    ]
    found = resolve(*rows)
    assert (found.quota_level, found.bound) == (QUOTA_LEVELS[place], 10.0 + place)


@pytest.mark.parametrize("place", range(8), ids=QUOTA_LEVELS)
def test_a_single_quota_of_any_level_holds_and_names_its_sensor(place: int) -> None:
    entity = candidate_entities("alice", "svc")[place]
    found = resolve(row(*entity))
    assert found.quota_level == QUOTA_LEVELS[place]
    assert (found.quota_user, found.quota_client_id) == (
        "alice" if entity[0] else "",
        "svc" if entity[1] else "",
    )


def test_a_quota_of_another_type_shadows_nothing() -> None:
    found = resolve(row("alice", "svc", quota_type=FETCH), row("alice", None))
    assert (found.quota_level, found.bound) == ("user", 100.0)


def test_a_type_without_quotas_is_not_enabled() -> None:
    timeline = QuotaTimeline.of_rows([row("alice", None)])
    (found,) = timeline.resolve(FETCH, "alice", "svc", 1)
    assert found == Resolution(BEGINNING_MS, END_MS, False, "", "svc", None, None, None)


def test_a_broker_keeps_sensors_from_the_first_quota_on() -> None:
    timeline = QuotaTimeline.of_rows([row("bob", None, 300, 400)])
    resolutions = timeline.resolve(PRODUCE, "alice", "svc", 1)
    assert [(r.valid_from_ms, r.is_enabled) for r in resolutions] == [
        (BEGINNING_MS, False),
        (300, True),
    ]
    assert (resolutions[1].quota_user, resolutions[1].bound) == ("alice", None)


def test_while_first_quotas_are_set_a_clients_amounts_move_between_sensors() -> None:
    timeline = QuotaTimeline.of_rows(
        [row(None, "svc", 100), row("bob", None, 200), row("alice", DEFAULT, 300)]
    )
    resolutions = timeline.resolve(PRODUCE, "alice", "svc", 1)
    assert [
        (r.valid_from_ms, r.quota_user, r.quota_client_id, r.quota_level) for r in resolutions
    ] == [
        (BEGINNING_MS, "", "svc", None),
        (100, "", "svc", "client-id"),
        (300, "alice", "svc", "user+default-client-id"),
    ]


def test_since_4_2_removing_the_last_quota_disables_the_type() -> None:
    removed = row("alice", None, 100, 200)
    assert resolve(removed).is_enabled
    assert not resolve(removed, level_rules={1: FORGETS}).is_enabled


def test_a_restart_forgets_removed_quotas() -> None:
    removed = row("alice", None, 100, 200)
    assert not resolve(removed, restarts_ms={1: [300]}).is_enabled
    assert resolve(removed, restarts_ms={2: [300]}).is_enabled


def test_with_zookeeper_a_quota_enables_its_level_for_other_types() -> None:
    rules = {1: LevelRule.of_broker("3.7.2", uses_zookeeper=True)}
    found = resolve(row("bob", None, quota_type=FETCH), level_rules=rules)
    assert (found.is_enabled, found.quota_user, found.bound) == (True, "alice", None)


def test_rows_of_one_broker_hold_on_that_broker_only() -> None:
    timeline = QuotaTimeline.of_rows([row("alice", None, broker_id=2)])
    assert at(timeline.resolve(PRODUCE, "alice", "svc", 2), 500).bound == 100.0
    assert not at(timeline.resolve(PRODUCE, "alice", "svc", 1), 500).is_enabled


def test_set_at_is_when_the_value_was_set_not_when_it_came_to_hold() -> None:
    found = resolve(row("alice", None, 100), row("alice", "svc", 200, 300))
    assert (found.valid_from_ms, found.set_at_ms) == (300, 100)


def test_which_quota_says_value_level_entity_since_when_and_source() -> None:
    timeline = QuotaTimeline.of_rows([row(DEFAULT, None, 100), row("alice", "x", 50)])
    found = which_quota(timeline, PRODUCE, "alice", "svc", 1, at_ms=150)
    assert (found.resolution.bound, found.resolution.quota_level) == (100.0, "default-user")
    assert (found.entity, found.resolution.set_at_ms) == ((DEFAULT, None), 100)
    assert (found.source, found.source_file, found.source_line) == ("log", "kafka-request.log", 7)


def test_which_quota_says_that_none_held() -> None:
    timeline = QuotaTimeline.of_rows([row("alice", None, 100, 200)])
    for at_ms, is_enabled in ((99, False), (200, True)):
        found = which_quota(timeline, PRODUCE, "alice", "svc", 1, at_ms)
        assert (found.entity, found.source, found.resolution.bound) == (None, None, None)
        assert found.resolution.is_enabled == is_enabled


def test_a_timeline_travels_to_workers() -> None:
    timeline = QuotaTimeline.of_rows([row("alice", None, 100)])
    copy = pickle.loads(pickle.dumps(timeline))
    assert copy.resolve(PRODUCE, "alice", "svc", 1) == timeline.resolve(PRODUCE, "alice", "svc", 1)


NAMES = ("alice", "bob", DEFAULT, None)
CLIENTS = ("svc", "etl", DEFAULT, None)
ENTITIES = [(user, client_id) for user in NAMES for client_id in CLIENTS if user or client_id]


@st.composite
def exact_events(draw: st.DrawFn) -> list[QuotaEvent]:
    """Draw exact changes at distinct times, on two brokers, of two types."""
    times = draw(st.lists(st.integers(1, 60), unique=True, max_size=14))
    return [
        event(
            "server_log",
            at_ms,
            broker_id=draw(st.sampled_from([1, 1, 2])),
            quota_type=draw(st.sampled_from([PRODUCE, PRODUCE, FETCH])),
            quota_user=entity[0],
            quota_client_id=entity[1],
            bound=draw(st.sampled_from([None, 100.0, 200.0])),
        )
        for at_ms in sorted(times)
        for entity in [draw(st.sampled_from(ENTITIES))]
    ]


def walk(
    events: list[QuotaEvent], user: str, client_id: str, at_ms: int, *, forgets: bool
) -> tuple[Any, ...]:
    """Play events up to ``at_ms`` as a broker does, and ask what holds then."""
    quotas: dict[tuple[str | None, str | None], tuple[float, int]] = {}
    enabled = EnabledLevels.NONE
    for each in events:
        if each.latest_ms > at_ms:
            break
        if each.bound is None:
            quotas.pop(each.entity, None)
        else:
            enabled |= enabled_level(each.entity)
            if quotas.get(each.entity, (None,))[0] != each.bound:
                quotas[each.entity] = (each.bound, each.latest_ms)
    if forgets:
        enabled = EnabledLevels.NONE
        for entity in quotas:
            enabled |= enabled_level(entity)
    tags = quota_metric_tags(enabled, user, client_id, quotas)
    entity = quota_limit(tags, quotas)
    held = (None, None, None) if entity is None else (quota_level(entity), *quotas[entity])
    return enabled != EnabledLevels.NONE, *tags, *held


@given(exact_events(), st.integers(0, 61), st.sampled_from(["alice", "eve"]), st.booleans())
def test_what_resolves_at_a_time_is_what_a_walk_over_the_events_finds(
    events: list[QuotaEvent], at_ms: int, user: str, forgets: bool
) -> None:
    rules = {broker: LevelRule(until_restart=not forgets) for broker in (1, 2)}
    timeline = QuotaTimeline.of_rows(quota_intervals(events, (1, 2)), rules)
    for broker in (1, 2):
        own = [e for e in events if e.broker_id == broker and e.quota_type == PRODUCE]
        resolutions = timeline.resolve(PRODUCE, user, "svc", broker)
        found = at(resolutions, at_ms)
        assert (
            found.is_enabled,
            found.quota_user,
            found.quota_client_id,
            found.quota_level,
            found.bound,
            found.set_at_ms,
        ) == walk(own, user, "svc", at_ms, forgets=forgets)
        assert resolutions[0].valid_from_ms == BEGINNING_MS
        assert resolutions[-1].valid_until_ms == END_MS
        assert all(a.valid_until_ms == b.valid_from_ms for a, b in pairwise(resolutions))
