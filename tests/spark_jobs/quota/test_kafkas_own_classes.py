"""The reference and the kernels give what Kafka's own classes give on the JVM, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
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
from spark_jobs.quota.throttle_time import UNLIMITED
from spark_jobs.quota.token_bucket import TokenBucket
from tests.oracle.jvm_quota import (
    Floats,
    Int64s,
    Sequences,
    bits,
    broker_jars,
    run_oracle,
)
from tests.oracle.random_sequences import random_sequences

pytestmark = pytest.mark.jvm

# The last version of each profile that has one, and the current one.
VERSIONS = ("4.4.0", "3.7.2", "3.2.3")
# In each of four sets.
SEED, SEQUENCES = 20261121, 1_000
MEASURE = 1
STRICT = 1
each_profile = pytest.mark.parametrize("version", VERSIONS)


def test_the_versions_cover_every_profile() -> None:
    assert {profile_of_version(version) for version in VERSIONS} == set(RateProfile)


@dataclass(frozen=True, slots=True)
class BrokerDecisions:
    """What Kafka's ``Sensor``, ``Rate`` and ``QuotaUtils`` say of each row, as ``decide`` does."""

    rows: Sequences
    rate_bits: Int64s
    window_size_ms: Int64s
    throttle_time_ms: Int64s


@dataclass(frozen=True, slots=True)
class Oracle:
    """What the classes of one Kafka version say, all from one start of the JVM."""

    profile: RateProfile
    measured_rates: Int64s  # [2, N] of record_and_measure_rows()
    measured_tokens: Int64s  # [N] of record_and_measure_rows()
    decisions: BrokerDecisions
    fetches: BrokerDecisions
    mutations: Int64s  # [5, N] of mutation_rows()


@cache
def record_and_measure_rows() -> Sequences:
    return random_sequences(SEED, SEQUENCES, [0.6, 0.4])


@cache
def decision_rows() -> Sequences:
    rows = random_sequences(SEED + 1, SEQUENCES, [0.5, 0.4, 0.1])
    # Every fourth sensor is capped at one window, as the request quota is.
    throttle_max_ms = np.where(rows.sensor % 4 == 0, rows.window_ms[rows.sensor], NO_THROTTLE_MAX)
    return replace(rows, extra=throttle_max_ms)


@cache
def fetch_rows() -> Sequences:
    rows = random_sequences(SEED + 2, SEQUENCES, [0.3, 0.7])
    return replace(rows, amount=np.round(rows.amount))


@cache
def mutation_rows() -> Sequences:
    rows = random_sequences(SEED + 3, SEQUENCES, [0.4, 0.6])
    waited_ms = np.random.default_rng(SEED).integers(0, 20_000, len(rows.sensor))
    return replace(rows, extra=waited_ms)


@cache
def oracle(version: str) -> Oracle:
    rates, tokens, decisions, fetches, mutations = run_oracle(
        broker_jars(version),
        ("rate", record_and_measure_rows()),
        ("token_bucket", record_and_measure_rows()),
        ("client_quota", decision_rows()),
        ("client_quota", fetch_rows()),
        ("mutation_quota", mutation_rows()),
    )
    return Oracle(
        profile_of_version(version),
        rates.reshape(2, -1),
        tokens,
        BrokerDecisions(decision_rows(), *decisions.reshape(3, -1)),
        BrokerDecisions(fetch_rows(), *fetches.reshape(3, -1)),
        mutations.reshape(5, -1),
    )


@each_profile
def test_rate_and_window_size_are_those_of_kafkas_rate(version: str) -> None:
    rows = record_and_measure_rows()
    expected_bits, expected_window_sizes_ms = oracle(version).measured_rates
    rates = _rates(oracle(version).profile, rows)
    found, window_sizes_ms = np.zeros(len(rows.sensor)), np.zeros(len(rows.sensor), np.int64)
    for i, (s, now_ms) in enumerate(zip(rows.sensor.tolist(), rows.now_ms.tolist(), strict=True)):
        if rows.operation[i] == MEASURE:
            found[i], window_sizes_ms[i] = rates[s].measure(now_ms), rates[s].window_size_ms(now_ms)
        else:
            rates[s].record(float(rows.amount[i]), now_ms)
    assert _differing(expected_bits, bits(found)) == []
    assert _differing(expected_window_sizes_ms, window_sizes_ms) == []
    assert np.count_nonzero(found) > 10_000


@each_profile
def test_tokens_are_those_of_kafkas_token_bucket(version: str) -> None:
    rows = record_and_measure_rows()
    buckets, bounds = _buckets(rows), _bounds_in_force(rows).tolist()
    found = np.zeros(len(rows.sensor))
    for i, (s, now_ms) in enumerate(zip(rows.sensor.tolist(), rows.now_ms.tolist(), strict=True)):
        if rows.operation[i] == MEASURE:
            found[i] = buckets[s].measure(bounds[i], now_ms)
        else:
            buckets[s].record(float(rows.amount[i]), bounds[i], now_ms)
    assert _differing(oracle(version).measured_tokens, bits(found)) == []
    assert np.count_nonzero(found) > 10_000


@each_profile
def test_decide_is_what_the_broker_decides(version: str) -> None:
    broker = oracle(version).decisions
    decisions = _decide(oracle(version).profile, broker)
    measured = broker.rows.operation != RECORD_ONLY
    assert _differing(broker.rate_bits, bits([d.rate for d in decisions]), measured) == []
    window_size_ms = np.array([d.window_size_ms for d in decisions])
    assert _differing(broker.window_size_ms, window_size_ms, measured) == []
    throttle_time_ms = np.array([d.throttle_time_ms for d in decisions])
    assert _differing(broker.throttle_time_ms, throttle_time_ms) == []
    assert 0.3 < np.mean(throttle_time_ms > 0) < 0.7


