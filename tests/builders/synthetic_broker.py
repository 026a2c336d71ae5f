"""One sensor of a broker whose record times are known, and the log that hides them.

Clients send on one connection each and obey every throttle. The broker records in true time by the
plain-Python rate; what a test reads is a log: intervals made of whole milliseconds, slow handlers,
waits for replicas, lines in another order than the recording.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import Int64s, SensorStates
from spark_jobs.replay.alignment.events import EXACT, Events, Samples, Window
from spark_jobs.replay.alignment.placement import Placed, place
from spark_jobs.replay.alignment.search import Found, search
from spark_jobs.replay.alignment.window import align_window

NO_QUOTA = math.nan
# A client's next request cannot come sooner: the response must travel first.
ROUND_TRIP_US = 4_000
# Rows begin here, so that no rule can hang on small numbers or on a round one.
LINE_LAG_MAX_MS = 50
"""Lines are written late by less than this."""
EPOCH_MS = 1_700_000_000_123
PROFILES = (RateProfile.RATE_3_3, RateProfile.RATE_3_8)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the clients of one sensor want, and what the broker does to their requests."""

    seed: int = 0
    requests: int = 1200
    clients: int = 4
    profile: RateProfile = RateProfile.RATE_3_8
    samples: int = 11
    window_ms: int = 1000
    # From so many ms after the first request on.
    bounds: tuple[tuple[int, float], ...] = ((0, 199_999.0),)
    # What the clients would send if nobody held them, as a multiple of the last bound.
    load: float = 2.0
    mean_gap_ms: float = 15.0
    on_ms: int = 0  # 0: always on
    off_ms: int = 0
    slow_handler_share: float = 0.02  # 10 to 40 ms
    replica_wait_share: float = 0.3  # acks=-1
    late_line_share: float = 0.0  # up to 40 ms

    @property
    def window(self) -> Window:
        return Window(self.samples, self.window_ms, self.profile.keeps_overlapping_sample)


@dataclass(slots=True)
class Request:
    """One request as it really was (µs), and what its line says."""

    connection: int
    amount: float
    acks: int
    handler_us: int
    remote_us: int
    sent_us: int  # since the line's phases began: response queue and sending
    handler_start_us: int
    read_clock_us: int
    recorded_us: int  # when it had the sensor's lock
    line_delay_us: int
    bound: float = NO_QUOTA
    throttle_time_ms: int = 0

    @property
    def done_us(self) -> int:
        return self.handler_start_us + self.handler_us + self.remote_us + self.sent_us


class Log(NamedTuple):
    """What the search may read, and the truth beside it, in the order of the events' rows."""

    events: Events
    window: Window
    recorded_at_ms: Int64s
    turn: Int64s  # how many were recorded before


class Audited(NamedTuple):
    """What the search made of a log, in the order of the events' rows."""

    found: Found | None  # None where it was searched in windows
    placed: Placed
    status: Int64s
    recorded_at_ms: Int64s
    turn: Int64s
    replayed_throttle_time_ms: Int64s


