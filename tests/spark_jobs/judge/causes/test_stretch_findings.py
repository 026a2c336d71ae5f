from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.judge.causes.findings import SensorSecond, find
from spark_jobs.judge.causes.hypotheses import (
    HARMLESS,
    OtherQuota,
    explain_stretch,
)
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretch_findings import (
    KIND_OF_HYPOTHESIS,
    ExplainedStretch,
    explained_stretch,
    gathered,
)
from spark_jobs.judge.causes.stretches import find_stretches
from spark_jobs.quota.codes import FINDING_KINDS, HYPOTHESES, PREVIOUS_QUOTA, REQUEST_QUOTA
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.warehouse.tables import FINDINGS
from tests.spark_jobs.judge.causes.sensor_builder import START_MS, changing, constant, history

ALICE = SensorKey(2, "producer_byte_rate", "alice", "")
FORMER = OtherQuota(PREVIOUS_QUOTA, 50_000.0, "user", START_MS, START_MS + 20_000)


def stretches(of: SensorDecisions, *quotas: OtherQuota) -> list[ExplainedStretch]:
    found = []
    for stretch in find_stretches(of, 5, 10):
        explanation = explain_stretch(of, stretch, quotas)
        told = explanation and explained_stretch(ALICE, of, explanation, change_ms=1000)
        found += [told] if told else []
    return found


def findings(
    *explained: ExplainedStretch,
    seconds: tuple[SensorSecond, ...] = (),
    version: str | None = None,
) -> list[dict[str, Any]]:
    versions = {2: version}
    return find(seconds, cluster="east", versions=versions, min_decisions=1, stretches=explained)


def second(at_ms: int, under_throttled: int = 5) -> SensorSecond:
    return SensorSecond(
        key=ALICE, second_ms=at_ms // 1000 * 1000, decisions=10, due=10, enforced=9,
        under_throttled=under_throttled, over_throttled=0, wrongly_admitted=0, wrongly_refused=0,
        unbound_throttled=0, agreeing=0, open_under_throttled=0, open_over_throttled=0,
        bound_min=1.0, bound_max=1.0, logged_throttle_time_ms=0,
        replayed_throttle_time_ms=0, difference_max_ms=9,
    )  # fmt: skip


LIED_TO = stretches(history(constant(40_000.0), constant(50_000.0)))


def test_every_hypothesis_that_is_told_has_a_kind_of_the_contract() -> None:
    untold = {"configured_quota", REQUEST_QUOTA}
    assert set(KIND_OF_HYPOTHESIS) == set(HYPOTHESES) - untold
    assert set(KIND_OF_HYPOTHESIS.values()) <= set(FINDING_KINDS)


def test_a_wrong_quota_names_broker_entity_interval_and_both_values() -> None:
    (row,) = findings(*LIED_TO)
    assert set(row) == set(FINDINGS.names)
    assert (row["kind"], row["severity"], row["broker_id"]) == ("wrong_quota", "warning", 2)
    assert (row["hypothesis"], row["estimated_bound"]) == ("unknown_quota", 40_000.0)
    assert (row["quota_user"], row["quota_client_id"]) == ("alice", "")
    assert START_MS <= row["from_ms"] < START_MS + 1_000
    assert START_MS + 58_000 < row["until_ms"] < START_MS + 61_000
    evidence = json.loads(row["evidence"])
    assert evidence["configured_bound"] == 50_000.0
    assert evidence["margin"] == pytest.approx(
        row["hypothesis_share"] - row["runner_up_share"], abs=1e-3
    )
    assert row["explanation"].startswith(
        "User 'alice': broker 2 enforced producer_byte_rate of 40,000 B/s, where 50,000 B/s is "
        "configured as far as is known."
    )


def test_a_change_that_arrives_within_the_usual_time_is_no_finding() -> None:
    # Dense enough that the second in flight holds ten decisions.
    late = history(
        changing(50_000.0, 20_900, 10_000.0), changing(50_000.0, 20_000, 10_000.0), amount=1_000.0
    )
    assert stretches(late, FORMER) == []


