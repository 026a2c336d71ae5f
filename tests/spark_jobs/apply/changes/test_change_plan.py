from __future__ import annotations

import pytest

from spark_jobs.apply.changes.change_plan import (
    ChangeStep,
    PlannedChange,
    plan_changes,
    refusal,
    requests_of,
    validated,
)
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.errors import BadInputError
from tests.spark_jobs.apply.changes.model_cluster import ModelCluster

TYPE = "producer_byte_rate"


def alteration(
    before: float | None = 10.0, after: float | None = 20.0, user: str = "alice"
) -> QuotaAlteration:
    return QuotaAlteration(TYPE, user, None, before, after)


def planned(
    one: QuotaAlteration, found: float | None, *, allow_delete: bool = False
) -> PlannedChange:
    values = {} if found is None else {one.key: found}
    (change,) = plan_changes([one], values, allow_delete=allow_delete)
    return change


@pytest.mark.parametrize(
    ("before", "after", "found", "step"),
    [
        (10.0, 20.0, 10.0, ChangeStep.APPLY),
        (None, 20.0, None, ChangeStep.APPLY),
        (10.0, 20.0, 20.0, ChangeStep.ALREADY_SO),
        (10.0, None, None, ChangeStep.ALREADY_SO),
        (10.0, 10.0, 10.0, ChangeStep.ALREADY_SO),
        (10.0, 20.0, 15.0, ChangeStep.DRIFT),
        (10.0, 20.0, None, ChangeStep.DRIFT),
        (None, 20.0, 15.0, ChangeStep.DRIFT),
        (10.0, 10.0, 11.0, ChangeStep.DRIFT),
        (10.0, None, 10.0, ChangeStep.DELETE_NOT_ALLOWED),
        (10.0, None, 11.0, ChangeStep.DRIFT),
    ],
)
def test_the_value_that_the_cluster_has_decides(
    before: float | None, after: float | None, found: float | None, step: ChangeStep
) -> None:
    assert planned(alteration(before, after), found).step == step


def test_a_deletion_that_is_allowed_is_made() -> None:
    assert planned(alteration(10.0, None), 10.0, allow_delete=True).step == ChangeStep.APPLY


def test_drift_says_what_was_found_and_what_was_expected() -> None:
    reason = refusal([planned(alteration(10.0), 12.5)])
    assert reason is not None
    assert "users/alice:producer_byte_rate: the cluster has 12.5, and 10 was expected" in reason


def test_one_change_that_cannot_be_made_refuses_them_all() -> None:
    plan = [planned(alteration(), 10.0), planned(alteration(user="bob"), 11.0)]
    reason = refusal(plan)
    assert reason is not None
    assert reason.startswith("Nothing was changed: 1 of 2 changes cannot be made.")
    assert "users/alice" not in reason


def test_a_cause_that_changes_have_in_common_is_said_once() -> None:
    plan = [planned(alteration(user=user), 11.0) for user in ("alice", "bob")]
    reason = refusal(plan)
    assert reason is not None
    assert "\n- users/alice:producer_byte_rate, users/bob:producer_byte_rate: the clu" in reason
    assert reason.count("the cluster has 11") == 1


def test_a_plan_of_sound_changes_is_not_refused() -> None:
    assert refusal([planned(alteration(), 10.0), planned(alteration(user="bob"), 20.0)]) is None


def test_one_value_cannot_be_changed_twice() -> None:
    with pytest.raises(BadInputError, match=r"users/alice:producer_byte_rate .* 2 times at once"):
        plan_changes([alteration(), alteration(after=30.0)], {}, allow_delete=False)


def test_what_the_cluster_itself_rejects_is_found_before_anything_is_changed() -> None:
    one = alteration(10.0, -5.0)
    cluster = ModelCluster({one.key: 10.0})
    (change,) = validated([planned(one, 10.0)], cluster)
    assert (change.step, change.message) == (ChangeStep.REJECTED, "Quota must be greater than 0")
    assert cluster.writes == []


def test_only_what_is_to_be_applied_is_sent() -> None:
    plan = [planned(alteration(), 20.0), planned(alteration(user="bob"), 10.0)]
    assert [[c.alteration.user for c in batch] for batch in requests_of(plan)] == [["bob"]]


def test_an_entity_is_never_divided_between_requests() -> None:
    both = [
        QuotaAlteration(quota_type, user, None, None, 1.0)
        for quota_type in (TYPE, "consumer_byte_rate")
        for user in ("alice", "bob", "carol")
    ]
    plan = plan_changes(both, {}, allow_delete=False)
    batches = requests_of(plan, entities_max=2)
    assert [[c.alteration.user for c in batch] for batch in batches] == [
        ["alice", "alice", "bob", "bob"],
        ["carol", "carol"],
    ]
