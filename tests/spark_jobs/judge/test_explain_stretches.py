from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretch_findings import gathered
from spark_jobs.judge.explain_stretches import explain_stretches
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.settings import JudgeSettings
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.spark_jobs.judge.causes.sensor_builder import (
    START_MS,
    changing,
    constant,
    history,
    misplaced,
)

HOUR_MS = 3_600_000


def decisions(of: SensorDecisions, **columns: Any) -> list[dict[str, Any]]:
    """Return rows of ``decisions`` that a replay by the configured bound writes."""
    expected_ms = of.throttle_ms(of.bound)
    return [
        row(
            "decisions",
            sensor_seq=i,
            source_line=i + 1,
            correlation_id=i,
            connection=f"connection-{of.connection[i]}",
            recorded_at_ms=int(of.recorded_at_ms[i]),
            log_time_ms=int(of.log_time_ms[i]),
            amount=float(of.amount[i]),
            is_unrecorded=bool(of.is_unrecorded[i]),
            bound=float(of.bound[i]),
            rate=float(of.rate[i]),
            window_size_ms=int(of.window_size_ms[i]),
            logged_throttle_time_ms=int(of.logged_ms[i]),
            replayed_throttle_time_ms=int(expected_ms[i]),
            verdict="indeterminate",
            reason="sample_timing",
            **columns,
        )
        for i in range(len(of))
    ]


def change(from_ms: int, until_ms: int | None, bound: float, **columns: Any) -> dict[str, Any]:
    return row(
        "quota_changes", valid_from_ms=from_ms, valid_until_ms=until_ms, bound=bound, **columns
    )


def warehouse(tmp_path: Path, rows: list[dict[str, Any]], *changes: dict[str, Any]) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "brokers", [row("brokers", broker_id=b) for b in (1, 2)])
    write_rows(scope, "quota_changes", list(changes))
    write_rows(scope, "decisions", rows)
    return scope


def test_a_late_change_is_found_whatever_the_verdicts_on_the_broker_it_did_not_reach(
    tmp_path: Path,
) -> None:
    configured = changing(50_000.0, 30_000, 40_000.0)
    late = history(constant(50_000.0), configured, seconds=70)
    timely = history(configured, configured, seconds=70)
    scope = warehouse(
        tmp_path,
        [*decisions(late, broker_id=2), *decisions(timely)],
        change(START_MS - HOUR_MS, START_MS + 30_000, 50_000.0),
        change(START_MS + 30_000, None, 40_000.0),
    )

    def no_spark() -> Any:
        raise AssertionError("no verdict is wrong: nothing to ask Spark for")

    assert judge_decisions(no_spark, scope) == "findings: 1 (0 critical, 1 warning, 0 info)"
    (finding,) = read_table(scope, "findings").to_pylist()
    assert (finding["broker_id"], finding["quota_user"], finding["kind"]) == (
        2, "alice", "wrong_quota",
    )  # fmt: skip
    assert (finding["hypothesis"], finding["estimated_bound"]) == ("previous_quota", 50_000.0)
    assert START_MS + 29_500 < finding["from_ms"] < START_MS + 32_000
    assert finding["until_ms"] > START_MS + 68_000


def test_honest_brokers_have_no_stretches(tmp_path: Path) -> None:
    honest = history(constant(50_000.0), constant(50_000.0))
    fetches = history(constant(50_000.0), constant(50_000.0), is_fetch=True)
    scope = warehouse(
        tmp_path,
        [*decisions(honest), *decisions(fetches, quota_type="consumer_byte_rate")],
        change(START_MS - HOUR_MS, None, 50_000.0),
        change(START_MS - HOUR_MS, None, 50_000.0, quota_type="consumer_byte_rate"),
    )
    assert explain_stretches(scope, JudgeSettings()) == []


