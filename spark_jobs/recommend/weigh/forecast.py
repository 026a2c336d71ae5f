"""What a proposal leads to, in figures: throttling per broker, harmed neighbours, kept promises.

As logged, a client that was held back stays as slow as it was, and is throttled little by any
larger value. In the closed loop, where clients wait, it sends what it wanted sooner, and meets the
new value, or another quota. The replay itself is given: it needs requests, which this room does not
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_jobs.apply.changes.quota_alteration import PROPOSED, QuotaKey
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.weigh.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.weigh.observation import muted_ms
from spark_jobs.recommend.weigh.outlook import SeenDay
from spark_jobs.recommend.weigh.proposal import Case
from spark_jobs.recommend.weigh.traffic import SensorId, SensorTraffic
from spark_jobs.settings import RecommendSettings


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """One broker under a proposal; throttle times added up, and with overlaps counted once."""

    broker_id: int
    throttled_requests: int
    throttle_time_ms: int
    muted_ms: int


Forecasts = Mapping[SensorId, tuple[BrokerForecast, ...]]


def throttle_time_of(forecasts: Forecasts, key: SensorId) -> int:
    """Return the throttle times of one sensor over all brokers, 0 where it has none."""
    return sum(broker.throttle_time_ms for broker in forecasts.get(key, ()))


def broker_forecast(
    broker_id: int, at_ms: np.ndarray, throttle_time_ms: np.ndarray
) -> BrokerForecast:
    """Return the figures of one broker's decisions, whose times only grow."""
    return BrokerForecast(
        broker_id=broker_id,
        throttled_requests=int((throttle_time_ms > 0).sum()),
        throttle_time_ms=int(throttle_time_ms.sum()),
        muted_ms=muted_ms(at_ms, throttle_time_ms),
    )


def forecast_by_broker(
    traffic: SensorTraffic, proposed: float, rules: Mapping[int, BrokerRule]
) -> tuple[BrokerForecast, ...]:
    """Return the forecast of one sensor's traffic under ``proposed``, for each broker."""
    throttle_ms = throttle_with(traffic, proposed, rules)
    amounts = traffic.amounts
    forecasts = []
    for broker in np.unique(amounts.broker_id).tolist():
        own = amounts.broker_id == broker
        at_ms = np.maximum.accumulate(amounts.recorded_at_ms[own])
        forecasts.append(broker_forecast(broker, at_ms, throttle_ms[own]))
    return tuple(forecasts)


def forecast_of(sensors: Iterable[SensorId], forecasts: Forecasts) -> dict[int, BrokerForecast]:
    """Return the forecasts of ``sensors``, added up per broker."""
    found: dict[int, BrokerForecast] = {}
    for part in (part for key in sensors for part in forecasts.get(key, ())):
        before = found.get(part.broker_id, BrokerForecast(part.broker_id, 0, 0, 0))
        found[part.broker_id] = BrokerForecast(
            part.broker_id,
            before.throttled_requests + part.throttled_requests,
            before.throttle_time_ms + part.throttle_time_ms,
            before.muted_ms + part.muted_ms,
        )
    return found


@dataclass(frozen=True, slots=True)
class Harm:
    """A neighbour that is throttled more; milliseconds of the closed loop."""

    sensor: SensorId
    before_ms: int
    after_ms: int


def is_more_harm(harmed: Iterable[Harm], gained_ms: int) -> bool:
    """Return True if neighbours lose more milliseconds than are gained."""
    return sum(harm.after_ms - harm.before_ms for harm in harmed) > max(gained_ms, 0)


