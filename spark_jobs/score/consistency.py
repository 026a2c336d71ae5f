"""Whether stored throttles follow from stored inputs: every sensor simulated once more.

With record times that nothing else checks, a replay could explain any log. Here each produce
sensor's amounts are recorded again, in ``sensor_seq`` order at ``recorded_at_ms``, on the
plain-Python rate that is proven against Kafka's ``Rate``; the throttle must come out as stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.quota.rate import Rate, Sample
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState


@dataclass(frozen=True, slots=True)
class Consistency:
    """How many throttles were simulated again, and how many of them came out as stored."""

    checked: int
    equal: int


def check_consistency(
    rows: Iterable[Mapping[str, Any]],
    rules: Mapping[int, BrokerRules],
    before: Mapping[SensorKey, CarriedState],
) -> Consistency:
    """Return counts of bound produce throttles: checked, and following from the rows' own inputs.

    ``rules`` is by broker id; ``before`` holds the sensors that were known when the rows begin. A
    sensor is not checked any further once an amount is not known.
    """
    sensors: dict[tuple[SensorKey, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["quota_type"] == "producer_byte_rate":
            sensors[SensorKey.of(row), row["sensor_epoch"]].append(row)
    checked = equal = 0
    for (key, epoch), of_sensor in sensors.items():
        rule = rules[key[0]]
        rate = _rate(rule, before.get(key), epoch)
        of_sensor.sort(key=lambda row: int(row["sensor_seq"]))
        found = _check_sensor(of_sensor, rate, rule.throttle_max_ms)
        checked += found.checked
        equal += found.equal
    return Consistency(checked, equal)


def _rate(rule: BrokerRules, state: CarriedState | None, epoch: int) -> Rate:
    if state is None or state.sensor_epoch != epoch:
        return Rate(rule.profile, rule.samples, rule.window_ms)
    slots = [Sample(*sample) for sample in state.samples]
    return Rate(rule.profile, rule.samples, rule.window_ms, state.sample_index, slots)


def _check_sensor(
    rows: Sequence[Mapping[str, Any]], rate: Rate, throttle_max_ms: int | None
) -> Consistency:
    checked = equal = 0
    for row in rows:
        if row["amount"] is None:
            break
        now_ms = row["recorded_at_ms"]
        rate.record(row["amount"], now_ms)
        # A broker measures every time, also without a quota, and measuring purges.
        measured = rate.measure(now_ms)
        if row["bound"] is None:
            continue
        throttle_ms = 0
        if not is_acceptable(measured, row["bound"]):
            window_size_ms = rate.window_size_ms(now_ms)
            cut_ms = throttle_time_ms(measured, row["bound"], window_size_ms, throttle_max_ms)
            throttle_ms = max(cut_ms, 0)
        checked += 1
        equal += throttle_ms == (row["replayed_throttle_time_ms"] or 0)
    return Consistency(checked, equal)
