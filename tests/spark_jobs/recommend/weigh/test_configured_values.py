from __future__ import annotations

from spark_jobs.recommend.weigh.configured_values import (
    ConfiguredValue,
    ConfiguredValues,
    QuotaEntity,
    end_of_day_ms,
)
from tests.builders.tables_builder import NOON_MS, Row, row

ALICE = QuotaEntity("alice", None)
PRODUCER = "producer_byte_rate"
EVENING_MS = end_of_day_ms(NOON_MS)


def values(*rows: Row) -> ConfiguredValues:
    return ConfiguredValues(rows, EVENING_MS)


def change(bound: float, **columns: object) -> Row:
    return row("quota_changes", bound=bound, **columns)


def test_the_value_at_the_end_of_the_day_counts() -> None:
    morning = change(1.0, valid_until_ms=NOON_MS)
    noon = change(2.0, valid_from_ms=NOON_MS)
    tomorrow = change(3.0, valid_from_ms=EVENING_MS + 1)
    found = values(tomorrow, noon, morning).of(PRODUCER, ALICE, last_seen_bound=9.0)
    assert found == ConfiguredValue(2.0, is_dynamic=True)


def test_a_removed_value_is_none() -> None:
    removed = change(1.0, valid_until_ms=NOON_MS)
    assert values(removed).of(PRODUCER, ALICE, last_seen_bound=9.0) is None


def test_an_entity_the_timeline_never_heard_of_keeps_what_was_last_seen() -> None:
    assert values().of(PRODUCER, ALICE, last_seen_bound=9.0) == ConfiguredValue(9.0, True)


def test_a_value_of_the_properties_file_is_not_set_in_the_cluster() -> None:
    found = values(change(1.0, source="static")).own(PRODUCER, ALICE)
    assert found == ConfiguredValue(1.0, is_dynamic=False)


def test_quota_types_do_not_share_a_value() -> None:
    assert values(change(1.0)).own("consumer_byte_rate", ALICE) is None
