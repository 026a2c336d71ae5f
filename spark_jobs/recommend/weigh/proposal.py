"""What is proposed for one entity, and the rule that makes it from what the entity needed.

Values are round, so that a proposal moves only when the demand moves by a whole step. Of a default
and the values set by name, one replaces the other: the higher the default, the fewer clients need a
value of their own, and the less it holds back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_jobs.apply.changes.kafka_rules import WHOLE_NUMBERS
from spark_jobs.apply.changes.quota_alteration import PROPOSED, QuotaKey
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import QuotaType
from spark_jobs.recommend.weigh.backtest import BrokerRule
from spark_jobs.recommend.weigh.configured_values import UNLIMITED, QuotaEntity, ValueKey
from spark_jobs.recommend.weigh.observation import FREE_RUN, SEVERAL_DAYS, Demand, Observation
from spark_jobs.recommend.weigh.traffic import SensorId
from spark_jobs.settings import RecommendSettings

KEEP, NOT_ENOUGH_DATA = "keep", "not_enough_data"
WITHHELD = "withheld"
RAISE, LOWER = "raise", "lower"
MAX_RAISE = "max_raise"
"""What ``clamped_by`` says of a raise that is one step of several."""

MANTISSAS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Ten steps a decade; each is at most a third above the one before."""

CURVE_POINTS_MAX = 20


