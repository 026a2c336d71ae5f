"""The states of a stream's sensors from chunk to chunk: samples, epoch and index, last record."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState

NEVER_MS = -1


@dataclass(slots=True)
class StreamStates:
    """All sensors by their code; those not met yet have recorded nothing."""

    rules: BrokerRules
    quota_type: str
    states: SensorStates = field(init=False)
    epoch: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    seq: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    # Of the last row there was, by its estimate; NEVER_MS: none yet.
    restart_ms: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    at_ms: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.states = self.fresh(0)

    def copied(self) -> StreamStates:
        """Return the same states, to be moved on by themselves."""
        other = copy(self)
        other.states = self.states.take(np.arange(len(self.epoch)))
        for name in ("epoch", "seq", "restart_ms", "at_ms"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def fresh(self, n: int) -> SensorStates:
        """Return the states of ``n`` sensors that have not recorded anything."""
        samples, window_ms = self.rules.of_type(self.quota_type)
        return SensorStates.allocate([self.rules.profile] * n, [samples] * n, [window_ms] * n)

    def grow(self, n: int) -> None:
        """Make room for sensors up to code ``n`` - 1."""
        more = n - len(self.epoch)
        if more <= 0:
            return
        self.states = self.states.joined(self.fresh(more))
        self.epoch = np.append(self.epoch, np.zeros(more, np.int32))
        self.seq = np.append(self.seq, np.zeros(more, np.int64))
        self.restart_ms = np.append(self.restart_ms, np.full(more, NEVER_MS))
        self.at_ms = np.append(self.at_ms, np.full(more, NEVER_MS))

    def take_over(self, code: int, state: CarriedState, restart_ms: int, at_ms: int) -> None:
        """Set a sensor's state before its first row, which is of that broker epoch and time."""
        slots = self.rules.profile.slots(self.rules.of_type(self.quota_type)[0])
        if state.is_lost(slots, restart_ms, at_ms):
            self.epoch[code] = state.sensor_epoch + 1
            return
        self.epoch[code], self.seq[code] = state.sensor_epoch, state.sensor_seq
        self.states.restore(code, state.sample_index, state.samples)
