"""What resolves is what Kafka's own quota manager says, on random sequences of changes."""

from __future__ import annotations

import random

import pytest

from spark_jobs.ingest.quota_sources.events import QuotaEntity, QuotaEvent
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.resolve.timeline.intervals import quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline, which_quota
from tests.oracle.jars import run_java
from tests.oracle.jvm_quota import MANAGER_PROGRAM, manager_jars
from tests.spark_jobs.ingest.quota_sources.quota_events import event

pytestmark = pytest.mark.jvm

SEED, SEQUENCES, CHANGES_MAX = 20261121, 150, 12
USERS = ("alice", "CN=b, O=x", DEFAULT, None)
CLIENT_IDS = ("svc", "a b", DEFAULT, None)
ASKED = (("alice", "svc"), ("alice", ""), ("CN=b, O=x", "a b"), ("eve", "svc"), ("eve", "other"))


@pytest.mark.parametrize("version", ["4.1.0", "4.2.2", "4.4.0"])
def test_a_client_has_the_sensor_and_the_bound_that_kafkas_manager_gives_it(version: str) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    sequences = [_changes(chance) for _ in range(SEQUENCES)]
    lines = [line for events in sequences for line in _commands(events)]
    said = run_java(MANAGER_PROGRAM, manager_jars(version), stdin="\n".join(lines)).splitlines()
    rule = LevelRule.of_broker(version, uses_zookeeper=False)
    replayed = [line for events in sequences for line in _answers(events, rule)]
    assert len(said) > SEQUENCES * len(ASKED)
    assert {line.split("\t")[0] for line in said} == {"true", "false"}
    assert replayed == said


def _changes(chance: random.Random) -> list[QuotaEvent]:
    """Return changes, one a millisecond; a controller passes on only those that change a value."""
    entities = [(user, client_id) for user in USERS for client_id in CLIENT_IDS]
    some = chance.sample([e for e in entities if e != (None, None)], chance.randint(1, 4))
    held: dict[QuotaEntity, float | None] = {}
    events = []
    for at_ms in range(1, 1 + chance.randint(1, CHANGES_MAX)):
        entity = chance.choice(some)
        bound = chance.choice([None, 100.0, 250.5])
        if held.get(entity) != bound:
            held[entity] = bound
            user, client_id = entity
            events.append(
                event(at_ms=at_ms, quota_user=user, quota_client_id=client_id, bound=bound)
            )
    return events


def _commands(events: list[QuotaEvent]) -> list[str]:
    asks = [f"ask\t={user}\t={client_id}" for user, client_id in ASKED]
    lines = ["new", *asks]
    for each in events:
        bound = "-" if each.bound is None else each.bound
        lines.append(f"set\t{_part(each.quota_user)}\t{_part(each.quota_client_id)}\t{bound}")
        lines += asks
    return lines


def _part(name: str | None) -> str:
    return "-" if name is None else "*" if name == DEFAULT else f"={name}"


def _answers(events: list[QuotaEvent], rule: LevelRule) -> list[str]:
    timeline = QuotaTimeline.of_rows(quota_intervals(events, (1,)), {1: rule})
    answers = []
    for at_ms in (0, *(each.latest_ms for each in events)):
        for user, client_id in ASKED:
            found = which_quota(
                timeline, "producer_byte_rate", user, client_id, 1, at_ms
            ).resolution
            bound = "-" if found.bound is None else str(found.bound)
            enabled = str(found.is_enabled).lower()
            answers.append(f"{enabled}\t={found.quota_user}\t={found.quota_client_id}\t{bound}")
    return answers
