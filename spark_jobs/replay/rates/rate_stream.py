"""Amounts of one quota type on one broker → decisions, chunk after chunk, all sensors open.

A sensor's rows may lie between those of others: nothing is sorted but the rows of a chunk by
sensor. What is not fixed waits with the rows of the next chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.kernels import RateReplay, replay_rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.repeated import repeated
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.states import SensorStates, remembered_ms
from spark_jobs.quota.throttle_time import throttle_max
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.fixed_times import NOT_HELD, Fixed, Fixing
from spark_jobs.replay.rates.request_intervals import RequestIntervals, RequestThrottles
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import Decided, OrderedRows, StreamRows
from spark_jobs.replay.rates.stream_states import NEVER_MS, StreamStates
from spark_jobs.replay.rates.throttled_fetches import (
    fetches_explained_otherwise,
    throttle_of_other_amount,
    throttled_fetch_attempts,
)
from spark_jobs.replay.sensors.sensor_states import CarriedState
from spark_jobs.replay.verdicts.fetch_attempt import FetchAttempts
from spark_jobs.replay.verdicts.verdicts import (
    RateRows,
    Tolerances,
    is_accusing,
    rate_verdicts,
)
from spark_jobs.resolve.broker_log import KNOWN_MS


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of rows of one epoch of one sensor, in the order of a chunk's rows."""

    start: np.ndarray  # the first row of each
    sensor: np.ndarray
    begins: np.ndarray  # whether the sensor begins anew with the run
    is_over: np.ndarray  # whether another epoch of the run's sensor follows


@dataclass(frozen=True, slots=True)
class _Replayed:
    """Fixed rows, those of an epoch together, and the rule's decisions on them."""

    rows: Fixed
    result: RateReplay
    run: np.ndarray  # of each row
    states: SensorStates  # of every epoch's sensor after the epoch's fixed rows


