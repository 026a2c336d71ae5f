"""Sensors and quota levels as numbers, looked up in batches of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import NamedTuple
from zlib import crc32

import numpy as np

from spark_jobs.quota.constants import TIME_BITS, TIME_MAX_MS
from spark_jobs.replay.sensors.resolution_table import ClientIndex, LineTimes, ResolutionTable

NO_LEVEL = -1
SensorName = tuple[str, str]
"""quota_user, quota_client_id."""


class Share(NamedTuple):
    """One of ``of`` shares of a broker's sensors: each is in exactly one."""

    place: int = 0
    of: int = 1

    def has(self, name: SensorName) -> bool:
        """Return True if a sensor is in this share."""
        return self.of == 1 or crc32("\x00".join(name).encode()) % self.of == self.place


@dataclass(frozen=True, slots=True)
class CodedRows:
    """What one quota type says about each row; arrays of one length."""

    is_enabled: np.ndarray  # and of the share of sensors that is asked for
    sensor: np.ndarray
    level: np.ndarray
    bound: np.ndarray  # NaN: none in force
    joined_ms: np.ndarray  # since when the client's amounts go to the sensor
    joined_by_ms: np.ndarray  # when they surely did; 0: since before the log began
    known_from_ms: np.ndarray  # since when all that the sensor holds is in the log
    changed_at_ms: np.ndarray  # when the bound was surely in force
    changes_at_ms: np.ndarray  # from when on the next one may have been
    bound_before: np.ndarray  # of Segment
    bound_after: np.ndarray

    def take(self, rows: np.ndarray) -> CodedRows:
        """Return the rows at these indices."""
        return CodedRows(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(slots=True)
class SensorCodes:
    """The sensors of one broker and quota type, numbered as they are met."""

    share: Share = field(default_factory=Share)
    names: list[SensorName] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    _codes: dict[SensorName, int] = field(default_factory=dict)
    _level_codes: dict[str, int] = field(default_factory=dict)
    # When clients were sent to a sensor (code << TIME_BITS | ms): the last request of any before.
    _last_ms: dict[int, int] = field(default_factory=dict)

    def code(self, name: SensorName) -> int:
        """Return a sensor's number."""
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]

    def ranks(self) -> np.ndarray:
        """Return each sensor's rank in the order of names."""
        # Numbers of 16 bits are sorted without comparing them.
        is_small = len(self.names) <= 1 << 16
        ranks = np.empty(len(self.names), np.uint16 if is_small else np.int32)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(ranks))
        return ranks

    def resolve(
        self,
        resolutions: ResolutionTable,
        quota_type: str,
        index: ClientIndex,
        at_ms: np.ndarray,
        line: LineTimes | None = None,
    ) -> CodedRows:
        """Return the sensor and quota that hold for each row of ``index`` at the row's time.

        With ``line``, where that admits it, on the side of a change that its throttle tells. The
        rows follow those of the call before, in the order of their times.
        """
        if line is None:
            segments, row = resolutions.segments(quota_type, index, at_ms)
        else:
            segments, row = resolutions.told_segments(quota_type, index, at_ms, line)
        found = [s.resolution for s in segments]
        names = [(s.quota_user, s.quota_client_id) for s in found]
        sensor = [self.code(name) for name in names]
        is_own = [s.is_enabled and self.share.has(n) for s, n in zip(found, names, strict=True)]
        broker_id = index.clients[0][0] if index.clients else 0  # all rows are of one
        span_ms = partial(resolutions.timeline.change_span_ms, broker_id)
        changed = [span_ms(s.valid_from_ms) for s in found]
        changes = [span_ms(s.valid_until_ms) for s in found]
        log_start_ms = resolutions.log_start_ms(broker_id)
        joined_by = [
            span_ms(s.known_from_ms)[1] if s.known_from_ms > log_start_ms else 0 for s in segments
        ]
        of_row = np.array(sensor, np.int32)[row]
        joined_ms = np.array([s.known_from_ms for s in segments], np.int64)[row]
        self._take_last(resolutions, quota_type, index, at_ms)
        return CodedRows(
            is_enabled=np.array(is_own, bool)[row],
            sensor=of_row,
            level=np.array([self._level(s.quota_level) for s in found], np.int8)[row],
            bound=np.array([np.nan if s.bound is None else s.bound for s in found])[row],
            joined_ms=joined_ms,
            joined_by_ms=_moments(joined_by)[row],
            known_from_ms=self._known_from_ms(of_row, joined_ms, log_start_ms),
            changed_at_ms=_moments(until_ms for _, until_ms in changed)[row],
            changes_at_ms=_moments(from_ms for from_ms, _ in changes)[row],
            bound_before=np.array([s.bound_before for s in segments], np.float64)[row],
            bound_after=np.array([s.bound_after for s in segments], np.float64)[row],
        )

    def _take_last(
        self, resolutions: ResolutionTable, quota_type: str, index: ClientIndex, at_ms: np.ndarray
    ) -> None:
        """Take the last request of each client before it was sent to a sensor."""
        if not len(at_ms):
            return
        joined = [resolutions.joined(quota_type, *client) for client in index.clients]
        coming = [c for c, each in enumerate(joined) if each and each[-1][0] > at_ms[0]]
        if not coming:
            return
        by_client = np.argsort(index.code, kind="stable")
        of_client = index.code[by_client]
        for client in coming:
            first, stop = np.searchsorted(of_client, (client, client + 1))
            own_ms = at_ms[by_client[first:stop]]
            for joined_ms, name in joined[client]:
                before = int(np.searchsorted(own_ms, joined_ms)) - 1
                if before >= 0:
                    key = self.code(name) << TIME_BITS | joined_ms
                    self._last_ms[key] = max(int(own_ms[before]), self._last_ms.get(key, 0))

    def _known_from_ms(
        self, sensor: np.ndarray, joined_ms: np.ndarray, log_start_ms: int
    ) -> np.ndarray:
        """Return since when (ms) all that each row's sensor holds is in the log.

        A quota that was set may have been set before as well, before the log began. Then its sensor
        holds what its clients sent until now: nothing where they sent nothing.
        """
        is_joined = joined_ms > log_start_ms
        if not is_joined.any():
            return joined_ms
        joined = sensor[is_joined].astype(np.int64) << TIME_BITS | joined_ms[is_joined]
        keys, place = np.unique(joined, return_inverse=True)
        last_ms = [max(self._last_ms.get(key, 0), log_start_ms) for key in keys.tolist()]
        known_from_ms = joined_ms.copy()
        known_from_ms[is_joined] = np.array(last_ms, np.int64)[place]
        return known_from_ms

    def _level(self, level: str | None) -> int:
        if level is None:
            return NO_LEVEL
        if level not in self._level_codes:
            self._level_codes[level] = len(self.levels)
            self.levels.append(level)
        return self._level_codes[level]


def _moments(at_ms: Iterable[int]) -> np.ndarray:
    return np.array([min(max(at, 0), TIME_MAX_MS) for at in at_ms], np.int64)
