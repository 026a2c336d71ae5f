from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.apply.changes.change_plan import (
    DONE,
    CarriedOutChange,
    ChangeOutcome,
    ChangeStep,
    carry_out,
    plan_changes,
    refusal,
    validated,
)
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaKey
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES
from spark_jobs.warehouse.tables import CHANGE_OUTCOMES
from tests.spark_jobs.apply.changes.model_cluster import LOST, WRONG_VALUE, ModelCluster, Patience

TYPE = "producer_byte_rate"
USERS = ("alice", "bob", "carol")

bounds = st.integers(1, 5).map(float)
keys = st.tuples(
    st.sampled_from(QUOTA_TYPES),
    st.sampled_from([None, "alice", "bob", DEFAULT]),
    st.sampled_from([None, "etl", DEFAULT]),
).filter(lambda key: any(key[1:]))
clusters = st.dictionaries(keys, bounds)
wishes = st.dictionaries(keys, st.tuples(st.none() | bounds, st.none() | bounds))


def of_wishes(wanted: dict[QuotaKey, tuple[float | None, float | None]]) -> list[QuotaAlteration]:
    return [QuotaAlteration(*key, before, after) for key, (before, after) in wanted.items()]


def run(
    cluster: ModelCluster, alterations: Sequence[QuotaAlteration], entities_max: int = 1
) -> tuple[CarriedOutChange, ...] | None:
    """Return what became of the alterations; None where the plan is refused."""
    found = cluster.values([a.entity for a in alterations])
    plan = validated(plan_changes(alterations, found, allow_delete=True), cluster)
    return None if refusal(plan) else carry_out(plan, cluster, Patience(), entities_max)


def three(cluster: ModelCluster) -> dict[str | None, CarriedOutChange]:
    """Return what becomes of one change for each user, a request each."""
    results = run(cluster, [QuotaAlteration(TYPE, user, None, None, 7.0) for user in USERS])
    assert results is not None
    return {result.planned.alteration.user: result for result in results}


def outcomes(results: dict[str | None, CarriedOutChange]) -> list[str]:
    return [results[user].outcome for user in USERS]


@given(clusters, wishes, st.integers(1, 4))
def test_applying_twice_is_applying_once(
    held: dict[QuotaKey, float],
    wanted: dict[QuotaKey, tuple[float | None, float | None]],
    entities_max: int,
) -> None:
    cluster = ModelCluster(dict(held))
    first = run(cluster, of_wishes(wanted), entities_max)
    after_first, writes = dict(cluster.held), len(cluster.writes)
    second = run(cluster, of_wishes(wanted), entities_max)
    assert cluster.held == after_first
    assert len(cluster.writes) == writes
    assert (first is None) == (second is None)
    assert {r.outcome for r in second or ()} <= {ChangeOutcome.ALREADY_SO}


@given(clusters, st.dictionaries(keys, st.none() | bounds))
def test_what_is_taken_back_is_as_if_it_had_never_been(
    held: dict[QuotaKey, float], after: dict[QuotaKey, float | None]
) -> None:
    cluster = ModelCluster(dict(held))
    alterations = [QuotaAlteration(*key, held.get(key), value) for key, value in after.items()]
    assert run(cluster, alterations) is not None
    assert {key: cluster.held.get(key) for key in after} == after
    assert run(cluster, [a.taken_back() for a in reversed(alterations)]) is not None
    assert cluster.held == held


@given(clusters, wishes)
def test_drift_never_writes(
    held: dict[QuotaKey, float], wanted: dict[QuotaKey, tuple[float | None, float | None]]
) -> None:
    cluster = ModelCluster(dict(held))
    alterations = of_wishes(wanted)
    plan = plan_changes(alterations, held, allow_delete=True)
    has_drifted = any(held.get(k) not in (before, after) for k, (before, after) in wanted.items())
    assert has_drifted == any(change.step == ChangeStep.DRIFT for change in plan)
    results = run(cluster, alterations)
    assert (results is None) == has_drifted
    if has_drifted:
        assert (cluster.writes, cluster.held) == ([], held)
    else:
        assert {r.outcome for r in results or ()} <= set(DONE)


def test_each_change_is_read_back() -> None:
    results = three(ModelCluster())
    assert outcomes(results) == ["applied", "applied", "applied"]
    assert [(r.read_back, r.is_read_back) for r in results.values()] == [(7.0, True)] * 3


def test_a_broker_that_learns_of_a_change_later_is_waited_for() -> None:
    cluster = ModelCluster(lag=3)
    assert outcomes(three(cluster)) == ["applied", "applied", "applied"]


def test_a_failure_half_way_says_what_was_applied_and_stops() -> None:
    cluster = ModelCluster(fails={("bob", None): WRONG_VALUE})
    results = three(cluster)
    assert outcomes(results) == ["applied", "failed", "not_reached"]
    assert results["bob"].message == "Quota must be greater than 0"
    assert results["carol"].message == "not sent: an earlier request failed"
    assert cluster.held == {(TYPE, "alice", None): 7.0}


def test_the_others_of_a_request_with_a_failure_are_applied() -> None:
    cluster = ModelCluster(fails={("bob", None): WRONG_VALUE})
    alterations = [QuotaAlteration(TYPE, user, None, None, 7.0) for user in USERS]
    results = run(cluster, alterations, entities_max=3)
    assert [r.outcome for r in results or ()] == ["applied", "failed", "applied"]


def test_a_lost_answer_to_a_change_that_happened_is_a_change_that_happened() -> None:
    cluster = ModelCluster(fails={("bob", None): LOST}, lost_but_done={("bob", None)})
    results = three(cluster)
    assert outcomes(results) == ["applied", "applied", "not_reached"]
    assert results["bob"].message == "no answer in time; read back all the same"


def test_a_lost_answer_to_a_change_that_is_not_there_is_unknown() -> None:
    results = three(ModelCluster(fails={("bob", None): LOST}))
    assert outcomes(results) == ["applied", "unknown", "not_reached"]
    assert results["bob"].message == "no answer in time; the cluster has none so far"


def test_a_change_that_was_accepted_and_reads_otherwise_differs() -> None:
    results = three(ModelCluster(ignores={("bob", None)}))
    assert outcomes(results) == ["applied", "differs", "applied"]
    assert results["bob"].message == "accepted, and the cluster has none"


def test_what_cannot_be_read_back_is_unknown_and_says_why() -> None:
    results = three(ModelCluster(fails={("carol", None): WRONG_VALUE}, unreadable_after=1))
    assert outcomes(results) == ["unknown", "unknown", "failed"]
    assert results["alice"].message == (
        "accepted by the cluster; it could not be read back: nobody answers"
    )
    assert not any(result.is_read_back for result in results.values())


def test_outcomes_are_those_of_the_table() -> None:
    assert set(CHANGE_OUTCOMES) == set(ChangeOutcome)