class RateStream:
    """One quota type of one broker."""

    def __init__(
        self,
        broker_id: int,
        codes: SensorCodes,
        states: StreamStates,
        fixing: Fixing,
        tolerances: Tolerances,
        carried: Mapping[SensorKey, CarriedState],
        *,
        unrecords: bool,
    ) -> None:
        """Begin with what sensors held before; ``unrecords``: throttled amounts are taken back."""
        self.broker_id, self.codes, self.states = broker_id, codes, states
        self._fixing = fixing
        self._carried = carried
        self._unrecords = unrecords
        samples, window_ms = states.rules.of_type(states.quota_type)
        keeps_overlapping = states.rules.profile.keeps_overlapping_sample
        self._window = Window(samples, window_ms, keeps_overlapping)
        warm_up_ms = max(tolerances.warm_up_ms, remembered_ms(samples, window_ms))
        self._tolerances = replace(tolerances, warm_up_ms=warm_up_ms)
        self._throttle_max_ms = throttle_max(states.rules.throttle_max_ms)
        self.intervals: RequestIntervals | None = None
        if states.quota_type == QuotaType.REQUEST_PERCENTAGE:
            # Capped at one window (ClientRequestQuotaManager.throttleTime).
            self._throttle_max_ms = states.rules.window_ms
            self.intervals = RequestIntervals(states.rules, self.carried)
        self._parts: list[StreamRows] = []
        self._waiting = self._new = 0

    def fork(self) -> RateStream:
        """Return a stream that goes on from here on its own, with the same numbers of sensors."""
        other = copy(self)
        other.states = self.states.copied()
        other._parts = list(self._parts)
        return other

    def waiting(self) -> Sequence[StreamRows]:
        """Return the rows that are not fixed, those of each sensor in order."""
        return tuple(self._parts)

    def carried(self, sensor: int) -> CarriedState | None:
        """Return the state that was handed on of a sensor, None if none was."""
        key = SensorKey(self.broker_id, self.states.quota_type, *self.codes.names[sensor])
        return self._carried.get(key)

    def is_due(self, rows_min: int) -> bool:
        """Return True if enough rows came since the last :meth:`decide` to make another one pay."""
        return self._new >= max(rows_min, self._waiting)

    def take(self, rows: StreamRows) -> None:
        """Add rows, which follow those taken before."""
        if len(rows):
            self._parts.append(rows)
            self._new += len(rows)

    def decide(self, until_ms: int | None) -> Decided | None:
        """Return the decisions fixed when all rows before ``until_ms`` were taken, None if none.

        ``until_ms`` is None when no more rows come.
        """
        if not self._parts:
            return None
        look_ms = self._fixing.look_ms
        until_ms = None if until_ms is None else until_ms // look_ms * look_ms
        self.states.grow(len(self.codes.names))
        taken = StreamRows.concat(self._parts)
        self._parts = []
        rows = OrderedRows.of(taken, np.argsort(self.codes.ranks()[taken.sensor], kind="stable"))
        runs = self._runs(rows)
        fixed = self._fixed(rows, runs, until_ms)
        is_left = np.ones(len(rows), bool)
        is_left[fixed.rows.order] = False
        decided = None
        if len(fixed.rows.order):
            decided = self._decided(rows.take(fixed.rows.order), rows, runs, fixed)
        self._new, self._waiting = 0, int(is_left.sum())
        if self._waiting:
            self._parts = [rows.take(np.flatnonzero(is_left)).alone()]
        return decided

    def decide_quiet(self, before_ms: int) -> Decided | None:
        """Return the decisions on waiting rows of sensors with none since ``before_ms``, or None.

        Rows still to come tell nothing of these if ``before_ms`` is longer ago than a window.
        """
        if not self._parts:
            return None
        waiting = StreamRows.concat(self._parts)
        last_ms = np.full(len(self.codes.names), NEVER_MS)
        np.maximum.at(last_ms, waiting.sensor, waiting.at_ms)
        is_quiet = last_ms[waiting.sensor] < before_ms
        if not is_quiet.any():
            return None
        self._parts = [waiting.take(np.flatnonzero(is_quiet))]
        decided = self.decide(None)
        others = waiting.take(np.flatnonzero(~is_quiet))
        self._parts = [others.alone()] if len(others) else []
        self._waiting = len(others)
        return decided

    def _runs(self, rows: OrderedRows) -> _Runs:
        changes = rows.sensor[1:] != rows.sensor[:-1]
        begins = np.empty(len(rows), bool)
        begins[1:] = (rows.restart_ms[1:] != rows.restart_ms[:-1]) | (
            np.diff(rows.at_ms) > EXPIRED_AFTER_MS
        )
        firsts = np.flatnonzero(np.append(True, changes))
        last_ms = self.states.at_ms[rows.sensor[firsts]]
        self._take_over(rows, firsts[last_ms == NEVER_MS])
        is_known = last_ms != NEVER_MS
        begins[firsts] = is_known & (
            (rows.restart_ms[firsts] != self.states.restart_ms[rows.sensor[firsts]])
            | (rows.at_ms[firsts] - last_ms > EXPIRED_AFTER_MS)
        )
        start = np.flatnonzero(np.append(True, changes) | begins)
        sensor = rows.sensor[start]
        return _Runs(start, sensor, begins[start], np.append(sensor[1:] == sensor[:-1], False))

    def _take_over(self, rows: OrderedRows, firsts: np.ndarray) -> None:
        """Set what the sensors of these rows, their first ones, held before."""
        if not self._carried:
            return
        for row in firsts.tolist():
            code = int(rows.sensor[row])
            state = self.carried(code)
            if state is not None:
                self.states.take_over(code, state, int(rows.restart_ms[row]), int(rows.at_ms[row]))

    def _begun(self, runs: _Runs) -> SensorStates:
        """Return the sensor's state before each epoch's first row."""
        begun = self.states.states.take(runs.sensor)
        begun.count[runs.begins] = 0
        begun.index[runs.begins] = 0
        return begun

    def _fixed(self, rows: OrderedRows, runs: _Runs, until_ms: int | None) -> _Replayed:
        """Return the fixed rows of each epoch, as indices into ``rows``, and their replay.

        Epochs without anything to explain are replayed once; rows that wait are replayed only to
        tell whether there is anything to explain.
        """
        n_runs = len(runs.start)
        length = np.diff(np.append(runs.start, len(rows)))
        run = np.repeat(np.arange(n_runs), length)
        ends = runs.is_over | (until_ms is None)
        limit_ms = 0 if until_ms is None else until_ms - self._fixing.kept_ms
        states = self._begun(runs)
        is_due = ends[run] | (rows.at_ms < limit_ms)
        for k in np.flatnonzero(~ends & (states.count == 0)).tolist():
            own = slice(int(runs.start[k]), int(runs.start[k] + length[k]))
            if until_ms is not None and self._fixing.keeps_begin(rows.at_ms[own], until_ms):
                is_due[own] = False
        due, waiting = np.flatnonzero(is_due), np.flatnonzero(~is_due)
        result = self._replay(rows, due, run[due], rows.at_ms[due], states)
        told = np.empty(len(rows), bool)
        told[due] = self._told(rows, due, result)
        if len(waiting):
            ahead = states.take(np.arange(n_runs))
            tried = self._replay(rows, waiting, run[waiting], rows.at_ms[waiting], ahead)
            told[waiting] = self._told(rows, waiting, tried)
        is_told = np.logical_or.reduceat(told, runs.start)
        plain = Fixed.unjudged(due, rows.at_ms[due], run[due])
        if not is_told.any():
            return _Replayed(plain, result, run[due], states)
        kept = ~is_told[run[due]]
        plain, result = plain.take(kept), result.take(kept)
        searching = np.flatnonzero(is_told)
        searched = self._searched(rows, runs, length, searching, ends, until_ms)
        order = searched.rows.order
        states.put(searching, searched.states.take(searching))
        both = np.concatenate([run[plain.order], run[order]])
        in_order = np.argsort(both, kind="stable")
        return _Replayed(
            Fixed.joined([plain, searched.rows]).take(in_order),
            result.joined(searched.result).take(in_order),
            both[in_order],
            states,
        )

    def _told(self, rows: OrderedRows, places: np.ndarray, tried: RateReplay) -> np.ndarray:
        return self._fixing.told(rows.logged_ms[places], tried.throttle_time_ms)

    def _searched(
        self,
        rows: OrderedRows,
        runs: _Runs,
        length: np.ndarray,
        told: np.ndarray,
        ends: np.ndarray,
        until_ms: int | None,
    ) -> _Replayed:
        """Return the fixed rows of the epochs ``told``, whose throttles have to be explained."""
        begun = self._begun(runs)
        parts = [Fixed.plainly(rows.at_ms, 0, 0, 0)]
        groups = len(runs.start)
        # A part that begins with another state than the one before left is replayed for itself.
        run_of, last = list(range(groups)), list(range(groups))
        held_ms, state_of = [], [0]
        for k in told.tolist():
            first, stop = int(runs.start[k]), int(runs.start[k] + length[k])
            state = begun.take(np.array([k]))
            own = rows.stretch(first, stop)
            found = self._fixing.fix(own, state, None if ends[k] else until_ms)
            for part in found:
                if (part.held_ms != NOT_HELD).any():
                    last[k] = len(run_of)
                    run_of.append(k)
                    held_ms.append(int(part.held_ms[0]))
                parts.append(part._replace(order=part.order + first, group=part.group + groups))
                state_of.append(last[k])
            groups += len(found)
        fixed = Fixed.joined(parts)
        states = begun.take(np.array(run_of))
        for i, began_ms in enumerate(held_ms, start=len(runs.start)):
            states.hold(i, began_ms)
        of_rows = np.repeat(state_of, [len(part.order) for part in parts])
        result = self._replay(rows, fixed.order, of_rows, fixed.recorded_at_ms, states)
        run, begun = np.array(run_of)[of_rows], states.take(np.array(last))
        return _Replayed(fixed, result, run, begun)

    def _decided(
        self, own: StreamRows, rows: OrderedRows, runs: _Runs, replayed: _Replayed
    ) -> Decided:
        fixed, result, run = replayed.rows, replayed.result, replayed.run
        is_unrecorded = (own.logged_ms > 0) & self._unrecords
        amount_known = ~np.isnan(own.amount)
        attempts = throttled_fetch_attempts(
            own, fixed.group, fixed.recorded_at_ms, result.amount, is_unrecorded,
            result.throttle_time_ms, self.states,
        )  # fmt: skip
        throttle_ms = np.where(
            is_unrecorded,
            throttle_of_other_amount(own.logged_ms, result.amount, attempts.amount, own.bound),
            # Cut to 32 bits it may be negative, which is none.
            np.maximum(result.throttle_time_ms, 0),
        )
        judged = RateRows(
            bound=own.bound,
            amount_known=amount_known,
            is_unrecorded=is_unrecorded,
            attempt=attempts.attempt,
            is_request_quota=repeated(self.intervals is not None, len(own)),
            has_request_bound=own.has_request_bound,
            logged_ms=own.logged_ms,
            replayed_ms=throttle_ms,
            boundary_amount=result.oldest_value,
            purge_margin_ms=result.purge_margin_ms,
            keeps_overlapping=replayed.states.keeps_overlapping[run] != 0,
            window_ms=replayed.states.window_ms[run],
            known_for_ms=np.where(fixed.is_begin_told, KNOWN_MS, own.known_for_ms),
            change_distance_ms=own.change_distance_ms,
            is_proven=fixed.is_proven,
            is_explained=fixed.is_explained,
            is_impossible=fixed.is_impossible,
            is_neither=fixed.is_neither,
            line_lag_max_ms=own.line_lag_max_ms,
            lost_requests=own.lost_requests,
            lost_amount_max=own.lost_amount_max,
        )
        verdict = rate_verdicts(judged, self._tolerances)
        accused = np.flatnonzero(is_accusing(verdict))
        if self._unrecords and len(accused):
            is_explained = self._fetches_explained(accused, own, runs, replayed, attempts)
            judged = replace(judged, is_explained=is_explained)
            verdict = rate_verdicts(judged, self._tolerances)
        verdict_alone = verdict
        if own.has_request_bound.any():
            alone = replace(judged, has_request_bound=repeated(False, len(own)))
            verdict_alone = rate_verdicts(alone, self._tolerances)
        requested = self._requested(own, run, runs.begins)
        epoch, seq = self._places(runs, run, rows, replayed.states)
        amount = np.where(amount_known | is_unrecorded, result.amount, np.nan)
        return Decided(
            rows=replace(own, amount=amount),
            epoch=epoch,
            seq=seq,
            recorded_at_ms=fixed.recorded_at_ms,
            is_unrecorded=is_unrecorded,
            answered=attempts.answered,
            rate=result.rate,
            window_size_ms=result.window_size_ms,
            throttle_ms=throttle_ms,
            throttle_min_ms=requested.least_ms,
            throttle_max_ms=requested.most_ms,
            throttle_likely_min_ms=requested.likely_least_ms,
            throttle_likely_max_ms=requested.likely_most_ms,
            is_proven=fixed.is_proven,
            verdict=verdict,
            verdict_alone=verdict_alone,
        )

    def _fetches_explained(
        self,
        accused: np.ndarray,
        own: StreamRows,
        runs: _Runs,
        replayed: _Replayed,
        attempts: FetchAttempts,
    ) -> np.ndarray:
        """Return a bool per row: True where another history explains it, an accused fetch or not.

        The states of the sensors must not have moved on yet.
        """
        fixed, run, begun = replayed.rows, replayed.run, self._begun(runs)
        is_explained = fixed.is_explained.copy()
        for k in np.unique(run[accused]).tolist():
            of_run = np.flatnonzero(run == k)
            is_explained[of_run] = fetches_explained_otherwise(
                np.searchsorted(of_run, accused[run[accused] == k]),
                own.take(of_run),
                fixed.take(of_run),
                replayed.result.amount[of_run],
                attempts.take(of_run),
                begun.take(np.array([k])),
                self._window,
            )
        return is_explained

    def _requested(self, own: StreamRows, run: np.ndarray, begins: np.ndarray) -> RequestThrottles:
        """Return the throttles (ms) that a request quota may have asked for, of its own rows."""
        if self.intervals is None:
            return RequestThrottles.unknown(len(own))
        is_open = own.known_for_ms < self._tolerances.warm_up_ms
        is_open |= own.change_distance_ms < self._tolerances.change_ms
        return self.intervals.throttles_ms(own, run, begins).only_where(~is_open)

    def _places(
        self, runs: _Runs, run: np.ndarray, rows: OrderedRows, ended: SensorStates
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return each fixed row's epoch and index in it; the sensors' states move on."""
        n_runs = len(runs.start)
        is_first = np.append(True, runs.sensor[1:] != runs.sensor[:-1])
        begun_before = np.cumsum(runs.begins)
        of_sensor = np.maximum.accumulate(np.where(is_first, np.arange(n_runs), 0))
        since_first = begun_before - begun_before[of_sensor] + runs.begins[of_sensor]
        epoch = self.states.epoch[runs.sensor] + since_first.astype(np.int32)
        base = np.where(is_first & ~runs.begins, self.states.seq[runs.sensor], 0)
        count = np.bincount(run, minlength=n_runs)
        first_row = np.cumsum(count) - count
        seq = np.arange(len(run)) - first_row[run] + base[run]
        # The waiting rows of an epoch that only begins are begun again with the next rows.
        last = np.flatnonzero(count > 0)
        last = last[np.append(runs.sensor[last][1:] != runs.sensor[last][:-1], True)]
        sensor = runs.sensor[last]
        self.states.states.put(sensor, ended.take(last))
        self.states.epoch[sensor] = epoch[last]
        self.states.seq[sensor] = base[last] + count[last]
        last_row = runs.start[last] + count[last] - 1
        self.states.restart_ms[sensor] = rows.restart_ms[last_row]
        self.states.at_ms[sensor] = rows.at_ms[last_row]
        return epoch[run], seq

    def _replay(
        self,
        rows: OrderedRows,
        places: np.ndarray,
        run: np.ndarray,
        recorded_at_ms: np.ndarray,
        states: SensorStates,
    ) -> RateReplay:
        """Return the rule's decisions on the rows at ``places``; ``states`` moves on."""
        amount, logged_ms = rows.amount[places], rows.logged_ms[places]
        behaviour = np.full(len(places), RECORD, np.int8)
        if self._unrecords:
            behaviour[logged_ms > 0] = RECORD_AND_UNRECORD
        amount[np.isnan(amount) & (behaviour == RECORD)] = 0.0
        return replay_rate(
            run,
            recorded_at_ms,
            amount,
            rows.bound[places],
            behaviour,
            logged_ms,
            np.full(len(places), self._throttle_max_ms),
            *states.rate_arrays(),
        )
