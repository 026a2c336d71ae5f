"""Today's brokers as policies decide what the audit's compiled replay decides, one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_jobs.quota.kernels import replay_rate, replay_token_bucket
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.rate_profile import RateProfile, throttle_max_of_version
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_max
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kip599.kip599_token_bucket import Kip599TokenBucket
from spark_jobs.whatif.policies.mutation_quota import MutationQuota
from spark_jobs.whatif.policies.today.broker_client_quotas import (
    BrokerBandwidth,
    BrokerRequestPercentage,
)
from spark_jobs.whatif.policies.today.broker_controller_mutation import BrokerControllerMutation
from tests.spark_jobs.quota.amounts import (
    AMOUNTS,
    EPOCH_MS,
    PARTITIONS,
    SENSORS,
    MutationRow,
    mutation_rows,
    step,
)
from tests.spark_jobs.whatif.policies.broker_requests import fetch, produce, quota, request
from tests.spark_jobs.whatif.policies.mutation_requests import create, quota_changed

PROFILES = st.sampled_from(list(RateProfile))
SAMPLES = st.sampled_from([1, 2, 3, 11])
WINDOWS_S = st.sampled_from([1, 1, 2])
VERSIONS = st.sampled_from(["4.3.1", "4.4.0"])
BOUNDS = st.sampled_from([0.01, 1.0, 500.0, 500.0, 1e6, math.nan])
# (client, ms since the last one, amount, bound set before it)
ROWS = st.lists(
    st.tuples(st.integers(0, SENSORS - 1), step(1000), AMOUNTS, BOUNDS), min_size=1, max_size=30
)
Row = tuple[int, int, float, float]


def times(rows: list[Row]) -> list[int]:
    return (EPOCH_MS + np.cumsum([row[1] for row in rows], dtype=np.int64)).tolist()


def user(sensor: int) -> str:
    return f"user-{sensor}"


def config(
    profile: RateProfile, samples: int, window_s: int, version: str = "4.4.0"
) -> dict[str, object]:
    """Return a configuration in which every client has the sensor of its user."""
    return {
        "broker.version": version,
        "rate.profile": str(profile),
        "quota.window.num": samples,
        "quota.window.size.seconds": window_s,
    }


def kernel_throttles(
    rows: list[Row],
    behaviour: int,
    logged_ms: list[int],
    throttle_max_ms: int,
    states: SensorStates,
    scale: float = 1.0,
) -> tuple[list[int], list[float]]:
    replayed = replay_rate(
        [row[0] for row in rows],
        times(rows),
        [row[2] * scale for row in rows],
        [row[3] for row in rows],
        np.full(len(rows), behaviour, np.int8),
        logged_ms,
        np.full(len(rows), throttle_max_ms, np.int64),
        *states.rate_arrays(),
    )
    return np.maximum(replayed.throttle_time_ms, 0).tolist(), replayed.rate.tolist()


def states_of(profile: RateProfile, samples: int, window_s: int) -> SensorStates:
    n = SENSORS
    return SensorStates.allocate([profile] * n, [samples] * n, [1000 * window_s] * n)


def set_bound(policy: BrokerBandwidth | BrokerRequestPercentage, kind: str, row: Row) -> None:
    """Set or remove the client's own quota; user-x keeps its level enabled."""
    policy.observe(quota(kind, None if math.isnan(row[3]) else row[3], user=user(row[0])))


def same(decisions: list[Decision], throttles: list[int], rates: list[float]) -> None:
    assert [decision.delay_ms for decision in decisions] == throttles
    np.testing.assert_array_equal([decision.measured for decision in decisions], rates)


@settings(max_examples=50)
@given(rows=ROWS, profile=PROFILES, samples=SAMPLES, window_s=WINDOWS_S, version=VERSIONS)
def test_produces_are_throttled_as_replay_rate_throttles(
    rows: list[Row], profile: RateProfile, samples: int, window_s: int, version: str
) -> None:
    policy = BrokerBandwidth.configured(config(profile, samples, window_s, version))
    policy.observe(quota("producer_byte_rate", 1.0, user="user-x"))
    decisions = []
    for row, at_ms in zip(rows, times(rows), strict=True):
        set_bound(policy, "producer_byte_rate", row)
        decisions.append(policy.decide(produce(row[2], at_ms, user=user(row[0]))))
    states = states_of(profile, samples, window_s)
    same(
        decisions,
        *kernel_throttles(
            rows, RECORD, [0] * len(rows), throttle_max(throttle_max_of_version(version)), states
        ),
    )


