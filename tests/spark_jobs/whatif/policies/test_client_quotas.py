"""Following quota changes one by one gives what the audit finds looking back over the day."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.quota.codes import QuotaType
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.resolve.timeline.intervals import quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from spark_jobs.whatif.policies.change import BrokerStarted, QuotaChanged
from spark_jobs.whatif.policies.client_quotas import ClientQuotas

PRODUCER, REQUEST = str(QuotaType.PRODUCER_BYTE_RATE), str(QuotaType.REQUEST_PERCENTAGE)
ENTITIES = [
    (user, client_id)
    for user in (None, "alice", "<default>")
    for client_id in (None, "svc", "<default>")
    if (user, client_id) != (None, None)
]
RULES = [
    LevelRule(),
    LevelRule(until_restart=False),
    LevelRule.of_broker("2.8.1", uses_zookeeper=True),
]
STEP_MS = 100_000  # further apart than one change told by two sources

change = st.one_of(
    st.tuples(
        st.sampled_from([PRODUCER, PRODUCER, REQUEST]),
        st.sampled_from(ENTITIES),
        st.sampled_from([None, 1.0, 2.0, 3.0]),
        st.sampled_from([None, None, 1, 2]),
    ),
    st.sampled_from([1, 2]),
)


@settings(max_examples=100)
@given(st.lists(change, max_size=12), st.sampled_from(RULES))
def test_after_each_change_the_sensor_and_bound_are_the_timelines(
    changes: list[object], rule: LevelRule
) -> None:
    events, restarts = [], {1: [], 2: []}
    for i, each in enumerate(changes):
        at_ms = STEP_MS * (i + 1)
        if isinstance(each, int):
            restarts[each].append(at_ms)
            continue
        quota_type, entity, bound, broker_id = each
        # A broker's own line tells of one broker; what holds on all is told once for each.
        for broker in (1, 2) if broker_id is None else (broker_id,):
            events.append(
                QuotaEvent(quota_type, *entity, bound, broker, at_ms, at_ms, "server_log")
            )
    rows = quota_intervals(events, [1, 2])
    timeline = QuotaTimeline.of_rows(rows, {1: rule, 2: rule}, restarts)
    quotas = ClientQuotas("test", PRODUCER, rule)
    for i, each in enumerate(changes):
        at_ms = STEP_MS * (i + 1)
        if isinstance(each, int):
            quotas.observe(BrokerStarted(at_ms, each))
        else:
            quota_type, entity, bound, broker_id = each
            quotas.observe(QuotaChanged(at_ms, quota_type, *entity, bound, broker_id))
        for broker in (1, 2):
            for user, client_id in (("alice", "svc"), ("bob", "svc"), ("alice", ""), ("bob", "x")):
                found = quotas.sensor_of(broker, user, client_id)
                expected = next(
                    r
                    for r in timeline.resolve(PRODUCER, user, client_id, broker)
                    if r.valid_from_ms <= at_ms < r.valid_until_ms
                )
                assert (found is not None) == expected.is_enabled
                if found is not None:
                    tags = (expected.quota_user, expected.quota_client_id)
                    assert (found.user, found.client_id) == tags
                    bound = math.nan if expected.bound is None else expected.bound
                    assert found.bound == pytest.approx(bound, abs=0, nan_ok=True)


def test_a_client_without_client_id_has_the_empty_one() -> None:
    quotas = ClientQuotas("test", PRODUCER)
    quotas.observe(QuotaChanged(0, PRODUCER, None, "<default>", 5.0))
    found = quotas.sensor_of(1, "alice", None)
    assert found is not None
    assert (found.user, found.client_id) == ("", "")
    assert math.isnan(found.bound)
