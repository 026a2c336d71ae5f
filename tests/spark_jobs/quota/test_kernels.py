"""The compiled loops give what the plain-Python rules give, bit for bit, a day at a time or not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.kernels import (
    CHARGES_MISSING,
    NO_THROTTLE_MAX,
    OTHER_BUCKET,
    OTHER_SENSOR,
    SAME_BUCKET,
    RateReplay,
    TokenBucketReplay,
    replay_rate,
    replay_token_bucket,
)
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.token_bucket import TokenBucket
from tests.oracle.jvm_quota import bits
from tests.spark_jobs.quota.amounts import (
    AMOUNTS,
    PARTITIONS,
    RATE_COLUMNS,
    SENSORS,
    MutationRow,
    RateRow,
    Settings,
    columns,
    mutation_rows,
    rate_rows,
    settings,
)

MUTATION_COLUMNS = ("sensor", "now_ms", "amount", "bound", "is_strict", "was_admitted")
UNKNOWN = st.just(float("nan"))


def replayed_rates(rows: list[RateRow], states: SensorStates) -> RateReplay:
    return replay_rate(*columns(rows, RATE_COLUMNS), *states.rate_arrays())


def replayed_tokens(
    rows: list[MutationRow], states: SensorStates, follow_logged: bool = True
) -> TokenBucketReplay:
    arguments = columns(rows, MUTATION_COLUMNS)
    return replay_token_bucket(*arguments, *states.bucket_arrays(), follow_logged)


def as_lists(replay: RateReplay | TokenBucketReplay) -> list[list[int]]:
    """Return each column's values, floats as their bits, so that == is bit-equality."""
    return [(bits(c) if c.dtype.kind == "f" else c).tolist() for c in replay]


def handed_on(states: SensorStates, settings: Settings) -> SensorStates:
    """Return the states as the next day gets them: exported, and restored in another order."""
    backwards = Settings(*(getattr(settings, f)[::-1] for f in Settings.__slots__)).states()
    for sensor in range(SENSORS):
        backwards.restore(SENSORS - 1 - sensor, *states.export(sensor))
    restored = settings.states()
    for sensor in range(SENSORS):
        restored.restore(sensor, *backwards.export(SENSORS - 1 - sensor))
    return restored


@given(settings=settings(), rows=rate_rows())
def test_replay_rate_is_decide_row_after_row(settings: Settings, rows: list[RateRow]) -> None:
    configured = zip(settings.profiles, settings.samples, settings.window_ms, strict=True)
    rates = [Rate(*sensor) for sensor in configured]
    decisions = [
        decide(
            rates[row.sensor],
            row.amount,
            row.bound,
            row.now_ms,
            row.behaviour,
            row.logged_throttle_time_ms,
            None if row.throttle_max_ms == NO_THROTTLE_MAX else row.throttle_max_ms,
        )
        for row in rows
    ]
    states = settings.states()
    replayed = as_lists(replayed_rates(rows, states))
    for name, found in zip(RateReplay._fields, replayed, strict=True):
        expected = [getattr(decision, name) for decision in decisions]
        is_float = name in ("amount", "rate", "oldest_value")
        assert found == (bits(expected).tolist() if is_float else expected), name
    for sensor, rate in enumerate(rates):
        slots = [(s.start_ms, s.last_event_ms, s.value) for s in rate.slots]
        assert states.export(sensor)[:2] == (rate.index, slots)


