"""From a day's tables to its recommendations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from spark_jobs.errors import AuditFailedError
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend import read_traffic as sensors
from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.tables import RECOMMENDATIONS
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, table_of, write_rows
from tests.spark_jobs.recommend.day import fetches, mutations, produces, rates_of, steady

SECONDS = 60


def busy(bound: float, rate: float, **columns: object) -> list[Row]:
    """A minute of a producer that wants ``rate`` and waits while it is muted."""
    return produces(steady(rate, SECONDS), bound, waits=True, **columns)


def change(bound: float, user: str | None, client_id: str | None = None, **columns: object) -> Row:
    entity = {"quota_user": user, "quota_client_id": client_id}
    return row("quota_changes", bound=bound, **entity, **columns)


def recommended(
    decisions: list[Row], changes: list[Row], findings: list[Row] | None = None
) -> list[Row]:
    brokers = table_of("brokers", [row("brokers", broker_id=b) for b in (1, 2)])
    made = table_of("decisions", decisions)
    table = recommend(
        observed(made, rates_of(decisions), brokers),
        made,
        table_of("quota_changes", changes),
        brokers,
        table_of("findings", findings or []),
        RecommendSettings(),
    )
    assert table.schema == RECOMMENDATIONS
    return table.to_pylist()


def test_a_throttled_user_gets_what_it_asked_for_with_the_evidence() -> None:
    decisions = busy(50_000.0, 80_000.0, broker_id=2) + busy(50_000.0, 10_000.0, broker_id=1)
    (found,) = recommended(decisions, [change(50_000.0, "alice")])
    assert (found["status"], found["current"], found["proposed"]) == ("proposed", 5e4, 1e5)
    assert found["hottest_broker_id"] == 2
    before = sum(d["replayed_throttle_time_ms"] for d in decisions)
    assert (found["throttle_time_ms_before"], found["throttle_time_ms_after"]) == (before, 0)
    assert before > 10_000
    evidence = json.loads(found["evidence"])
    assert evidence["requests"] == len(decisions)
    assert evidence["throttled_requests_before"] == sum(
        d["replayed_throttle_time_ms"] > 0 for d in decisions
    )
    assert evidence["throttled_requests_after"] == 0
    hottest = [d for d in decisions if d["broker_id"] == 2]
    assert evidence["peak_rate"] == max(d["rate"] for d in hottest)
    assert evidence["peak_at"].startswith("2026-11-10T12:0")
    assert [b["broker_id"] for b in evidence["brokers"]] == [1, 2]
    assert evidence["brokers"][0]["throttle_time_ms_before"] == 0
    assert found["previous"] == 50_000.0


def test_a_consumer_is_backtested_without_the_repetitions_its_throttles_caused() -> None:
    decisions = fetches(steady(80_000.0, SECONDS, per_second=5), 50_000.0)
    (found,) = recommended(decisions, [change(50_000.0, "alice", quota_type="consumer_byte_rate")])
    assert found["status"] == "proposed"
    assert found["throttle_time_ms_before"] > 1_000
    assert found["throttle_time_ms_after"] == 0


def test_refused_mutations_are_backtested_by_the_token_bucket() -> None:
    decisions = mutations([(i * 1_000, 4.0) for i in range(60)], bound=1.0)
    (found,) = recommended(decisions, [change(1.0, "alice", quota_type="controller_mutation_rate")])
    assert found["status"] == "proposed"
    assert 1.0 < found["proposed"] <= 4.0
    assert found["throttle_time_ms_after"] < found["throttle_time_ms_before"]


def test_a_client_far_below_its_quota_is_halved_and_still_never_throttled() -> None:
    (found,) = recommended(busy(1e6, 10_000.0), [change(1e6, "alice")])
    assert (found["status"], found["proposed"]) == ("proposed", 500_000.0)
    assert (found["throttle_time_ms_before"], found["throttle_time_ms_after"]) == (0, 0)


def test_a_throttled_follower_of_a_default_gets_a_value_of_its_own() -> None:
    follows = {"quota_level": "default-user"}
    decisions = busy(50_000.0, 80_000.0, **follows) + busy(
        50_000.0, 20_000.0, quota_user="bob", user="bob", **follows
    )
    default, override = recommended(decisions, [change(50_000.0, DEFAULT)])
    assert (default["quota_user"], default["status"]) == (DEFAULT, "keep")
    assert "1 of 2" in default["reason"]
    assert (override["quota_user"], override["status"]) == ("alice", "proposed")
    assert override["current"] == 50_000.0
    # It had none: a rollback deletes it.
    assert override["previous"] is None


def test_a_follower_that_only_an_earlier_value_throttled_needs_no_value_of_its_own() -> None:
    strict = busy(50_000.0, 80_000.0, quota_level="client-id", quota_user="", quota_client_id="app")
    last = strict[-1]["recorded_at_ms"]
    strict[-1] |= {"quota_level": "default-client-id", "bound": 200_000.0}
    assert last == max(d["recorded_at_ms"] for d in strict)
    (default,) = recommended(strict, [change(200_000.0, None, DEFAULT)])
    assert (default["quota_client_id"], default["status"]) == (DEFAULT, "keep")
    assert "earlier value only" in default["reason"]


def test_a_default_that_nobody_comes_near_is_lowered_for_all() -> None:
    decisions = [
        d
        for name in ("alice", "bob")
        for d in busy(1e6, 10_000.0, quota_user=name, user=name, quota_level="default-user")
    ]
    (default,) = recommended(decisions, [change(1e6, DEFAULT)])
    assert (default["quota_user"], default["proposed"]) == (DEFAULT, 500_000.0)
    evidence = json.loads(default["evidence"])
    assert (evidence["clients"], default["previous"]) == (2, 1e6)


def test_a_value_that_would_pull_clients_out_of_their_buckets_is_left_to_a_person() -> None:
    decisions = busy(50_000.0, 80_000.0, quota_level="default-user") + busy(
        1e6, 500_000.0, quota_client_id="etl", quota_level="default-user+client-id"
    )
    found = recommended(decisions, [change(50_000.0, DEFAULT), change(1e6, DEFAULT, "etl")])
    (override,) = [f for f in found if f["quota_user"] == "alice"]
    assert override["status"] == "keep"
    assert "by hand" in override["reason"]


def test_a_quota_that_is_not_enforced_is_not_changed() -> None:
    finding = row("findings", kind="not_enforced")
    (found,) = recommended(busy(50_000.0, 80_000.0), [change(50_000.0, "alice")], [finding])
    assert (found["status"], found["confidence"]) == ("keep", "low")
    assert "does not enforce" in found["reason"]


def test_contradicted_decisions_lower_the_confidence() -> None:
    finding = row("findings", kind="over_throttled")
    changes = [change(50_000.0, "alice")]
    (doubted,) = recommended(busy(50_000.0, 80_000.0), changes, [finding])
    (trusted,) = recommended(busy(50_000.0, 80_000.0), changes)
    assert (doubted["status"], doubted["confidence"]) == ("proposed", "low")
    assert trusted["confidence"] == "medium"


def test_an_empty_name_is_never_proposed() -> None:
    decisions = busy(
        50_000.0, 80_000.0, quota_user="", client_id="", quota_level="default-client-id"
    )
    found = recommended(decisions, [change(50_000.0, None, DEFAULT)])
    assert {f["status"] for f in found} == {"keep"}
    (own,) = [f for f in found if f["quota_client_id"] == ""]
    assert "name is empty" in own["reason"]


def test_a_client_that_calls_itself_default_changes_nothing_for_the_others() -> None:
    decisions = busy(
        50_000.0, 80_000.0, quota_user="", quota_client_id=DEFAULT, quota_level="default-client-id"
    )
    (found,) = recommended(decisions, [change(50_000.0, None, DEFAULT)])
    assert (found["status"], found["proposed"]) == ("keep", None)


def test_a_value_of_the_properties_file_is_taken_back_by_deleting() -> None:
    (found,) = recommended(busy(50_000.0, 80_000.0), [change(50_000.0, "alice", source="static")])
    assert found["status"] == "proposed"
    assert found["previous"] is None


def test_the_value_at_the_end_of_the_day_is_the_one_that_changes() -> None:
    later = change(60_000.0, "alice", valid_from_ms=NOON_MS + SECONDS * 1000)
    first = change(50_000.0, "alice", valid_until_ms=NOON_MS + SECONDS * 1000)
    (found,) = recommended(busy(50_000.0, 80_000.0), [first, later])
    assert found["current"] == 60_000.0


def test_a_quota_removed_by_the_end_of_the_day_is_left_out() -> None:
    removed = change(50_000.0, "alice", valid_until_ms=NOON_MS + SECONDS * 1000)
    assert recommended(busy(50_000.0, 80_000.0), [removed]) == []


def test_traffic_without_a_quota_is_left_out() -> None:
    decisions = produces(steady(1_000.0, SECONDS), None, quota_level=None)
    assert recommended(decisions, []) == []


def test_a_day_without_decisions_has_no_recommendations() -> None:
    assert recommended([], []) == []


def test_a_broker_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(AuditFailedError, match="broker 7"):
        recommended(busy(50_000.0, 1_000.0, broker_id=7), [])


@pytest.fixture(scope="module")
def many() -> list[Row]:
    """Five users at several rates, over two brokers."""
    return [
        decision
        for number, name in enumerate(("alice", "bob", "carol", "dave", "erin"))
        for broker_id in (1, 2)
        for decision in produces(
            steady(20_000.0 * (number + 1) / broker_id, 30), 50_000.0, waits=True,
            quota_user=name, user=name, broker_id=broker_id, quota_level="default-user",
        )
    ]  # fmt: skip


def test_the_order_of_rows_does_not_matter(many: list[Row]) -> None:
    changes = [change(50_000.0, DEFAULT)]
    shuffled = random.Random(7).sample(many, len(many))
    assert recommended(shuffled, changes) == recommended(many, changes)


def test_reading_in_portions_gives_the_same(many: list[Row], tmp_path: Path) -> None:
    data = ds.dataset(write_rows(scope_in(tmp_path), "decisions", many))
    found = sensors.bound_sensors(data)
    whole = list(sensors.traffic_of(data, found))
    portions = list(sensors.traffic_of(data, found, rows_max=len(many) // 3))
    assert [t.key for t in portions] == [t.key for t in whole]
    for one, other in zip(portions, whole, strict=True):
        assert (one.amounts.amount == other.amounts.amount).all()
        assert (one.amounts.recorded_at_ms == other.amounts.recorded_at_ms).all()


def test_only_the_sensors_asked_for_are_read(tmp_path: Path) -> None:
    pairs = [("alice", "etl"), ("bob", "app"), ("alice", "app"), ("bob", "etl")]
    decisions = [
        row("decisions", quota_user=u, quota_client_id=c, quota_level="user+client-id")
        for u, c in pairs
    ]
    data = ds.dataset(write_rows(scope_in(tmp_path), "decisions", decisions))
    wanted = [s for s in sensors.bound_sensors(data) if s.key[1:] in pairs[:2]]
    assert [t.key[1:] for t in sensors.traffic_of(data, wanted)] == pairs[:2]


def test_many_amounts_that_the_log_lacks_lower_the_confidence() -> None:
    decisions = busy(50_000.0, 80_000.0)
    for decision in decisions[::10]:
        decision["amount"] = None
    (found,) = recommended(decisions, [change(50_000.0, "alice")])
    assert found["confidence"] == "low"
    assert json.loads(found["evidence"])["unknown_amounts"] == len(decisions[::10])