def test_a_late_change_says_until_when_the_earlier_value_held() -> None:
    late = history(changing(50_000.0, 45_000, 30_000.0), changing(50_000.0, 20_000, 30_000.0))
    (row,) = findings(*stretches(late, FORMER))
    assert (row["hypothesis"], row["estimated_bound"]) == ("previous_quota", 50_000.0)
    assert START_MS + 19_500 < row["from_ms"] < START_MS + 21_500
    assert START_MS + 43_500 < row["until_ms"] < START_MS + 45_100


@pytest.mark.parametrize(("version", "named"), [("2.4.1", True), ("2.5.0", False), (None, False)])
def test_a_removed_quota_in_force_is_a_known_fault_of_old_brokers(
    version: str | None, named: bool
) -> None:
    removed = history(constant(50_000.0), changing(50_000.0, 20_000, float("nan")))
    (row,) = findings(*stretches(removed, FORMER), version=version)
    assert ("KAFKA-9658" in row["explanation"]) is named
    assert "where no value is configured" in row["explanation"]


def test_a_quota_that_is_not_enforced_at_all_is_critical() -> None:
    (row,) = findings(*stretches(history(constant(float("nan")), constant(50_000.0))))
    assert (row["kind"], row["severity"]) == ("not_enforced", "critical")
    assert row["estimated_bound"] is None


def test_wrong_decisions_inside_a_stretch_have_no_finding_of_their_own() -> None:
    (stretch,) = LIED_TO
    inside, outside = stretch.from_ms + 5_000, stretch.until_ms + 2_000
    rows = findings(stretch, seconds=(second(inside), second(outside)))
    assert [(r["kind"], r["decisions"]) for r in rows] == [
        ("wrong_quota", stretch.evidence["explained"]),
        ("under_throttled", 5),
    ]


def test_wrong_decisions_beside_missing_lines_stay_findings() -> None:
    (stretch,) = LIED_TO
    harmless = replace(stretch, hypothesis="lines_missing")
    rows = findings(harmless, seconds=(second(stretch.from_ms + 5_000),))
    assert [(r["kind"], r["severity"]) for r in rows] == [
        ("under_throttled", "warning"),
        ("lines_missing", "info"),
    ]


def test_one_value_held_past_several_changes_is_one_finding() -> None:
    stale = history(constant(50_000.0), changing(30_000.0, 30_000, 20_000.0))
    several = stretches(stale, FORMER)
    assert len(several) == 2
    (whole,) = gathered(several)
    assert (whole.from_ms, whole.until_ms) == (several[0].from_ms, several[1].until_ms)
    assert whole.evidence["explained"] == sum(s.evidence["explained"] for s in several)
    assert whole.evidence["configured_bound_before"] == 30_000.0


def test_other_values_and_later_days_are_findings_of_their_own() -> None:
    (stretch,) = LIED_TO
    later = replace(stretch, from_ms=stretch.until_ms + 90_000, until_ms=stretch.until_ms + 99_000)
    other = replace(
        stretch,
        from_ms=stretch.until_ms,
        until_ms=stretch.until_ms + 9_000,
        evidence=stretch.evidence | {"estimated_bound": 45_000.0},
    )
    assert len(gathered([stretch, later])) == 2
    assert len(gathered([stretch, other])) == 2
    assert len({row["finding_id"] for row in findings(stretch, other, later)}) == 3


@pytest.mark.parametrize("hypothesis", sorted(KIND_OF_HYPOTHESIS))
def test_every_hypothesis_has_its_sentence(hypothesis: str) -> None:
    (row,) = findings(replace(LIED_TO[0], hypothesis=hypothesis))
    assert "broker 2" in row["explanation"]
    assert "{" not in row["explanation"]
    assert (row["severity"] == "info") is (hypothesis in HARMLESS)


@pytest.mark.parametrize("runner_up", HYPOTHESES)
def test_every_runner_up_has_its_words(runner_up: str) -> None:
    (row,) = findings(replace(LIED_TO[0], runner_up=runner_up))
    assert "would explain" in row["explanation"]