@given(
    settings=settings(),
    rows=mutation_rows(st.one_of(PARTITIONS, AMOUNTS, UNKNOWN)),
    follow_logged=st.booleans(),
)
def test_replay_token_bucket_is_decide_row_after_row(
    settings: Settings, rows: list[MutationRow], follow_logged: bool
) -> None:
    configured = zip(settings.samples, settings.window_ms, strict=True)
    quotas = [ControllerMutationQuota(TokenBucket(*sensor)) for sensor in configured]
    decisions = [
        quotas[row.sensor].decide(
            row.amount,
            row.bound,
            row.now_ms,
            is_strict=row.is_strict,
            was_admitted=row.was_admitted if follow_logged else None,
        )
        for row in rows
    ]
    states = settings.states()
    replayed = as_lists(replayed_tokens(rows, states, follow_logged))
    fields = ("tokens_before", "tokens", "is_admitted", "throttle_time_ms", "is_state_known")
    for name, found in zip(fields, replayed, strict=True):
        expected = [getattr(decision, name) for decision in decisions]
        assert found == (bits(expected).tolist() if name.startswith("tokens") else expected), name
    assert states.tokens.tolist() == [quota.most.tokens for quota in quotas]
    assert states.tokens_least.tolist() == [quota.least.tokens for quota in quotas]


