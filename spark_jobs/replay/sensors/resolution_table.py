"""The quota timeline as arrays, so that a batch of requests is resolved in one search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import CHANGE_LATEST_MS, CHANGE_MS, TIME_BITS, TIME_MAX_MS
from spark_jobs.quota.repeated import repeated
from spark_jobs.resolve.timeline.resolution import QuotaTimeline, Resolution


@dataclass(frozen=True, slots=True)
class ResolvedRows:
    """What one quota type says about each row of a batch; arrays of the batch's length."""

    is_enabled: np.ndarray
    quota_user: pa.Array
    quota_client_id: pa.Array
    quota_level: pa.Array
    bound: np.ndarray  # NaN: no bound in force
    known_from_ms: np.ndarray  # since when the client's amounts go to this sensor
    changed_at_ms: np.ndarray  # when the bound in force was set
    changes_at_ms: np.ndarray  # when the next one is
    bound_until: np.ndarray  # of the sensor until then, however briefly; NaN: none, or not known
    has_joined: np.ndarray  # True: then its client's amounts came here from another sensor
    bound_left: np.ndarray  # the bound there; NaN: none, or it came from nowhere


@dataclass(frozen=True, slots=True)
class ClientIndex:
    """The distinct (broker, user, client-id) of a batch and each row's index into them."""

    code: np.ndarray
    clients: Sequence[tuple[int, str, str]]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ClientIndex:
        """Return the index of ``batch``, which has broker_id, user and client_id."""
        # Kafka treats a null client-id as the empty one (ClientQuotaManager, ``clientId``).
        client_id = pc.fill_null(batch["client_id"], "")
        key = pc.binary_join_element_wise(
            batch["broker_id"].cast(pa.string()), batch["user"], client_id, "\x00"
        ).dictionary_encode()
        clients = []
        for text in key.dictionary.to_pylist():
            broker, user, client = text.split("\x00", 2)
            clients.append((int(broker), user, client))
        return cls(key.indices.to_numpy().astype(np.int64), clients)

    def take(self, rows: np.ndarray) -> ClientIndex:
        """Return the index of the rows at these places."""
        return ClientIndex(self.code[rows], self.clients)

    @classmethod
    def of_broker(
        cls, broker_id: int, user: pa.DictionaryArray, client_id: pa.DictionaryArray
    ) -> ClientIndex:
        """Return the index of one broker's rows, whose names are dictionary-encoded."""
        users, client_ids = user.dictionary.to_pylist(), client_id.dictionary.to_pylist()
        own_user = user.indices.to_numpy().astype(np.int64)
        # A null client-id is the empty one.
        own_id = pc.fill_null(client_id.indices, len(client_ids)).to_numpy().astype(np.int64)
        names = [*client_ids, ""]
        pairs_max = len(users) * len(names)
        code = own_user * len(names) + own_id
        if pairs_max < 4 * len(code):  # cheaper than to sort them
            is_there = np.zeros(pairs_max, bool)
            is_there[code] = True
            pair, code = np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[code]
        else:
            pair, code = np.unique(code, return_inverse=True)
        pairs = (divmod(p, len(names)) for p in pair.tolist())
        return cls(code, [(broker_id, users[u], names[c] or "") for u, c in pairs])


class Segment(NamedTuple):
    """A stretch of time in which one quota held for a client."""

    resolution: Resolution
    known_from_ms: int  # since when all amounts of its sensor are known
    # Another value of the same entity's quota just before and after; NaN: something else changed.
    bound_before: float
    bound_after: float
    bound_until: float  # of the sensor until it began, however briefly; NaN: none
    has_joined: bool  # then its client's amounts came to its sensor from another one
    bound_left: float  # of that one; NaN: none


class LineTimes(NamedTuple):
    """The times (ms) that lines admit, and whether each tells of a throttle; of one length."""

    earliest_ms: np.ndarray
    latest_ms: np.ndarray
    is_thrown: np.ndarray


def is_on_other_side(
    has_none: np.ndarray,
    other_has_none: np.ndarray,
    is_one_sensor: np.ndarray,
    is_thrown: np.ndarray,
) -> np.ndarray:
    """Return True for each request that a throttle tells to be on the other side of a change.

    Its line admits both: what was throttled had a quota, what was let through had none. On another
    sensor what else was counted would tell, too.
    """
    return np.asarray(is_one_sensor & (has_none == is_thrown) & (other_has_none != is_thrown))