@dataclass(frozen=True, slots=True)
class Trial:
    """One proposal of an earlier day on the day after it; throttle times are replayed."""

    day: int
    current: float
    proposed: float
    throttle_time_ms_before: int
    throttle_time_ms_after: int
    # What is left of the value above the largest rate: a share, negative where it was passed.
    headroom_before: float
    headroom_after: float
    # It went only as far as one step may.
    is_step: bool = False
    # Neighbours that would have been throttled more, where the day was replayed with its clients.
    harmed: tuple[Harm, ...] = ()

    def is_needed(self, settings: RecommendSettings) -> bool:
        """Return True if there was anything to promise: a raise of something throttled, or a cut.

        A lower value always promises not to throttle.
        """
        is_raise = self.proposed > self.current
        return not is_raise or self.throttle_time_ms_before >= max(settings.min_throttle_ms, 1)

    def is_kept(self, settings: RecommendSettings) -> bool:
        """Return True if a raise did what it is for, or a lower value added little throttling.

        A raise leaves little throttling and covers what the next day asked for: a client that
        waits is throttled little by any larger value, and would send more. One step of several
        promises less throttling only. Nothing is kept that cost its neighbours more than it gained.
        """
        gained_ms = self.throttle_time_ms_before - self.throttle_time_ms_after
        if is_more_harm(self.harmed, gained_ms):
            return False
        is_raise = self.proposed > self.current
        share = settings.left_share_max if is_raise and not self.is_step else 1.0
        allowed = max(int(share * self.throttle_time_ms_before), settings.min_throttle_ms)
        covers = self.headroom_after >= 0 or self.is_step or not is_raise
        return covers and self.throttle_time_ms_after <= allowed


class Kept(NamedTuple):
    """How often a proposal kept its promise, of the days on which there was one to keep."""

    kept: int
    trials: int


def kept_of(trials: Iterable[Trial], settings: RecommendSettings) -> Kept:
    """Return the number of trials that kept their promise, of those that had one to keep."""
    needed = [trial for trial in trials if trial.is_needed(settings)]
    return Kept(sum(trial.is_kept(settings) for trial in needed), len(needed))


@dataclass(frozen=True, slots=True)
class ClosedLoopRequest:
    """Values to set, the sensors that they concern, and all sensors that a quota bounds."""

    values: Mapping[QuotaKey, float | None]
    concerned: frozenset[SensorId]
    bound: frozenset[SensorId]


@dataclass(frozen=True, slots=True)
class ClosedLoopForecasts:
    """The throttled sensors of all clients that were replayed, under the day's values and others.

    What the clients of a concerned sensor would be held back by is in there, or it is nothing.
    """

    before: Forecasts
    after: Forecasts


ClosedLoop = Callable[[ClosedLoopRequest], ClosedLoopForecasts | None]
"""Replays a day's clients; None where there is nothing to replay, or too much."""


REPLAYED = frozenset(
    {QuotaType.PRODUCER_BYTE_RATE, QuotaType.CONSUMER_BYTE_RATE, QuotaType.REQUEST_PERCENTAGE}
)
"""The quota types that the closed loop knows; mutations are replayed as logged."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One case in the closed loop; milliseconds of throttle added up, overlaps counted twice."""

    before_ms: int
    after_ms: int
    harmed: tuple[Harm, ...]

    @property
    def does_more_harm(self) -> bool:
        """Return True if neighbours lose more than the case's own clients gain."""
        return is_more_harm(self.harmed, self.before_ms - self.after_ms)


