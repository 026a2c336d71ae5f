"""What a sensor of a broker must have measured at any moment, from the amounts of its log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.java_math import java_divide
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate import Rate, Sample
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, RECORD_ONLY
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import Bools, Floats, Int64s, SampleValues, SensorStates


@dataclass(frozen=True, slots=True)
class SampleRule:
    """How a sensor keeps samples: so many, each of ``window_ms``."""

    profile: RateProfile
    samples: int
    window_ms: int

    @property
    def remembers_ms(self) -> int:
        """Return the longest time (ms) for which an amount counts."""
        return (self.samples + 1) * self.window_ms


class CarriedSamples(NamedTuple):
    """A sensor at the end of the day before: current slot and samples, in slot order."""

    slot: int
    samples: list[SampleValues]


@dataclass(frozen=True, slots=True)
class SensorAmounts:
    """The amounts of one sensor in the order of recording, and how it counts them.

    ``carried`` is None where the sensor begins with nothing; ``epoch`` is that of each amount.
    """

    rule: SampleRule
    at_ms: Int64s
    amount: Floats
    bound: Floats
    is_unrecorded: Bools
    throttle_ms: Int64s
    epoch: Int64s
    carried: CarriedSamples | None = None

    def with_rule(self, rule: SampleRule) -> SensorAmounts:
        """Return the same amounts counted otherwise, beginning with nothing."""
        return replace(self, rule=rule, carried=None)


class Measured(NamedTuple):
    """What is measured at moments: the sum of the samples and the rate per second."""

    total: Floats
    rate: Floats


def measured_at(
    history: SensorAmounts, at_ms: Int64s, read_ms: Int64s, *, is_checked: bool = True
) -> Measured:
    """Return the values that a reader finds at ``at_ms`` (ascending), NaN before the first amount.

    At ``read_ms`` somebody reads too, which moves the start of empty samples. ``is_checked``: the
    broker measures after each amount, as where a quota is checked.

    Source: Kafka's ``KafkaMetric.measurableValue``, ``Rate.measure``, which purges.
    """
    rule = history.rule
    states = SensorStates.allocate([rule.profile], [rule.samples], [rule.window_ms])
    if history.carried is not None:
        states.restore(0, history.carried.slot, history.carried.samples)
    moments = np.concatenate([at_ms, read_ms])
    is_read = np.concatenate([np.zeros(len(at_ms), bool), np.ones(len(read_ms), bool)])
    order = np.lexsort((is_read, moments))
    seen = np.searchsorted(np.maximum.accumulate(history.at_ms), moments, side="right")
    begins = np.flatnonzero(np.diff(history.epoch)) + 1
    total, rate = np.full(len(at_ms), np.nan), np.full(len(at_ms), np.nan)
    done = 0
    for place in order:
        done = _recorded(history, states, done, int(seen[place]), begins, is_checked)
        if not states.count[0]:
            continue
        found = _rate(rule, states)
        now_ms = int(moments[place])
        held = found.total(now_ms)
        if is_read[place]:
            slots = [(s.start_ms, s.last_event_ms, s.value) for s in found.slots]
            states.restore(0, found.index, slots)
        else:
            total[place] = held
            rate[place] = java_divide(held, found.window_size_ms(now_ms) / 1000.0)
    return Measured(total, rate)


def _rate(rule: SampleRule, states: SensorStates) -> Rate:
    index, held, _ = states.export(0)
    return Rate(rule.profile, rule.samples, rule.window_ms, index, [Sample(*s) for s in held])


def _recorded(
    history: SensorAmounts,
    states: SensorStates,
    done: int,
    until: int,
    begins: npt.NDArray[np.intp],
    is_checked: bool,
) -> int:
    """Record the rows up to ``until`` on the sensor, which begins anew where its epoch does."""
    while done < until:
        if done in begins:
            states.forget(0)
        place = np.searchsorted(begins, done, side="right")
        end = min(until, int(begins[place])) if place < len(begins) else until
        rows = slice(done, end)
        behaviour = np.where(history.is_unrecorded[rows], RECORD_AND_UNRECORD, RECORD)
        replay_rate(
            np.zeros(end - done, np.int64),
            history.at_ms[rows],
            history.amount[rows],
            history.bound[rows],
            (behaviour if is_checked else np.full(end - done, RECORD_ONLY)).astype(np.int8),
            history.throttle_ms[rows],
            np.full(end - done, NO_THROTTLE_MAX, np.int64),
            *states.rate_arrays(),
        )
        done = end
    return done