@dataclass(frozen=True, slots=True)
class Rules:
    """What is known besides the traffic: how brokers decide, and what is found and wanted.

    ``faults`` are the kinds and hypotheses of findings per sensor.
    """

    brokers: Mapping[int, BrokerRule]
    faults: Mapping[SensorId, set[str]]
    settings: RecommendSettings


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value, its plausible range and the sentence that says why; None = no number."""

    status: str
    reason: str
    proposed: float | None = None
    lower: float | None = None
    upper: float | None = None
    clamped_by: str | None = None
    # One of tables.RECOMMENDATION_KINDS; None where nothing is to be done.
    kind: str | None = None

    def kept(self, reason: str, kind: str | None = None) -> Proposal:
        """Return that the value is kept because of ``reason``, with the same range."""
        return Proposal(KEEP, reason, lower=self.lower, upper=self.upper, kind=kind)


@dataclass(frozen=True, slots=True)
class SharedBucket:
    """The bucket that a client-id would leave, and what the others in it are throttled, replayed.

    ``share`` is the client-id's of all amounts; ``seen`` is the bucket with everyone in it. Both
    throttle times are of the last ``days``.
    """

    seen: Observation
    days: int
    client_ids: int
    share: float
    neighbours_throttle_time_ms_before: int
    neighbours_throttle_time_ms_after: int


@dataclass(frozen=True, slots=True)
class Case:
    """One entity, the sensors that a value of it would bound, and what is proposed."""

    quota_type: str
    entity: QuotaEntity
    current: float
    # The value that is set for exactly this entity in the cluster; None = a rollback deletes it.
    previous: float | None
    observations: tuple[Observation, ...]
    proposal: Proposal
    # Where its value would take a client-id out of a bucket.
    leaves: SharedBucket | None = None

    @property
    def key(self) -> ValueKey:
        """Return the quota type and entity whose value it is about."""
        return self.quota_type, self.entity

    @property
    def quota(self) -> QuotaKey:
        """Return quota type, user and client-id of the value it is about."""
        return self.quota_type, self.entity.user, self.entity.client_id

    @property
    def hottest(self) -> Observation:
        """Return the sensor that the most was asked of on one broker."""
        return max(self.observations, key=lambda o: o.hottest.demand.rate)

    @property
    def demand(self) -> Demand:
        """Return the demand on the broker that the most was asked of."""
        return self.hottest.hottest.demand

    @property
    def requests(self) -> int:
        """Return the requests on all its sensors."""
        return sum(o.requests for o in self.observations)

    @property
    def seconds(self) -> int:
        """Return the seconds of traffic of its sensor with the most."""
        return max(o.seconds for o in self.observations)

    @property
    def days(self) -> int:
        """Return the days on which its sensor with the most was seen."""
        return max(o.days for o in self.observations)

    @property
    def throttled_requests(self) -> int:
        """Return the requests on all its sensors that the replay throttled."""
        return sum(o.throttled_requests for o in self.observations)

    @property
    def throttle_time_ms(self) -> int:
        """Return the replayed throttle times of all its sensors."""
        return sum(o.throttle_time_ms for o in self.observations)

    @property
    def changing(self) -> tuple[Observation, ...]:
        """Return the sensors whose throttling the proposal changes: a bucket it leaves as well."""
        return self.observations if self.leaves is None else (self.leaves.seen,)


def bounding_cases(cases: Iterable[Case]) -> dict[SensorId, Case]:
    """Return the case that bounds each sensor: an override takes its client from a default."""
    defaults_first = sorted(cases, key=lambda case: not case.entity.is_default)
    return {seen.sensor.key: case for case in defaults_first for seen in case.observations}


def propose(case: Case, settings: RecommendSettings) -> Proposal:
    """Return the proposal for what an entity needed of its quota on its hottest broker.

    Above: it was throttled, and what it asked for exceeds its value. Far below: it was not
    throttled and never used more than ``far_below`` of its value.
    """
    missing = _missing(case, settings)
    if missing:
        return Proposal(NOT_ENOUGH_DATA, f"Not enough data: {missing}.")
    why_not = _untouchable(case)
    if why_not:
        return Proposal(KEEP, why_not)
    rate = case.demand.rate
    lower, upper = plausible_range(case, settings)
    if case.throttle_time_ms >= max(settings.min_throttle_ms, 1) and rate > case.current:
        value, clamped_by = _raised(case, settings)
        reason, kind = _above(case), RAISE
    elif _can_be_lowered(case, settings):
        value, clamped_by = _lowered(case, settings)
        reason, kind = _below(case), LOWER
    else:
        return Proposal(KEEP, _within(case, settings), lower=lower, upper=upper)
    if abs(value - case.current) <= settings.min_change * case.current:
        return Proposal(
            KEEP,
            f"{reason} The next round value, {amount(value, case.quota_type)}, is too near to "
            "the present one to be worth a change.",
            lower=lower,
            upper=upper,
        )
    if clamped_by == MAX_RAISE:
        reason += (
            f" One step raises to {settings.max_raise:g} times the value at most: it is still "
            "throttled then, and the next audit sees how much more it needs."
        )
    return Proposal(PROPOSED, reason, value, lower, upper, clamped_by, kind)


def plausible_range(case: Case, settings: RecommendSettings) -> tuple[float, float]:
    """Return (lower, upper): the demand itself, and what it may be on a longer look.

    The shorter the log the wider: twice the value with headroom at the least traffic.
    """
    rate = case.demand.rate
    if rate <= 0.0:
        return 0.0, 0.0
    widening = 1.0 + settings.min_seconds / max(case.seconds, settings.min_seconds)
    return rate, step_up(rate * settings.headroom * widening, case.quota_type)


def _missing(case: Case, settings: RecommendSettings) -> str | None:
    is_mutation = case.quota_type == QuotaType.CONTROLLER_MUTATION_RATE
    requests_min = settings.min_mutations if is_mutation else settings.min_requests
    what = "mutations" if is_mutation else "requests"
    if case.requests < requests_min:
        return f"{case.requests} {what}, at least {requests_min} are needed"
    if case.seconds < settings.min_seconds:
        return f"{case.seconds} s of traffic, at least {settings.min_seconds} s are needed"
    return None


def _untouchable(case: Case) -> str | None:
    if case.current <= 0.0:
        return "The value is 0, which blocks on purpose."
    if case.current >= UNLIMITED:
        return "The value is so large that it limits nothing, which looks meant."
    return None


def _can_be_lowered(case: Case, settings: RecommendSettings) -> bool:
    is_seen = case.days >= settings.lower_min_days and not settings.raise_only
    is_whole = case.quota_type != QuotaType.REQUEST_PERCENTAGE
    return is_seen and is_whole and _is_far_below(case, settings)


def _is_far_below(case: Case, settings: RecommendSettings) -> bool:
    is_used = case.demand.rate > 0.0
    return is_used and not case.throttle_time_ms and _share(case) < settings.far_below


def _share(case: Case) -> float:
    return case.demand.rate / case.current


def _raised(case: Case, settings: RecommendSettings) -> tuple[float, str | None]:
    wanted = step_up(case.demand.rate * settings.headroom, case.quota_type)
    most = case.current * settings.max_raise
    if wanted <= most:
        return wanted, None
    return max(step_down(most, case.quota_type), case.current), MAX_RAISE


def _lowered(case: Case, settings: RecommendSettings) -> tuple[float, str | None]:
    wanted = step_up(case.demand.rate * settings.headroom, case.quota_type)
    least = step_up(case.current * settings.max_lower, case.quota_type)
    if wanted >= least:
        return min(wanted, case.current), None
    return min(least, case.current), "max_lower"


def _above(case: Case) -> str:
    demand, current = (
        amount(case.demand.rate, case.quota_type),
        amount(case.current, case.quota_type),
    )
    broker = f"broker {case.hottest.hottest.broker_id}"
    in_all = f"{case.throttle_time_ms / 1000:,.1f} s in all"
    throttled = f"Throttled {case.throttled_requests:,} times, {in_all};"
    if case.demand.basis == SEVERAL_DAYS:
        rise = amount(case.hottest.slope, case.quota_type)
        return (
            f"{throttled} what it asks for rises by {rise} a day and comes to {demand} on "
            f"{broker}, against a quota of {current}."
        )
    asked = (
        "kept a pace of at least"
        if case.demand.basis == FREE_RUN
        else "reached at least, held back as it was,"
    )
    return f"{throttled} on {broker} it {asked} {demand} against a quota of {current}."


def _below(case: Case) -> str:
    return (
        f"Never throttled, and used {_share(case):.1%} of its quota at most: "
        f"{amount(case.demand.rate, case.quota_type)} on broker {case.hottest.hottest.broker_id}."
    )


def _within(case: Case, settings: RecommendSettings) -> str:
    rate = amount(case.demand.rate, case.quota_type)
    if case.throttle_time_ms and case.demand.rate <= case.current:
        return f"Throttled by an earlier value only: the present one covers what was asked, {rate}."
    if case.throttle_time_ms:
        return (
            f"Throttled for {case.throttle_time_ms / 1000:,.1f} s in all, which is less than the "
            "least that counts."
        )
    note = ", which is near the limit" if _share(case) >= settings.near_limit else ""
    if _is_far_below(case, settings) and settings.raise_only:
        note = "; not lowered, because values are only raised"
    elif _is_far_below(case, settings) and case.days < settings.lower_min_days:
        note = f"; not lowered before it was seen on {settings.lower_min_days} days"
    elif _is_far_below(case, settings):
        note = "; not lowered, because the log lacks the time of network threads"
    return f"Not throttled; used {_share(case):.1%} of its quota at most{note}."


def step_up(value: float, quota_type: str) -> float:
    """Return the smallest step that is not below ``value`` (above 0).

    >>> step_up(61_234.0, "producer_byte_rate"), step_up(0.21, "controller_mutation_rate")
    (80000.0, 0.25)
    """
    return min(step for step in _steps_around(value, quota_type) if step >= value)


def step_down(value: float, quota_type: str) -> float:
    """Return the largest step that is not above ``value``; a byte rate is at least 1.

    >>> step_down(61_234.0, "producer_byte_rate")
    60000.0
    """
    below = [step for step in _steps_around(value, quota_type) if step <= value]
    return max(below, default=1.0)


def _steps_around(value: float, quota_type: str) -> Iterator[float]:
    assert 0.0 < value < math.inf, value
    exponent = math.floor(math.log10(value))
    for power in range(exponent - 1, exponent + 3):
        for mantissa in MANTISSAS:
            step = float(f"{mantissa}e{power}")
            if quota_type not in WHOLE_NUMBERS or (step.is_integer() and step >= 1.0):
                yield step
        if quota_type in WHOLE_NUMBERS and power < 0:
            yield 1.0


class TradeOff(NamedTuple):
    """A default, and how many of its followers would then need a value of their own."""

    default: float
    overrides: int


def needed_value(seen: Observation, settings: RecommendSettings) -> float:
    """Return the value that holds what a follower asks for, 0 where it asks for nothing."""
    rate = seen.hottest.demand.rate
    return step_up(rate * settings.headroom, seen.sensor.key[0]) if rate > 0 else 0.0


def trade_off_curve(
    followers: Sequence[Observation], settings: RecommendSettings
) -> list[TradeOff]:
    """Return the defaults at which the number of overrides changes, in order of the default.

    The first holds nobody without an override but those that ask for the least, the last everyone.
    """
    needs = sorted({needed_value(seen, settings) for seen in followers} - {0.0})
    all_needs = [needed_value(seen, settings) for seen in followers]
    points = [TradeOff(value, sum(need > value for need in all_needs)) for value in needs]
    step = -(-len(points) // CURVE_POINTS_MAX) or 1
    return points[::-1][::step][::-1]


def least_default(
    followers: Sequence[Observation], overrides_max: int, settings: RecommendSettings
) -> float:
    """Return the least default at which no more than ``overrides_max`` followers need more."""
    needs = sorted((needed_value(seen, settings) for seen in followers), reverse=True)
    return needs[overrides_max] if overrides_max < len(needs) else 0.0
