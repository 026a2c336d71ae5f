"""One sensor's decisions replayed otherwise: by another rate, begun anew, or a connection apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spark_jobs.judge.causes.hypotheses import OtherReplay, is_explained
from spark_jobs.judge.causes.sensor_decisions import (
    SensorDecisions,
    fields_of,
    history_of,
    throttle_ms,
)
from spark_jobs.judge.causes.stretches import Stretch
from spark_jobs.quota.codes import COUNTED_APART, OTHER_RATE_PROFILE, STATE_LOST
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates, remembered_ms
from spark_jobs.replay.sensors.sensor_states import BrokerRules

# So many rows of a stretch tell when its sensor began anew.
_LOSS_TOLD_BY = 1_000
# Each is a replay of the whole sensor; the ones with most requests tell most.
_CONNECTIONS_MAX = 32


def other_profiles(history: SensorDecisions, rules: BrokerRules) -> list[OtherReplay]:
    """Return the history under each rate profile that its broker is not known to follow.

    Newest first: where two of them do not differ, the newer one is the likelier.
    """
    return [
        _replayed(history, OTHER_RATE_PROFILE, profile, rules, slice(0, len(history)))
        for profile in reversed(RateProfile)
        if profile is not rules.profile
    ]


def connections_apart(
    history: SensorDecisions, connections: Sequence[str], rules: BrokerRules
) -> list[OtherReplay]:
    """Return the history with one connection counted apart, for each of the largest connections.

    ``connections`` are the names of their codes. Tried are the decisions from a connection's first
    request on, until no window remembers its last one.
    """
    if len(connections) < 2:
        return []
    memory_ms = remembered_ms(rules.samples, rules.window_ms)
    everything = slice(0, len(history))
    requests = np.bincount(history.connection, minlength=len(connections))
    replays = []
    for code in np.argsort(-requests, kind="stable")[:_CONNECTIONS_MAX].tolist():
        is_apart = history.connection == code
        epoch = 2 * history.sensor_epoch + is_apart
        split = history_of(**fields_of(history) | {"sensor_epoch": epoch})
        other = _replayed(split, COUNTED_APART, rules.profile, rules, everything)
        first, last = np.flatnonzero(is_apart)[[0, -1]].tolist()
        forgotten_ms = history.recorded_at_ms[last] + memory_ms
        end = int(np.searchsorted(history.recorded_at_ms, forgotten_ms))
        rows = slice(first, end)
        replays.append(replace(other, detail=connections[code], rows=rows, apart=code))
    return replays


def lost_at(
    history: SensorDecisions, stretch: Stretch, rules: BrokerRules, losses: range
) -> int | None:
    """Return the row of ``losses`` at which the sensor began anew, None without one.

    It is the one that explains most throttles of ``stretch``; of several the longest silence's end.
    """
    if not losses:
        return None
    before = losses.start - 1
    near = history.rows(slice(before, min(stretch.end, stretch.first + _LOSS_TOLD_BY)))
    told = slice(stretch.first - before, len(near))

    def explained(first: int) -> tuple[int, int]:
        own = first - before
        other = _replayed(near, STATE_LOST, rules.profile, rules, slice(own, len(near)))
        expected_ms = throttle_ms(other.rate, other.window_size_ms, near.bound)[told]
        silence_ms = int(near.recorded_at_ms[own] - near.recorded_at_ms[own - 1])
        return int(is_explained(near.logged_ms[told], expected_ms).sum()), silence_ms

    return max(losses, key=explained)


def lost_state(
    history: SensorDecisions, stretch: Stretch, rules: BrokerRules, first: int
) -> OtherReplay:
    """Return the history as if the sensor had begun anew with the row ``first``."""
    return _replayed(history, STATE_LOST, rules.profile, rules, slice(first, stretch.end))


def _replayed(
    history: SensorDecisions, hypothesis: str, profile: RateProfile, rules: BrokerRules, rows: slice
) -> OtherReplay:
    """Return the replay of ``rows`` by ``profile``, each epoch of the sensor from nothing."""
    _, epoch = np.unique(history.sensor_epoch[rows], return_inverse=True)
    epochs = int(epoch.max(initial=-1)) + 1
    states = SensorStates.allocate(
        profiles=[profile] * epochs,
        samples=[rules.samples] * epochs,
        window_ms=[rules.window_ms] * epochs,
    )
    is_unrecorded = history.is_unrecorded[rows]
    amount = np.where(np.isnan(history.amount[rows]), 0.0, history.amount[rows])
    result = replay_rate(
        epoch,
        history.recorded_at_ms[rows],
        amount,
        history.bound[rows],
        np.where(is_unrecorded, RECORD_AND_UNRECORD, RECORD),
        history.logged_ms[rows],
        np.full(len(epoch), NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )
    rate = np.full(len(history), np.nan)
    window_size_ms = np.ones(len(history), np.int64)
    rate[rows] = np.where(np.isnan(history.rate[rows]), np.nan, result.rate)
    window_size_ms[rows] = np.maximum(result.window_size_ms, 1)
    return OtherReplay(hypothesis, str(profile), rate, window_size_ms, rows)