@settings(max_examples=50)
@given(rows=ROWS, profile=PROFILES, samples=SAMPLES, window_s=WINDOWS_S, version=VERSIONS)
def test_fetches_are_throttled_and_taken_back_as_replay_rate_does(
    rows: list[Row], profile: RateProfile, samples: int, window_s: int, version: str
) -> None:
    policy = BrokerBandwidth.configured(config(profile, samples, window_s, version))
    policy.observe(quota("consumer_byte_rate", 1.0, user="user-x"))
    decisions = []
    for row, at_ms in zip(rows, times(rows), strict=True):
        set_bound(policy, "consumer_byte_rate", row)
        decisions.append(policy.decide(fetch(row[2], at_ms, user=user(row[0]))))
    logged_ms = [decision.delay_ms for decision in decisions]
    assert [decision.is_taken_back for decision in decisions] == [ms > 0 for ms in logged_ms]
    states = states_of(profile, samples, window_s)
    same(
        decisions,
        *kernel_throttles(
            rows,
            RECORD_AND_UNRECORD,
            logged_ms,
            throttle_max(throttle_max_of_version(version)),
            states,
        ),
    )


@settings(max_examples=50)
@given(rows=ROWS, profile=PROFILES, samples=SAMPLES, window_s=WINDOWS_S)
def test_request_time_is_throttled_as_replay_rate_throttles(
    rows: list[Row], profile: RateProfile, samples: int, window_s: int
) -> None:
    rows = [(s, ms, float(abs(int(min(amount, 1e9)))), bound) for s, ms, amount, bound in rows]
    policy = BrokerRequestPercentage.configured(config(profile, samples, window_s))
    policy.observe(quota("request_percentage", 1.0, user="user-x"))
    decisions = []
    for row, at_ms in zip(rows, times(rows), strict=True):
        set_bound(policy, "request_percentage", row)
        handler_time_us = int(row[2])
        sent = request("METADATA", at_ms=at_ms, user=user(row[0]), handler_time_us=handler_time_us)
        decisions.append(policy.decide(sent))
    # As transforms.amounts has it: microseconds x 1000 x 1e-7.
    percents = [(s, ms, amount * 1000 * 1e-7, bound) for s, ms, amount, bound in rows]
    states = states_of(profile, samples, window_s)
    cap_ms = 1000 * window_s
    same(decisions, *kernel_throttles(percents, RECORD, [0] * len(rows), cap_ms, states))


def replayed(policy: MutationQuota, rows: list[MutationRow]) -> list[Decision]:
    policy.observe(quota_changed(1.0, user="user-x"))
    decisions = []
    for row in rows:
        bound = None if math.isnan(row.bound) else row.bound
        policy.observe(quota_changed(bound, user=user(row.sensor)))
        version = 7 if row.is_strict else 5
        sent = create(row.amount, at_ms=row.now_ms, user=user(row.sensor), api_version=version)
        decisions.append(policy.decide(sent))
    return decisions


@settings(max_examples=50)
@given(
    rows=mutation_rows(st.one_of(PARTITIONS, PARTITIONS, st.just(math.nan))),
    samples=SAMPLES,
    window_s=WINDOWS_S,
)
def test_mutations_are_decided_as_replay_token_bucket_decides(
    rows: list[MutationRow], samples: int, window_s: int
) -> None:
    windows = {
        "controller.quota.window.num": samples,
        "controller.quota.window.size.seconds": window_s,
    }
    decisions = replayed(BrokerControllerMutation.configured(windows), rows)
    n = SENSORS
    states = SensorStates.allocate([RateProfile.RATE_3_8] * n, [samples] * n, [1000 * window_s] * n)
    expected = replay_token_bucket(
        [row.sensor for row in rows],
        [row.now_ms for row in rows],
        [row.amount for row in rows],
        [row.bound for row in rows],
        [row.is_strict for row in rows],
        np.zeros(len(rows)),
        *states.bucket_arrays(),
        follow_logged=False,
    )
    topics = [decision.topics[0] for decision in decisions]
    np.testing.assert_array_equal([t.measured for t in topics], expected.tokens_before)
    np.testing.assert_array_equal([d.measured for d in decisions], expected.tokens)
    np.testing.assert_array_equal([t.refusal is None for t in topics], expected.admitted)
    throttles = np.maximum(expected.throttle_time_ms, 0)
    np.testing.assert_array_equal([d.delay_ms for d in decisions], throttles)
    known = ["state_unknown" not in decision.findings for decision in decisions]
    np.testing.assert_array_equal(known, expected.is_state_known)


@settings(max_examples=50)
@given(rows=mutation_rows(PARTITIONS))
def test_the_documents_token_bucket_is_the_brokers_where_int32_has_room(
    rows: list[MutationRow],
) -> None:
    assume(all(row.bound != 0.0 for row in rows))
    documents = replayed(Kip599TokenBucket.configured({}), rows)
    brokers = replayed(BrokerControllerMutation.configured({}), rows)
    for one, other in zip(documents, brokers, strict=True):
        assert (one.delay_ms, one.held, one.refusal) == (other.delay_ms, other.held, other.refusal)
        assert (one.topics, one.measured) == (other.topics, other.measured)
