"""The reference and the kernels give what Kafka's own classes give on the JVM, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from spark_jobs.quota.controller_mutation import (
    ControllerMutationQuota,
    MutationDecision,
    mutation_throttle_time_ms,
    remaining_throttle_time_ms,
)
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate, replay_token_bucket
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import (
    RECORD_AND_UNRECORD,
    RECORD_ONLY,
    RateDecision,
    decide,
)
from spark_jobs.quota.rate_profile import RateProfile, profile_of_version
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import UNLIMITED, bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket
from tests.oracle.jvm_quota import (
    Floats,
    Int64s,
    Sequences,
    bits,
    broker_jars,
    client_jars,
    run_oracle,
)
from tests.oracle.random_sequences import random_sequences

pytestmark = pytest.mark.jvm

# The last version of each profile that has one, and the current one.
VERSIONS = ("4.1.0", "3.7.2", "3.2.3")
SEED, SEQUENCES = 20261121, 2_000
MEASURE = 1
STRICT = 1
each_profile = pytest.mark.parametrize("version", VERSIONS)


def test_the_versions_cover_every_profile() -> None:
    assert {profile_of_version(version) for version in VERSIONS} == set(RateProfile)


@each_profile
def test_rate_and_window_size_are_those_of_kafkas_rate(version: str) -> None:
    rows = random_sequences(SEED, SEQUENCES, [0.6, 0.4])
    rates, window_sizes_ms = run_oracle("rate", client_jars(version), rows).reshape(2, -1)
    reference = _rates(profile_of_version(version), rows)
    n, wrong = 0, []
    for i, now_ms in enumerate(rows.now_ms.tolist()):
        rate = reference[rows.sensor[i]]
        if rows.operation[i] != MEASURE:
            rate.record(float(rows.amount[i]), now_ms)
            continue
        n += 1
        measured = int(bits(rate.measure(now_ms))), rate.window_size_ms(now_ms)
        if measured != (rates[i], window_sizes_ms[i]):
            wrong.append((rows.sensor[i], i))
    assert not wrong, f"{len(wrong)} of {n}, (sequence, row) {wrong[:3]}, seed {SEED}"
    assert n > 20_000


@each_profile
def test_tokens_are_those_of_kafkas_token_bucket(version: str) -> None:
    rows = random_sequences(SEED, SEQUENCES, [0.6, 0.4])
    tokens = run_oracle("token_bucket", client_jars(version), rows)
    reference = _buckets(rows)
    n, wrong = 0, []
    for i, now_ms in enumerate(rows.now_ms.tolist()):
        bucket, bound = reference[rows.sensor[i]], bound_in_force(float(rows.bound[i]))
        if rows.operation[i] != MEASURE:
            bucket.record(float(rows.amount[i]), bound, now_ms)
            continue
        n += 1
        if int(bits(bucket.measure(bound, now_ms))) != tokens[i]:
            wrong.append((rows.sensor[i], i))
    assert not wrong, f"{len(wrong)} of {n}, (sequence, row) {wrong[:3]}, seed {SEED}"
    assert n > 20_000


@dataclass(frozen=True, slots=True)
class BrokerDecisions:
    """What Kafka's ``Sensor``, ``Rate`` and ``QuotaUtils`` say of each row, as ``decide`` does."""

    rows: Sequences
    rate_bits: Int64s
    window_size_ms: Int64s
    throttle_time_ms: Int64s


@cache
def broker_decisions(version: str) -> BrokerDecisions:
    rows = random_sequences(SEED + 1, SEQUENCES, [0.5, 0.4, 0.1])
    # Every fourth sensor is capped at one window, as the request quota is.
    throttle_max_ms = np.where(rows.sensor % 4 == 0, rows.window_ms[rows.sensor], NO_THROTTLE_MAX)
    rows = replace(rows, extra=throttle_max_ms)
    return _client_quota(version, rows)


def _client_quota(version: str, rows: Sequences) -> BrokerDecisions:
    answer = run_oracle("client_quota", broker_jars(version), rows).reshape(3, -1)
    return BrokerDecisions(rows, *answer)


@each_profile
def test_decide_is_what_the_broker_decides(version: str) -> None:
    broker = broker_decisions(version)
    decisions = _decide(profile_of_version(version), broker)
    measured = broker.rows.operation != RECORD_ONLY
    assert _differing(broker.rate_bits, bits([d.rate for d in decisions]), measured) == []
    window_size_ms = np.array([d.window_size_ms for d in decisions])
    assert _differing(broker.window_size_ms, window_size_ms, measured) == []
    throttle_time_ms = np.array([d.throttle_time_ms for d in decisions])
    assert _differing(broker.throttle_time_ms, throttle_time_ms, measured) == []
    assert 0.3 < np.mean(throttle_time_ms > 0) < 0.7


@each_profile
def test_the_kernel_is_what_the_broker_decides(version: str) -> None:
    broker = broker_decisions(version)
    replayed = _replay(version, broker, broker.rows.amount)
    measured = broker.rows.operation != RECORD_ONLY
    assert _differing(broker.rate_bits, bits(replayed.rate), measured) == []
    assert _differing(broker.window_size_ms, replayed.window_size_ms, measured) == []
    assert _differing(broker.throttle_time_ms, replayed.throttle_time_ms, measured) == []