@pytest.mark.parametrize(("enforced", "bounds"), [(54_000.0, [54_000.0]), (50_000.0, [])])
def test_a_quota_that_only_steps_between_throttles_tell_is_one_stretch(
    tmp_path: Path, enforced: float, bounds: list[float]
) -> None:
    of = misplaced(history(constant(enforced), constant(50_000.0)))
    scope = warehouse(tmp_path, decisions(of), change(START_MS - HOUR_MS, None, 50_000.0))
    stretches = explain_stretches(scope, JudgeSettings())
    found = [one for one in stretches if one.kind == "wrong_quota"]
    assert [one.estimated_bound for one in found] == bounds
    assert all(one.until_ms - one.from_ms > 40_000 for one in found)


def test_what_a_broker_held_before_its_log_began_accuses_nobody(tmp_path: Path) -> None:
    # It has just been told of the quota, and counts what it saw before: nobody knows how much.
    begun = history(constant(35_000.0), changing(45_000.0, 12_000, 35_000.0))
    scope = warehouse(tmp_path, decisions(begun), change(START_MS - HOUR_MS, None, 45_000.0))
    assert explain_stretches(scope, JudgeSettings()) == []
    carried = [d | {"sensor_seq": d["sensor_seq"] + 9} for d in decisions(begun)]
    write_rows(scope, "decisions", carried)
    assert [s.hypothesis for s in explain_stretches(scope, JudgeSettings())] == ["unknown_quota"]


def test_what_an_unlogged_change_explains_is_no_evidence(tmp_path: Path) -> None:
    of = history(changing(50_000.0, 30_000, 40_000.0), constant(50_000.0), seconds=70)
    quota = change(START_MS - HOUR_MS, None, 50_000.0)
    told = [row | {"reason": "unlogged_change"} for row in decisions(of)]
    scope = warehouse(tmp_path, decisions(of), quota)
    assert [s.hypothesis for s in explain_stretches(scope, JudgeSettings())] == ["unknown_quota"]
    write_rows(scope, "decisions", told)
    assert explain_stretches(scope, JudgeSettings()) == []


@pytest.mark.parametrize(("before_ms", "is_told"), [(HOUR_MS, True), (1_000, False)])
def test_a_client_that_sent_nothing_while_its_broker_logged_others_has_no_past(
    tmp_path: Path, before_ms: int, *, is_told: bool
) -> None:
    begun = history(constant(35_000.0), changing(45_000.0, 12_000, 35_000.0))
    quota = change(START_MS - 2 * HOUR_MS, None, 45_000.0)
    scope = warehouse(tmp_path, decisions(begun), quota)
    write_rows(scope, "requests", [row("requests", log_time_ms=START_MS - before_ms)])
    found = explain_stretches(scope, JudgeSettings())
    assert [one.hypothesis for one in found] == ["unknown_quota"] * is_told


def test_a_sensor_that_was_counted_by_another_rate_all_day_has_that_finding_alone(
    tmp_path: Path,
) -> None:
    older = history(
        constant(50_000.0), constant(50_000.0), broker_profile=RateProfile.RATE_3_3, seconds=90
    )
    quota = change(START_MS - HOUR_MS, None, 50_000.0)
    scope = warehouse(tmp_path, decisions(older), quota)
    (found,) = explain_stretches(scope, JudgeSettings())
    assert (found.hypothesis, found.evidence["detail"]) == ("other_rate_profile", "rate_3_3")
    # No process counts by two rates: its first decisions, of which nothing is known, are of it.
    at_ms = older.recorded_at_ms
    assert (found.from_ms, found.until_ms) == (at_ms[0], at_ms[-1] + 1)


@pytest.mark.parametrize("is_accused", [True, False])
def test_a_connection_counted_apart_is_told_where_no_decision_is_wrong_too(
    tmp_path: Path, *, is_accused: bool
) -> None:
    split = history(constant(50_000.0), constant(50_000.0), apart=2)
    rows = decisions(split)
    if is_accused:
        rows[-1] |= {"verdict": "under_throttled", "reason": None}
    scope = warehouse(tmp_path, rows, change(START_MS - HOUR_MS, None, 50_000.0))
    found = [
        (one.hypothesis, one.evidence["detail"])
        for one in explain_stretches(scope, JudgeSettings())
        if one.hypothesis == "counted_apart"
    ]
    assert found == [("counted_apart", "connection-2")]