@given(settings=settings(), rows=rate_rows(), data=st.data())
def test_a_rate_replayed_in_two_days_is_the_rate_replayed_in_one(
    settings: Settings, rows: list[RateRow], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    whole = settings.states()
    expected = as_lists(replayed_rates(rows, whole))
    first = settings.states()
    yesterday = as_lists(replayed_rates(rows[:cut], first))
    second = handed_on(first, settings)
    today = as_lists(replayed_rates(rows[cut:], second))
    assert [a + b for a, b in zip(yesterday, today, strict=True)] == expected
    assert [second.export(s) for s in range(SENSORS)] == [whole.export(s) for s in range(SENSORS)]


@given(settings=settings(), rows=mutation_rows(PARTITIONS), data=st.data())
def test_tokens_replayed_in_two_days_are_the_tokens_replayed_in_one(
    settings: Settings, rows: list[MutationRow], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    whole = settings.states()
    expected = as_lists(replayed_tokens(rows, whole))
    first = settings.states()
    yesterday = as_lists(replayed_tokens(rows[:cut], first))
    second = handed_on(first, settings)
    today = as_lists(replayed_tokens(rows[cut:], second))
    assert [a + b for a, b in zip(yesterday, today, strict=True)] == expected
    assert [second.export(s) for s in range(SENSORS)] == [whole.export(s) for s in range(SENSORS)]


@given(settings=settings(), rows=mutation_rows(PARTITIONS), data=st.data())
def test_what_is_known_with_amounts_missing_is_what_the_broker_did(
    settings: Settings, rows: list[MutationRow], data: st.DataObject
) -> None:
    broker = replayed_tokens(rows, settings.states(), follow_logged=False)
    logged = [
        MutationRow(
            row.sensor,
            row.now_ms,
            float("nan") if data.draw(st.booleans()) else row.amount,
            row.bound,
            row.is_strict,
            bool(admitted),
        )
        for row, admitted in zip(rows, broker.admitted, strict=True)
    ]
    cut = data.draw(st.integers(0, len(rows)))
    states = settings.states()
    first = replayed_tokens(logged[:cut], states)
    restored = settings.states()
    for sensor in range(SENSORS):
        restored.restore(sensor, *states.export(sensor))
    second = replayed_tokens(logged[cut:], restored)
    for part, offset in ((first, 0), (second, cut)):
        for i, is_known in enumerate(part.is_state_known):
            assert part.tokens_before[i] >= broker.tokens_before[offset + i]
            if is_known:
                assert part.admitted[i] == broker.admitted[offset + i]


def gapped(
    *rows: tuple[int, float, bool, int],
    slack: float = 0.0,
    told: list[tuple[float, float]] | None = None,
) -> TokenBucketReplay:
    """Replay strict mutations (at ms, partitions, admitted, gap) at 1 partition/s from full.

    ``told`` are the least and most tokens that the throttle of each tells of.
    """
    at_ms, amount, admitted, gap = (np.array(column) for column in zip(*rows, strict=True))
    states = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
    n = len(rows)
    return replay_token_bucket(
        np.zeros(n), 1_700_000_000_000 + at_ms, amount, np.ones(n), np.ones(n), admitted,
        *states.bucket_arrays(), doubt_tokens=np.full(n, 0.005), bucket_gap=gap,
        slack_tokens=np.full(n, slack),
        told_tokens=None if told is None else tuple(np.array(told).T),
    )  # fmt: skip


def test_a_bucket_that_may_have_been_charged_elsewhere_has_no_more_tokens_than_logged() -> None:
    refused = gapped((0, 2.0, True, SAME_BUCKET), (10, 2.0, False, CHARGES_MISSING))
    assert refused.is_state_known.tolist() == [True, False]
    too_many = gapped((0, 20.0, True, SAME_BUCKET), (10, 2.0, True, CHARGES_MISSING))
    assert too_many.is_state_known.tolist() == [True, True]
    assert too_many.admitted.tolist() == [True, False]


def test_of_another_bucket_nothing_is_known() -> None:
    rows = [(0, 20.0, True, OTHER_BUCKET), (10, 2.0, False, OTHER_BUCKET)]
    assert gapped(*rows).is_state_known.tolist() == [False, False]


def test_what_another_sensor_recorded_leaves_the_bucket_as_it_is() -> None:
    beside = (10, 30.0, True, OTHER_SENSOR)
    rows = [(0, 10.0, True, SAME_BUCKET), (20, 3.0, True, SAME_BUCKET)]
    alone, with_it = gapped(*rows), gapped(rows[0], beside, rows[1])
    assert with_it.tokens[[0, 2]].tolist() == alone.tokens.tolist()
    assert with_it.is_state_known.tolist() == [True, False, True]
    assert (with_it.admitted[1], with_it.throttle_time_ms[1]) == (True, 0)


def test_what_an_unknown_bucket_learns_is_as_sure_as_the_record_time() -> None:
    learning = (0, 2.0, False, CHARGES_MISSING)
    soon = [(30, 2.0, True, SAME_BUCKET), (40, 2.0, True, SAME_BUCKET)]
    assert gapped(learning, *soon, slack=0.05).is_state_known.tolist() == [False, False, True]
    early = gapped(learning, (-30, 2.0, True, SAME_BUCKET))
    assert early.is_state_known.tolist() == [False, True]
    assert not gapped(learning, (-30, 2.0, True, SAME_BUCKET), slack=0.05).is_state_known.any()


def test_an_admission_against_what_was_only_learned_leaves_open_whether_it_was_spent() -> None:
    learned = (0, 2.0, False, CHARGES_MISSING)
    rows = [learned, (-100, 2.0, True, SAME_BUCKET), (2000, 1.0, False, SAME_BUCKET)]
    assert gapped(*rows).is_state_known.tolist() == [False, True, False]


def test_an_unknown_bucket_learns_its_debt_from_the_throttle_of_a_refusal() -> None:
    nothing = np.nan, np.nan
    rows = [(0, 2.0, False, CHARGES_MISSING), (1000, 1.0, True, SAME_BUCKET)]
    later = (2000, 1.0, True, SAME_BUCKET)
    told = [(-1.5, -1.2), nothing, nothing]
    found = gapped(*rows, later, told=told)
    # In debt at 1,000 ms, for 200 ms at least. That it was admitted is wrong, and may be spent.
    assert found.admitted.tolist() == [True, False, True]
    assert found.is_state_known.tolist() == [False, True, False]
    assert gapped(*rows, later).is_state_known.tolist() == [False, False, True]


def test_a_bucket_that_is_known_does_not_learn_from_throttles() -> None:
    rows = [(0, 12.0, True, SAME_BUCKET), (10, 1.0, False, SAME_BUCKET)]
    known, told = gapped(*rows), gapped(*rows, told=[(np.nan, np.nan), (-9.0, -8.0)])
    assert known.tokens.tolist() == told.tokens.tolist()