@dataclass(frozen=True, slots=True)
class ReplayedLoop:
    """A day's closed loop: what was asked and what was found."""

    request: ClosedLoopRequest
    found: ClosedLoopForecasts

    def forecasts(self, as_logged: Forecasts, cases: Iterable[Case]) -> Forecasts:
        """Return the forecasts, with those of the sensors that were replayed in place of theirs.

        Of a client-id that leaves a bucket it is the forecast of the bucket, and of what left it.
        """
        found = {key: self._forecast(key, forecast) for key, forecast in as_logged.items()}
        for case in cases:
            own = case.observations[0].sensor.key
            if case.leaves is not None and own in found:
                found[own] = self._forecast(case.leaves.seen.sensor.key, as_logged[own])
        return found

    def _forecast(
        self, key: SensorId, as_logged: tuple[BrokerForecast, ...]
    ) -> tuple[BrokerForecast, ...]:
        if key not in self.request.concerned:
            return as_logged
        after = {broker.broker_id: broker for broker in self.found.after.get(key, ())}
        nothing = {b.broker_id: BrokerForecast(b.broker_id, 0, 0, 0) for b in as_logged}
        return tuple((nothing | after).values())

    def waiting(self, case: Case, settings: RecommendSettings) -> Waiting | None:
        """Return a case's throttle times in the closed loop, None where it was not replayed."""
        own = {seen.sensor.key for seen in case.changing}
        if case.quota not in self.request.values or not own & self.request.concerned:
            return None
        before, after = (
            sum(throttle_time_of(forecasts, key) for key in own)
            for forecasts in (self.found.before, self.found.after)
        )
        return Waiting(before, after, tuple(_harmed(own, self.found, settings)))


def _harmed(
    own: set[SensorId], found: ClosedLoopForecasts, settings: RecommendSettings
) -> Iterator[Harm]:
    """Yield the other sensors of the same users and client-ids that are throttled more.

    More by ``min_throttle_ms``, and by ``left_share_max`` of what they were.
    """
    names = {name for key in own for name in key[1:] if name}
    for key in sorted(set(found.after) - own):
        before, after = throttle_time_of(found.before, key), throttle_time_of(found.after, key)
        is_more = after - before > max(settings.min_throttle_ms, settings.left_share_max * before)
        if is_more and names & set(key[1:]):
            yield Harm(key, before, after)


def replay_waiting(
    closed_loop: ClosedLoop | None,
    cases: Iterable[Case],
    throttle_time_ms: Mapping[SensorId, int],
    today: SeenDay,
) -> ReplayedLoop | None:
    """Return the day's closed loop under the proposals; None where there is nothing to replay.

    ``throttle_time_ms`` is what the proposals lead to as logged. What is neither throttled nor
    would be by the proposal arrives as it did.
    """
    if closed_loop is None:
        return None
    changing = [c for c in cases if c.proposal.status == PROPOSED and c.quota_type in REPLAYED]
    concerned = {
        key
        for case in changing
        for key in (seen.sensor.key for seen in case.changing)
        if key in today.observations
        and (today.observations[key].throttle_time_ms or throttle_time_ms.get(key))
    }
    if not concerned:
        return None
    values = {case.quota: case.proposal.proposed for case in changing}
    request = ClosedLoopRequest(values, frozenset(concerned), frozenset(today.observations))
    found = closed_loop(request)
    return None if found is None else ReplayedLoop(request, found)


def harm_text(waiting: Waiting) -> str:
    """Return a clause that names the most harmed sensor and counts the others."""
    worst = max(waiting.harmed, key=lambda harm: harm.after_ms - harm.before_ms)
    quota_type, user, client_id = worst.sensor
    name = "/".join(name for name in (user, client_id) if name)
    others = f", and {len(waiting.harmed) - 1} more" if len(waiting.harmed) > 1 else ""
    return (
        f"{quota_type} of {name} would be throttled {worst.after_ms / 1000:,.0f} s instead of "
        f"{worst.before_ms / 1000:,.0f}{others}"
    )


def waiting_evidence(waiting: Waiting | None) -> dict[str, object]:
    """Return the closed loop's part of a row's evidence, as a JSON object."""
    if waiting is None:
        return {"forecast": "as_logged"}
    harmed = [
        {
            **dict(zip(ENTITY_COLUMNS, harm.sensor, strict=True)),
            "throttle_time_ms_before": harm.before_ms,
            "throttle_time_ms_after": harm.after_ms,
        }
        for harm in waiting.harmed
    ]
    return {
        "forecast": "closed_loop",
        "closed_loop_throttle_time_ms_before": waiting.before_ms,
        "closed_loop_throttle_time_ms_after": waiting.after_ms,
        "harmed": harmed,
    }