def test_a_loss_is_told_of_each_sensor_of_its_broker(tmp_path: Path) -> None:
    bound = constant(50_000.0)
    forgetful = history(bound, bound, forgets_at_ms=30_000)
    other = history(bound, bound, forgets_at_ms=30_000, seed=2)
    is_wrong = (forgetful.logged_ms == 0) & (forgetful.throttle_ms(forgetful.bound) > 0)
    accused = decisions(forgetful)
    for i in is_wrong.nonzero()[0].tolist():
        accused[i] |= {"verdict": "under_throttled", "reason": None}
    rows = [*accused, *decisions(other, quota_user="bob"), *decisions(other, broker_id=2)]
    quotas = [
        change(START_MS - HOUR_MS, None, 50_000.0, quota_user=user) for user in ("alice", "bob")
    ]
    scope = warehouse(tmp_path, rows, *quotas)
    found = explain_stretches(scope, JudgeSettings())
    assert {(s.key.broker_id, s.key.quota_user, s.hypothesis) for s in found} == {
        (1, "alice", "state_lost"),
        (1, "bob", "state_lost"),
    }


def test_a_lost_state_begins_with_the_loss_whatever_quota_was_set_since(tmp_path: Path) -> None:
    """Nothing is wrong for sure until the quota is set anew."""
    bound = changing(60_000.0, 32_000, 40_000.0)
    forgetful = history(bound, bound, forgets_at_ms=30_000, seconds=80)
    accused = decisions(forgetful)
    is_wrong = forgetful.logged_ms < forgetful.throttle_ms(forgetful.bound) - 5
    is_wrong &= forgetful.recorded_at_ms > START_MS + 32_000
    for i in is_wrong.nonzero()[0].tolist():
        accused[i] |= {"verdict": "under_throttled", "reason": None}
    quotas = [
        change(START_MS - HOUR_MS, START_MS + 32_000, 60_000.0),
        change(START_MS + 32_000, None, 40_000.0),
    ]
    scope = warehouse(tmp_path, accused, *quotas)
    stretches = explain_stretches(scope, JudgeSettings())
    assert {one.hypothesis for one in stretches} == {"state_lost"}
    (whole,) = gathered(stretches)
    first_ms = int(forgetful.recorded_at_ms[forgetful.recorded_at_ms >= START_MS + 30_000][0])
    assert abs(whole.from_ms - first_ms) <= 500
    assert whole.evidence["configured_bound_before"] == 60_000.0


def test_a_loss_is_told_of_a_sensor_that_deviated_before_it(tmp_path: Path) -> None:
    bound = constant(50_000.0)
    forgetful, other = (history(bound, bound, forgets_at_ms=30_000, seed=seed) for seed in (1, 2))
    is_wrong = (forgetful.logged_ms == 0) & (forgetful.throttle_ms(forgetful.bound) > 0)
    accused = decisions(forgetful)
    for i in is_wrong.nonzero()[0].tolist():
        accused[i] |= {"verdict": "under_throttled", "reason": None}
    beside = decisions(other, quota_user="bob")
    before = [d for d in beside if d["recorded_at_ms"] < START_MS + 30_000]
    for row_before in before[-6:]:
        row_before["logged_throttle_time_ms"] += 700
    quotas = [
        change(START_MS - HOUR_MS, None, 50_000.0, quota_user=user) for user in ("alice", "bob")
    ]
    scope = warehouse(tmp_path, [*accused, *beside], *quotas)
    found = explain_stretches(scope, JudgeSettings())
    assert {(s.key.quota_user, s.hypothesis) for s in found} == {
        ("alice", "state_lost"),
        ("bob", "state_lost"),
    }
    (of_bob,) = (s for s in found if s.key.quota_user == "bob")
    assert of_bob.from_ms > before[-1]["recorded_at_ms"]