@each_profile
def test_the_size_of_a_throttled_fetch_is_recovered_so_that_nothing_after_it_changes(
    version: str,
) -> None:
    rows = broker_decisions(version).rows
    # Fetches return whole bytes, and their throttle has no cap.
    rows = replace(rows, amount=np.round(rows.amount), extra=np.full(len(rows.sensor), -1))
    broker = _client_quota(version, rows)
    is_hidden = (rows.operation == RECORD_AND_UNRECORD) & (broker.throttle_time_ms > 0)
    replayed = _replay(version, broker, np.where(is_hidden, np.nan, rows.amount))
    # A throttle of more than 24.8 days is cut to 32 bits, and then says nothing of the size.
    rate, bound = broker.rate_bits.view(np.float64), _bounds_in_force(rows)
    with np.errstate(invalid="ignore"):
        is_cut = (rate - bound) / bound * broker.window_size_ms >= 2**31
    fits = ~np.isin(rows.sensor, rows.sensor[is_cut])
    measured = fits & (rows.operation != RECORD_ONLY)
    assert _differing(broker.throttle_time_ms, replayed.throttle_time_ms, measured) == []
    unthrottled = measured & ~is_hidden
    assert _differing(broker.rate_bits, bits(replayed.rate), unthrottled) == []
    is_hidden &= fits
    assert np.count_nonzero(is_hidden) > 5_000
    # Known to what one millisecond of throttle is worth.
    tolerance = np.maximum(bound * 1e-3, 1.0)
    assert np.all(np.abs(replayed.amount - rows.amount)[is_hidden] <= tolerance[is_hidden])


@each_profile
def test_mutations_are_admitted_and_throttled_as_by_the_brokers_own_quotas(version: str) -> None:
    rows = random_sequences(SEED + 2, SEQUENCES, [0.4, 0.6])
    waited_ms = np.random.default_rng(SEED).integers(0, 20_000, len(rows.sensor))
    rows = replace(rows, extra=waited_ms)
    before, after, admitted, throttle_time_ms, remaining_ms = run_oracle(
        "mutation_quota", broker_jars(version), rows
    ).reshape(5, -1)
    decisions = _decide_mutations(rows)
    everywhere = np.full(len(rows.sensor), True)
    assert _differing(before, bits([d.tokens_before for d in decisions]), everywhere) == []
    assert _differing(after, bits([d.tokens for d in decisions]), everywhere) == []
    reference_admitted = np.array([d.is_admitted for d in decisions])
    assert _differing(admitted, reference_admitted.astype(np.int64), everywhere) == []
    reference_ms = [d.throttle_time_ms for d in decisions]
    assert _differing(throttle_time_ms, np.array(reference_ms), everywhere) == []
    debts = np.where(rows.operation == STRICT, before, after).view(np.float64).tolist()
    left_ms = [
        remaining_throttle_time_ms(mutation_throttle_time_ms(min(debt, 0.0), bound), 0, waited)
        for debt, bound, waited in zip(
            debts, _bounds_in_force(rows).tolist(), waited_ms.tolist(), strict=True
        )
    ]
    assert _differing(remaining_ms, np.array(left_ms), everywhere) == []

    states = _states(RateProfile.RATE_3_8, rows)
    columns = (rows.sensor, rows.now_ms, rows.amount, rows.bound, rows.operation)
    replayed = replay_token_bucket(*columns, admitted, *states.bucket_arrays())
    assert _differing(before, bits(replayed.tokens_before), everywhere) == []
    assert _differing(after, bits(replayed.tokens), everywhere) == []
    assert _differing(admitted, replayed.admitted.astype(np.int64), everywhere) == []
    assert _differing(throttle_time_ms, replayed.throttle_time_ms, everywhere) == []
    assert 0.1 < np.mean(admitted == 0) < 0.6


def _bounds_in_force(rows: Sequences) -> Floats:
    return np.where(np.isnan(rows.bound), UNLIMITED, rows.bound)


def _rates(profile: RateProfile, rows: Sequences) -> list[Rate]:
    settings = zip(rows.samples.tolist(), rows.window_ms.tolist(), strict=True)
    return [Rate(profile, samples, window_ms) for samples, window_ms in settings]


def _buckets(rows: Sequences) -> list[TokenBucket]:
    settings = zip(rows.samples.tolist(), rows.window_ms.tolist(), strict=True)
    return [TokenBucket(samples, window_ms) for samples, window_ms in settings]


def _states(profile: RateProfile, rows: Sequences) -> SensorStates:
    profiles = [profile] * len(rows.samples)
    return SensorStates.allocate(profiles, rows.samples.tolist(), rows.window_ms.tolist())


def _decide(profile: RateProfile, broker: BrokerDecisions) -> list[RateDecision]:
    rates, rows = _rates(profile, broker.rows), broker.rows
    columns = (rows.sensor, rows.amount, rows.bound, rows.now_ms, rows.operation)
    logged = (broker.throttle_time_ms, rows.extra)
    return [
        decide(rates[s], *row, throttle_max_ms=None if most_ms == NO_THROTTLE_MAX else most_ms)
        for s, *row, most_ms in zip(*(c.tolist() for c in (*columns, *logged)), strict=True)
    ]


def _replay(version: str, broker: BrokerDecisions, amount: Floats) -> RateReplay:
    rows = broker.rows
    return replay_rate(
        *(rows.sensor, rows.now_ms, amount, rows.bound, rows.operation),
        broker.throttle_time_ms,
        rows.extra,
        *_states(profile_of_version(version), rows).rate_arrays(),
    )


def _decide_mutations(rows: Sequences) -> list[MutationDecision]:
    quotas = [ControllerMutationQuota(bucket) for bucket in _buckets(rows)]
    columns = (rows.sensor, rows.amount, rows.bound, rows.now_ms, rows.operation)
    return [
        quotas[s].decide(*row, is_strict=is_strict == STRICT)
        for s, *row, is_strict in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _differing(expected: Int64s, found: Int64s, where: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the first rows that differ: row, Kafka's value, ours."""
    rows = np.flatnonzero((expected != found) & where)[:3]
    return [(int(i), int(expected[i]), int(found[i])) for i in rows]