@dataclass(slots=True)
class Broker:
    traffic: Traffic
    rng: np.random.Generator
    recorded: list[Request] = field(default_factory=list)

    def run(self) -> list[Request]:
        """Return the requests in the order in which they were recorded."""
        t = self.traffic
        rate = Rate(t.profile, t.samples, t.window_ms)
        in_flight: list[tuple[int, int, Request]] = []
        started = 0
        for connection in range(t.clients):
            heapq.heappush(in_flight, self._send(connection, 0, started))
            started += 1
        while len(self.recorded) < t.requests:
            request = heapq.heappop(in_flight)[2]
            now_ms = EPOCH_MS + request.read_clock_us // 1000
            request.bound = bound_at(t.bounds, request.read_clock_us // 1000)
            decision = decide(rate, request.amount, request.bound, now_ms)
            request.throttle_time_ms = decision.throttle_time_ms
            self.recorded.append(request)
            free_us = request.done_us + 1000 * request.throttle_time_ms
            heapq.heappush(in_flight, self._send(request.connection, free_us, started))
            started += 1
        return self.recorded

    def _send(self, connection: int, free_us: int, number: int) -> tuple[int, int, Request]:
        t, rng = self.traffic, self.rng
        think_us = ROUND_TRIP_US + rng.exponential(t.mean_gap_ms * t.clients * 1000)
        start_us = self._when_on(free_us + int(think_us))
        is_slow = rng.random() < t.slow_handler_share
        handler_us = int(rng.uniform(10_000, 40_000) if is_slow else rng.lognormal(6.2, 0.5))
        acks = -1 if rng.random() < t.replica_wait_share else 1
        remote_us = int(rng.uniform(500, 8_000)) if acks == -1 else 0
        before_us = rng.uniform(20, 400)
        if is_slow and acks == 1 and rng.random() < 0.5:
            before_us = rng.uniform(0, handler_us)
        read_us = start_us + handler_us + remote_us - min(int(before_us), handler_us)
        mean_amount = t.load * t.bounds[-1][1] * t.mean_gap_ms / 1000
        request = Request(
            connection=connection,
            amount=float(60 + int(rng.exponential(mean_amount))),
            acks=acks,
            handler_us=handler_us,
            remote_us=remote_us,
            sent_us=int(rng.exponential(150)),
            handler_start_us=start_us,
            read_clock_us=read_us,
            # Kafka reads the clock before it waits for the lock.
            recorded_us=read_us + int(rng.exponential(30)),
            line_delay_us=self._line_delay_us(),
        )
        return request.recorded_us, number, request

    def _line_delay_us(self) -> int:
        is_late = self.rng.random() < self.traffic.late_line_share
        return int(self.rng.uniform(5_000, 40_000) if is_late else self.rng.uniform(0, 300))

    def _when_on(self, at_us: int) -> int:
        t = self.traffic
        if t.on_ms == 0:
            return at_us
        cycle_us = (t.on_ms + t.off_ms) * 1000
        is_on = at_us % cycle_us < t.on_ms * 1000
        return at_us if is_on else (at_us // cycle_us + 1) * cycle_us + at_us % 5_000


def bound_at(bounds: tuple[tuple[int, float], ...], at_ms: int) -> float:
    """Return the bound in force, none before the first."""
    return next((bound for since_ms, bound in reversed(bounds) if at_ms >= since_ms), NO_QUOTA)


def logged(traffic: Traffic) -> Log:
    """Return the log of a broker that served ``traffic``."""
    requests = Broker(traffic, np.random.default_rng(traffic.seed)).run()
    rows = np.array([_phases(r) for r in requests], np.int64)
    truth = np.array([EPOCH_MS + r.read_clock_us // 1000 for r in requests], np.int64)
    order = np.lexsort((np.arange(len(rows)), rows[:, 4]))
    rows = rows[order]
    events = Events(
        earliest_ms=rows[:, 0].copy(),
        latest_ms=rows[:, 1].copy(),
        likely_from_ms=rows[:, 2].copy(),
        likely_until_ms=rows[:, 3].copy(),
        amount=np.array([r.amount for r in requests])[order],
        bound=np.array([r.bound for r in requests])[order],
        logged_throttle_time_ms=np.array([r.throttle_time_ms for r in requests], np.int64)[order],
        evidence=np.full(len(rows), EXACT, np.int8),
        line_lag_max_ms=np.full(len(rows), LINE_LAG_MAX_MS),
        connection=np.array([r.connection for r in requests], np.int64)[order],
    )
    return Log(events, traffic.window, truth[order], order)


def _phases(request: Request) -> tuple[int, int, int, int, int]:
    """Return earliest, latest, likely from, likely until (ms) and the line's own place (µs)."""
    line_ms = (EPOCH_MS * 1000 + request.done_us + request.line_delay_us) // 1000
    complete_us = line_ms * 1000 - request.sent_us
    handled_us = complete_us - request.remote_us
    at_us = complete_us if request.acks == -1 else handled_us
    earliest_ms = (handled_us - request.handler_us) // 1000 - 2
    latest_ms = (at_us + 999) // 1000
    is_plain = request.acks == -1 or request.handler_us <= 3_000
    likely_ms = max((at_us - 1500) // 1000, earliest_ms) if is_plain else earliest_ms
    return earliest_ms, latest_ms, likely_ms, latest_ms, at_us


def log_of(
    times_ms: Sequence[int],
    amounts: Sequence[float],
    bound: float,
    window: Window,
    *,
    early_ms: int | Sequence[int] = 0,
    late_ms: int | Sequence[int] = 0,
) -> Log:
    """Return the log of requests recorded at these times, in this order.

    Rows stay in it; each interval begins ``early_ms`` before the truth and ends ``late_ms`` after.
    """
    n = len(times_ms)
    truth = EPOCH_MS + np.array(times_ms, np.int64)
    rate = Rate(profile_of(window), window.samples, window.window_ms)
    throttles = [
        decide(rate, amount, bound, now_ms).throttle_time_ms
        for amount, now_ms in zip(amounts, truth.tolist(), strict=True)
    ]
    earliest_ms, latest_ms = truth - np.array(early_ms), truth + np.array(late_ms)
    events = Events(
        *(earliest_ms, latest_ms, earliest_ms, latest_ms),
        amount=np.array(amounts, np.float64),
        bound=np.full(n, bound),
        logged_throttle_time_ms=np.array(throttles, np.int64),
        evidence=np.full(n, EXACT, np.int8),
        line_lag_max_ms=np.full(n, LINE_LAG_MAX_MS),
        connection=np.arange(n),
    )
    return Log(events, window, truth, np.arange(n))


def profile_of(window: Window) -> RateProfile:
    return PROFILES[window.keeps_overlapping]


def audited(log: Log, width: int = 128) -> Audited:
    """Return what the search and the placement say of a log, replayed by the kernel."""
    events, window = log.events, log.window
    nothing = Samples.empty(window.slots)
    found = search(events, nothing, window, width)
    placed = place(events, nothing, window, found)
    by_row = np.argsort(placed.order, kind="stable")
    replay = replayed(log, placed.order, placed.recorded_at_ms)
    return Audited(
        found,
        placed,
        placed.status[by_row],
        placed.recorded_at_ms[by_row],
        by_row,
        replay.throttle_time_ms[by_row],
    )


def audited_in_windows(log: Log, rows: int) -> Audited:
    """Return what :func:`audited` does, but searched ``rows`` rows at a time, as a day's log is."""
    events, window, n = log.events, log.window, len(log.turn)
    states = fresh_states(window)
    parts, throttles = [], []
    start = 0
    while start < n:
        stop = min(n, start + rows)
        given = Events(*(column[start:stop] for column in events))
        aligned = align_window(given, samples_of(states), window, is_last=stop == n)
        placed, settled = aligned.placed, aligned.fixed
        order, recorded_at_ms = start + placed.order[:settled], placed.recorded_at_ms[:settled]
        replay = replay_into(states, log, order, recorded_at_ms)
        parts.append((order, *(column[:settled] for column in placed[1:])))
        throttles.append(replay.throttle_time_ms)
        start += settled
    placed = Placed(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    by_row = np.argsort(placed.order, kind="stable")
    return Audited(
        None,
        placed,
        placed.status[by_row],
        placed.recorded_at_ms[by_row],
        by_row,
        np.concatenate(throttles)[by_row],
    )


def fresh_states(window: Window) -> SensorStates:
    return SensorStates.allocate([profile_of(window)], [window.samples], [window.window_ms])


def samples_of(states: SensorStates) -> Samples:
    """Return the samples of the one sensor of ``states``."""
    return Samples(
        states.start_ms[0].copy(),
        states.last_event_ms[0].copy(),
        states.value[0].copy(),
        count=int(states.count[0]),
        index=int(states.index[0]),
    )


def replayed(log: Log, order: Int64s, recorded_at_ms: Int64s) -> RateReplay:
    """Return what Kafka's rate says of rows in ``order``, recorded at these times."""
    return replay_into(fresh_states(log.window), log, order, recorded_at_ms)


def replay_into(
    states: SensorStates, log: Log, order: Int64s, recorded_at_ms: Int64s
) -> RateReplay:
    """Do as :func:`replayed` does, on the one sensor of ``states``, which moves on."""
    zeros = np.zeros(len(order), np.int64)
    columns = (zeros, recorded_at_ms, log.events.amount[order], log.events.bound[order])
    behaviour = np.zeros(len(order), np.int8)
    no_maximum = np.full(len(order), NO_THROTTLE_MAX)
    return replay_rate(*columns, behaviour, zeros, no_maximum, *states.rate_arrays())


def replayed_truth(log: Log) -> RateReplay:
    """Return what Kafka's rate says at the true times, in the order of the events' rows."""
    order = np.argsort(log.turn)
    replay = replayed(log, order, log.recorded_at_ms[order])
    return RateReplay(*(column[log.turn] for column in replay))


def replayed_plainly(log: Log) -> RateReplay:
    """Return what Kafka's rate says of the lines in their order, each at its likely time."""
    events = log.events
    rows = np.arange(len(events.amount))
    return replayed(log, rows, (events.likely_from_ms + events.likely_until_ms + 1) // 2)


def with_throttles(log: Log, change: Callable[[Int64s], None]) -> Log:
    """Return the log with other throttle times in its lines; the events of ``log`` stay."""
    throttles = log.events.logged_throttle_time_ms.copy()
    change(throttles)
    return log._replace(events=log.events._replace(logged_throttle_time_ms=throttles))


def is_throttled(log: Log) -> np.ndarray:
    """Return which rows have a quota and a logged throttle."""
    return (log.events.logged_throttle_time_ms > 0) & ~np.isnan(log.events.bound)


def share_within(log: Log, throttle_time_ms: Int64s, off_ms: int) -> float:
    """Return the share of throttles, logged or replayed, that agree to within ``off_ms``."""
    logged_ms = log.events.logged_throttle_time_ms
    of = ((logged_ms > 0) | (throttle_time_ms > 0)) & ~np.isnan(log.events.bound)
    return float(np.mean(np.abs(throttle_time_ms - logged_ms)[of] <= off_ms)) if of.any() else 1.0