@each_profile
def test_the_kernel_is_what_the_broker_decides(version: str) -> None:
    broker = oracle(version).decisions
    replayed = _replay(oracle(version).profile, broker, broker.rows.amount)
    measured = broker.rows.operation != RECORD_ONLY
    assert _differing(broker.rate_bits, bits(replayed.rate), measured) == []
    assert _differing(broker.window_size_ms, replayed.window_size_ms, measured) == []
    assert _differing(broker.throttle_time_ms, replayed.throttle_time_ms) == []


@each_profile
def test_no_other_profile_is_what_the_broker_decides(version: str) -> None:
    broker = oracle(version).decisions
    measured = broker.rows.operation != RECORD_ONLY
    for profile in set(RateProfile) - {oracle(version).profile}:
        replayed = _replay(profile, broker, broker.rows.amount)
        assert np.mean((broker.rate_bits != bits(replayed.rate))[measured]) > 0.01, profile


@each_profile
def test_the_size_of_a_throttled_fetch_is_recovered_so_that_nothing_after_it_changes(
    version: str,
) -> None:
    broker = oracle(version).fetches
    rows, bound = broker.rows, _bounds_in_force(broker.rows)
    is_hidden = (rows.operation == RECORD_AND_UNRECORD) & (broker.throttle_time_ms > 0)
    amount = np.where(is_hidden, np.nan, rows.amount)
    replayed = _replay(oracle(version).profile, broker, amount)
    # A throttle of more than 24.8 days is cut to 32 bits, and then says nothing of the size.
    with np.errstate(invalid="ignore"):
        excess = (broker.rate_bits.view(np.float64) - bound) / bound
        is_cut = excess * broker.window_size_ms >= 2**31
    fits = ~np.isin(rows.sensor, rows.sensor[is_cut])
    assert _differing(broker.throttle_time_ms, replayed.throttle_time_ms, fits) == []
    assert _differing(broker.rate_bits, bits(replayed.rate), fits & ~is_hidden) == []
    is_recovered = fits & is_hidden
    assert np.count_nonzero(is_recovered) > 3_000
    # Known to what one millisecond of throttle is worth.
    error = np.abs(replayed.amount - rows.amount)
    assert np.all(error[is_recovered] <= np.maximum(bound * 1e-3, 1.0)[is_recovered])


@each_profile
def test_mutations_are_admitted_and_throttled_as_by_the_brokers_own_quotas(version: str) -> None:
    rows = mutation_rows()
    before, after, admitted, throttle_time_ms, remaining_ms = oracle(version).mutations
    decisions = _decide_mutations(rows)
    assert _differing(before, bits([d.tokens_before for d in decisions])) == []
    assert _differing(after, bits([d.tokens for d in decisions])) == []
    assert _differing(admitted, np.array([int(d.is_admitted) for d in decisions])) == []
    # A negative one is none: since 4.2 it is held at zero, before that the response does it.
    found_ms = np.array([d.throttle_time_ms for d in decisions])
    assert _differing(throttle_time_ms.clip(min=0), found_ms) == []
    assert 0.1 < np.mean(admitted == 0) < 0.6

    debts = np.where(rows.operation == STRICT, before, after).view(np.float64)
    columns = (debts.clip(max=0.0), _bounds_in_force(rows), rows.extra)
    left_ms = [
        remaining_throttle_time_ms(mutation_throttle_time_ms(debt, bound), 0, waited)
        for debt, bound, waited in zip(*(c.tolist() for c in columns), strict=True)
    ]
    assert _differing(remaining_ms.clip(min=0), np.array(left_ms)) == []


@each_profile
def test_the_kernel_spends_as_the_brokers_own_quotas_do(version: str) -> None:
    rows = mutation_rows()
    before, after, admitted, throttle_time_ms, _ = oracle(version).mutations
    states = _states(RateProfile.RATE_3_8, rows)
    columns = (rows.sensor, rows.now_ms, rows.amount, rows.bound, rows.operation)
    replayed = replay_token_bucket(*columns, admitted, *states.bucket_arrays())
    assert _differing(before, bits(replayed.tokens_before)) == []
    assert _differing(after, bits(replayed.tokens)) == []
    assert _differing(admitted, replayed.admitted.astype(np.int64)) == []
    assert _differing(throttle_time_ms.clip(min=0), replayed.throttle_time_ms) == []


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


def _replay(profile: RateProfile, broker: BrokerDecisions, amount: Floats) -> RateReplay:
    rows = broker.rows
    return replay_rate(
        *(rows.sensor, rows.now_ms, amount, rows.bound, rows.operation),
        broker.throttle_time_ms,
        rows.extra,
        *_states(profile, rows).rate_arrays(),
    )


def _decide_mutations(rows: Sequences) -> list[MutationDecision]:
    quotas = [ControllerMutationQuota(bucket) for bucket in _buckets(rows)]
    columns = (rows.sensor, rows.amount, rows.bound, rows.now_ms, rows.operation)
    return [
        quotas[s].decide(*row, is_strict=is_strict == STRICT)
        for s, *row, is_strict in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _differing(
    expected: Int64s, found: Int64s, where: npt.NDArray[np.bool_] | None = None
) -> list[tuple[int, int, int]]:
    """Return the first rows that differ: row, Kafka's value, ours."""
    differs = expected != found
    rows = np.flatnonzero(differs if where is None else differs & where)[:3]
    return [(int(i), int(expected[i]), int(found[i])) for i in rows]
