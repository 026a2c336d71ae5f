from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spark_jobs.judge.causes.findings import (
    SensorSecond,
    find,
)
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.warehouse.tables import FINDINGS

CAROL = SensorKey(1, "controller_mutation_rate", "carol", "")
ALICE = SensorKey(2, "producer_byte_rate", "alice", "")


def second(key: SensorKey, at_s: int, **overrides: object) -> SensorSecond:
    quiet = SensorSecond(
        key=key,
        second_ms=at_s * 1000,
        decisions=10,
        due=0,
        enforced=0,
        under_throttled=0,
        over_throttled=0,
        wrongly_admitted=0,
        wrongly_refused=0,
        unbound_throttled=0,
        agreeing=0,
        open_under_throttled=0,
        open_over_throttled=0,
        bound_min=3.0,
        bound_max=3.0,
        logged_throttle_time_ms=0,
        replayed_throttle_time_ms=0,
        difference_max_ms=0,
    )
    return replace(quiet, **overrides)  # type: ignore[arg-type]


def findings(*seconds: SensorSecond, version: str | None = "4.1.0") -> list[dict[str, object]]:
    versions = dict.fromkeys((1, 2), version)
    return find(seconds, cluster="east", versions=versions, min_decisions=10)


def test_quiet_sensors_give_no_finding() -> None:
    assert findings(second(CAROL, 1), second(ALICE, 2)) == []


def test_a_quota_of_which_nothing_due_was_enforced_is_not_enforced_and_critical() -> None:
    rows = findings(*[second(CAROL, s, due=5, wrongly_admitted=5) for s in range(4)])
    assert [(r["kind"], r["severity"], r["decisions"]) for r in rows] == [
        ("not_enforced", "critical", 20)
    ]
    assert rows[0]["explanation"] == (
        "User 'carol': controller_mutation_rate of 3 partitions/s was not enforced on broker 1. "
        "20 decisions were due to be throttled or refused, 0 were."
    )


@pytest.mark.parametrize(
    ("version", "named"), [("3.3.2", True), ("3.5.0", False), ("4.1.0", False), (None, False)]
)
def test_a_known_fault_is_named_only_for_the_versions_that_have_it(
    version: str | None, named: bool
) -> None:
    (row,) = findings(second(CAROL, 1, due=20, wrongly_admitted=20), version=version)
    assert ("KAFKA-14351" in str(row["explanation"])) is named


def test_a_quota_that_is_mostly_enforced_is_wrong_but_not_unenforced() -> None:
    rows = findings(second(CAROL, 1, due=40, enforced=28, wrongly_admitted=12))
    assert [(r["kind"], r["severity"]) for r in rows] == [("wrongly_admitted", "warning")]


def test_few_wrong_decisions_are_seen_but_not_alarming() -> None:
    rows = findings(second(ALICE, 1, due=90, enforced=87, under_throttled=3))
    assert [(r["kind"], r["severity"], r["decisions"]) for r in rows] == [
        ("under_throttled", "info", 3)
    ]


@pytest.mark.parametrize(
    ("wrong", "open_decisions", "severity"),
    [(9, 0, "info"), (9, 1, "warning"), (5, 5, "warning"), (4, 90, "info")],
)
def test_half_of_what_alarms_may_only_deviate_in_the_same_way(
    wrong: int, open_decisions: int, severity: str
) -> None:
    (row,) = findings(
        second(ALICE, 1, due=95, enforced=90, under_throttled=wrong),
        second(ALICE, 2, open_under_throttled=open_decisions),
    )
    assert (row["severity"], row["decisions"]) == (severity, wrong)


def test_wrong_seconds_more_than_a_minute_apart_are_two_intervals() -> None:
    rows = findings(
        *[second(ALICE, s, due=20, enforced=9, under_throttled=11) for s in (1, 2, 62, 123)]
    )
    spans = sorted((r["from_ms"], r["until_ms"]) for r in rows)
    assert spans == [(1_000, 63_000), (123_000, 124_000)]
    assert len({r["finding_id"] for r in rows}) == 2


def test_a_finding_begins_and_ends_with_what_deviates_as_its_wrong_decisions_do() -> None:
    """Of ten seconds the first two agree, and what is open the other way tells nothing."""
    (row,) = findings(
        second(ALICE, 1, agreeing=9),
        second(ALICE, 2, agreeing=2, open_over_throttled=7),
        second(ALICE, 3, open_under_throttled=4),
        second(ALICE, 4, due=20, enforced=9, under_throttled=11, open_under_throttled=1),
        second(ALICE, 5, agreeing=2, open_under_throttled=3),
        second(ALICE, 6, agreeing=8, open_under_throttled=1),
    )
    assert (row["from_ms"], row["until_ms"], row["decisions"]) == (3_000, 6_000, 11)
    assert "throttled 11 of 10 requests less" in str(row["explanation"])
    assert "8 more deviate in the same way, each too little to prove" in str(row["explanation"])


def test_what_deviates_and_is_proven_nowhere_is_no_finding() -> None:
    deviating = [second(ALICE, s, open_under_throttled=9) for s in (1, 2, 90, 91)]
    wrong = second(ALICE, 180, due=20, enforced=9, under_throttled=11)
    (row,) = findings(*deviating, wrong)
    assert (row["from_ms"], row["until_ms"]) == (180_000, 181_000)
    assert findings(*deviating) == []


def test_throttles_without_any_quota_are_a_finding_of_their_own_words() -> None:
    (row,) = findings(
        second(ALICE, 1, unbound_throttled=12, decisions=0, bound_min=None, bound_max=None)
    )
    assert row["kind"] == "over_throttled"
    assert "throttled 12 requests for which no producer_byte_rate is configured." in str(
        row["explanation"]
    )


def test_a_finding_keeps_its_id_on_another_day_and_has_the_tables_columns() -> None:
    (today,) = findings(second(ALICE, 1, due=20, enforced=9, under_throttled=11))
    (tomorrow,) = findings(second(ALICE, 86_401, due=20, enforced=9, under_throttled=11))
    assert today["finding_id"] == tomorrow["finding_id"]
    assert set(today) == set(FINDINGS.names)
    assert json.loads(str(today["evidence"]))["enforced"] == 9


def test_the_worst_finding_comes_first() -> None:
    rows = findings(
        second(ALICE, 1, due=20, enforced=9, under_throttled=11),
        second(CAROL, 1, due=20, wrongly_admitted=20),
    )
    assert [r["severity"] for r in rows] == ["critical", "warning"]