class ResolutionTable:
    """Looks up quotas for batches; remembers every client it has met."""

    def __init__(self, timeline: QuotaTimeline, known_from_ms: Mapping[int, int]) -> None:
        self.timeline = timeline
        self._known_from_ms = known_from_ms
        self._cache: dict[tuple[str, int, str, str], tuple[Segment, ...]] = {}
        self._joined: dict[tuple[str, int, str, str], Sequence[tuple[int, tuple[str, str]]]] = {}
        self._resolved: dict[tuple[str, int, str, str], tuple[Resolution, ...]] = {}

    def resolve(self, quota_type: str, index: ClientIndex, at_ms: np.ndarray) -> ResolvedRows:
        """Return the sensor and quota that hold for each row of ``index`` at the row's time."""
        segments, row = self.segments(quota_type, index, at_ms)
        found = [s.resolution for s in segments]
        take = pa.array(row)
        return ResolvedRows(
            is_enabled=np.array([s.is_enabled for s in found], bool)[row],
            quota_user=pa.array([s.quota_user for s in found], pa.string()).take(take),
            quota_client_id=pa.array([s.quota_client_id for s in found], pa.string()).take(take),
            quota_level=pa.array([s.quota_level for s in found], pa.string()).take(take),
            bound=np.array([np.nan if s.bound is None else s.bound for s in found])[row],
            known_from_ms=np.array([s.known_from_ms for s in segments], np.int64)[row],
            changed_at_ms=np.array([_clip(s.valid_from_ms) for s in found], np.int64)[row],
            changes_at_ms=np.array([_clip(s.valid_until_ms) for s in found], np.int64)[row],
            bound_until=np.array([s.bound_until for s in segments])[row],
            has_joined=np.array([s.has_joined for s in segments], bool)[row],
            bound_left=np.array([s.bound_left for s in segments], np.float64)[row],
        )

    def has_request_bound(self, index: ClientIndex, at_ms: np.ndarray) -> np.ndarray:
        """Return True for each row of ``index`` whose client may have met a request quota.

        It has one at the row's time, or within CHANGE_MS of it: such a quota comes or goes.
        """
        has_bound = repeated(False, len(at_ms))
        if not self.timeline.has_quotas(QuotaType.REQUEST_PERCENTAGE):
            return has_bound
        for apart_ms in (-CHANGE_MS, 0, CHANGE_MS):
            found, row = self.segments(QuotaType.REQUEST_PERCENTAGE, index, at_ms + apart_ms)
            is_bound = [s.resolution.is_enabled and s.resolution.bound is not None for s in found]
            has_bound = has_bound | np.array(is_bound, bool)[row]
        return has_bound

    def segments(
        self, quota_type: str, index: ClientIndex, at_ms: np.ndarray
    ) -> tuple[Sequence[Segment], np.ndarray]:
        """Return the segments of the clients of ``index``, and the place of each row's among them.

        Such as two of alice, before and after a change, and 0 for a row before it.
        """
        segments: list[Segment] = []
        starts: list[int] = []
        at_ms = np.clip(at_ms, 0, TIME_MAX_MS)
        first_ms, last_ms = (int(at_ms.min()), int(at_ms.max())) if len(at_ms) else (0, TIME_MAX_MS)
        for code, client in enumerate(index.clients):
            for segment in self._segments(quota_type, *client):
                start_ms = _clip(segment.resolution.valid_from_ms)
                if start_ms <= last_ms and _clip(segment.resolution.valid_until_ms) >= first_ms:
                    segments.append(segment)
                    starts.append(code << TIME_BITS | start_ms)
        if len(segments) == len(index.clients):  # nothing changed meanwhile
            return segments, index.code
        place = index.code << TIME_BITS | at_ms
        return segments, np.searchsorted(np.array(starts, np.int64), place, side="right") - 1

    def told_segments(
        self, quota_type: str, index: ClientIndex, at_ms: np.ndarray, line: LineTimes
    ) -> tuple[Sequence[Segment], np.ndarray]:
        """Return the segments of the clients of ``index``, and the place of each row's among them.

        As of :meth:`segments`, but that of the other side of a change where a throttle tells it:
        of a row let through 1 ms after a first quota, by its line 1 ms before it, the one before.
        """
        segments, row = self.segments(quota_type, index, at_ms)
        from_ms, until_ms = np.array(
            [(_clip(s.resolution.valid_from_ms), _clip(s.resolution.valid_until_ms))
             for s in segments], np.int64
        ).reshape(-1, 2).T  # fmt: skip
        is_open = (line.earliest_ms < from_ms[row]) | (line.latest_ms >= until_ms[row])
        rows = np.flatnonzero(is_open)
        if not len(rows):
            return segments, row
        segments, row = list(segments), row.copy()
        for other_ms in (line.earliest_ms, line.latest_ms):
            others, place = self.segments(quota_type, index.take(rows), other_ms[rows])
            own = [segments[each].resolution for each in row[rows].tolist()]
            other = [others[each].resolution for each in place.tolist()]
            is_told = is_on_other_side(
                np.array([each.bound is None for each in own]),
                np.array([each.bound is None for each in other]),
                np.array([_same_sensor(*both) for both in zip(own, other, strict=True)]),
                line.is_thrown[rows],
            )
            row[rows[is_told]] = len(segments) + place[is_told]
            segments += others
        return segments, row

    def log_start_ms(self, broker_id: int) -> int:
        """Return since when (ms) a broker's requests are in the log; 0: since ever."""
        return self._known_from_ms.get(broker_id, 0)

    def joined(
        self, quota_type: str, broker_id: int, user: str, client_id: str
    ) -> Sequence[tuple[int, tuple[str, str]]]:
        """Return when after its log began a client's amounts first went to sensors, and to which.

        Such as (1,700,000,000,000 ms, ("alice", "")); in the order of time.
        """
        key = (quota_type, broker_id, user, client_id)
        if key not in self._joined:
            log_start_ms = self.log_start_ms(broker_id)
            self._joined[key] = tuple(
                (known_from_ms, (resolution.quota_user, resolution.quota_client_id))
                for resolution, known_from_ms, *_ in self._segments(*key)
                if resolution.is_enabled and known_from_ms > log_start_ms
            )
        return self._joined[key]

    def _segments(
        self, quota_type: str, broker_id: int, user: str, client_id: str
    ) -> tuple[Segment, ...]:
        key = (quota_type, broker_id, user, client_id)
        if key not in self._cache:
            alike = (quota_type, self.timeline.alike(broker_id), user, client_id)
            if alike not in self._resolved:
                self._resolved[alike] = self.timeline.resolve(quota_type, user, client_id, alike[1])
            self._cache[key] = self._segments_of(self._resolved[alike], broker_id)
        return self._cache[key]

    def _segments_of(
        self, resolutions: Sequence[Resolution], broker_id: int
    ) -> tuple[Segment, ...]:
        """Return the segments of one client on a broker, one for each stretch of time."""
        log_start_ms = self.log_start_ms(broker_id)
        found: list[Segment] = []
        beside = [None, *resolutions, None]
        for before, own, after in zip(beside, resolutions, beside[2:], strict=False):
            known_from_ms = max(_clip(own.valid_from_ms), log_start_ms)
            if found and _same_sensor(found[-1].resolution, own):
                known_from_ms = found[-1].known_from_ms
            left = None if before is None or _same_sensor(own, before) else before
            bounds = (
                _bound_beside(own, before),
                _bound_beside(own, after),
                _bound_of_sensor(own, before),
            )
            bound_left = math.nan if left is None or left.bound is None else left.bound
            found.append(Segment(own, known_from_ms, *bounds, left is not None, bound_left))
        return tuple(found)


def _bound_beside(own: Resolution, beside: Resolution | None) -> float:
    """Return the bound ``beside`` a stretch, such as 1,000.0, if that alone is what changed.

    Else NaN, and where it held so briefly that a broker may not have met it.
    """
    if beside is None or own.quota_level != beside.quota_level:
        return math.nan
    lasted_ms = _clip(beside.valid_until_ms) - _clip(beside.valid_from_ms)
    return _bound_of_sensor(own, beside) if lasted_ms >= CHANGE_LATEST_MS else math.nan


def _bound_of_sensor(own: Resolution, beside: Resolution | None) -> float:
    """Return the bound ``beside`` a stretch, such as 1,000.0, NaN of another sensor or of none."""
    if beside is None or beside.bound is None or not _same_sensor(own, beside):
        return math.nan
    return beside.bound


def _same_sensor(before: Resolution, after: Resolution) -> bool:
    return (before.is_enabled, before.quota_user, before.quota_client_id) == (
        after.is_enabled,
        after.quota_user,
        after.quota_client_id,
    )


def _clip(at_ms: int | None) -> int:
    return TIME_MAX_MS if at_ms is None else min(max(at_ms, 0), TIME_MAX_MS)
