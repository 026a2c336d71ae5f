"""Quota changes whose line a broker that went down did not write: they accuse nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.ingest.quota_sources.events import QuotaEntity, QuotaEvent
from spark_jobs.ingest.quota_sources.restarts import RESTART_MAX_MS
from spark_jobs.quota.codes import BANDWIDTH_TYPES, DEFAULT, WRONG_VERDICTS
from spark_jobs.quota.constants import CHANGE_LATEST_MS
from spark_jobs.quota.states import Int64s
from spark_jobs.replay.day_edges import interval_of
from spark_jobs.replay.sensors.amounts import bools, floats
from spark_jobs.replay.taken_back import rewrite_decisions, without_verdicts
from spark_jobs.replay.verdicts.unlogged_changes import QuotaDecisions, unlogged_change
from spark_jobs.replay.verdicts.verdicts import UNLOGGED_CHANGE
from spark_jobs.resolve.broker_log import read_starts
from spark_jobs.resolve.timeline.default_quota_callback import entity_of_level, quota_level
from spark_jobs.resolve.timeline.enabled_levels import END_MS
from spark_jobs.warehouse.parquet import parquet_file
from spark_jobs.warehouse.read import read_batches, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import counted, entity_name
from spark_jobs.wording.numbers import exact_rate, rate, utc

_OF_QUOTA = ("quota_type", "quota_level", "user", "client_id", "bound")
_COLUMNS = (
    *_OF_QUOTA, "broker_id", "recorded_at_ms", "rate", "window_size_ms", "is_unrecorded",
    "logged_throttle_time_ms", "replayed_throttle_time_ms", "verdict",
)  # fmt: skip
_DECIDED = ("agree", "no_quota")
# A value that one of these tells held before as well: it is no change.
_STATES = ("snapshot", "static")


class Downtime(NamedTuple):
    """From a broker's last line to its start, ms since the Unix epoch."""

    broker_id: int
    silent_from_ms: int
    started_ms: int


class Quota(NamedTuple):
    """One value of one entity, on all brokers."""

    quota_type: str
    entity: QuotaEntity
    bound: float


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change of a quota, as a broker went down, that no line holds but throttles tell of."""

    quota: Quota  # as it was before
    downtime: Downtime
    bound: float  # infinite: nobody was held to it any more
    decisions: int  # that it explains, and the logged value does not


def leave_unlogged_open(
    folder: Path, scope: RunScope, tolerance_ms: int
) -> tuple[Counter[str], list[ToldChange]]:
    """Take back verdicts in the staged files of ``decisions`` that an unlogged change explains.

    Returns by how many more or fewer each verdict is given then, and the changes. Nothing is read
    where no broker went down, and little where no decision since is wrong.
    """
    downtimes = _downtimes(scope)
    paths = sorted(folder.glob("*.parquet")) if downtimes else []
    quotas = {quota for path in paths for quota in _suspects(path, downtimes[0].silent_from_ms)}
    if not quotas:
        return Counter(), []
    events = [QuotaEvent.of_row(row) for row in read_table(scope, "quota_events").to_pylist()]
    told: list[ToldChange] = []
    places: defaultdict[Path, list[int]] = defaultdict(list)
    for quota in sorted(quotas, key=str):
        rows = _StagedRows.of(quota, paths)
        for downtime in downtimes:
            until_ms = _known_again_ms(quota, downtime, events)
            bound, found = rows.explained(downtime, until_ms, tolerance_ms)
            if not len(found):
                continue
            told.append(ToldChange(quota, downtime, bound, len(found)))
            for file, row in rows.taken(found):
                places[paths[file]].append(row)
    taken_back = rewrite_decisions(
        sorted(places),
        lambda path, rows: without_verdicts(rows, _mask(rows, places[path]), UNLOGGED_CHANGE),
    )
    return taken_back, told


def unlogged_changes(told: Iterable[ToldChange]) -> str:
    """Return a line of text for each change; "" without one.

    Example: "note: throttles tell that producer_byte_rate of every user by default was changed from
    18,080 B/s to about 9.1 kB/s as broker 1 went down at 16:05:09 UTC …".
    """
    return "".join(
        f"\nnote: throttles tell that {one.quota.quota_type} of {entity_name(*one.quota.entity)} "
        f"was {_changed(one)} as broker {one.downtime.broker_id} went down at "
        f"{utc(one.downtime.silent_from_ms):%H:%M:%S} UTC, which the log does not hold; nobody is "
        f"accused of {counted(one.decisions, 'decision')} until the quota is known again"
        for one in told
    )


def _mask(rows: pa.Table, places: Sequence[int]) -> pa.Array:
    mask = np.zeros(len(rows), bool)
    mask[list(places)] = True
    return pa.array(mask)


def _changed(one: ToldChange) -> str:
    known = exact_rate(one.quota.bound, one.quota.quota_type)
    if np.isinf(one.bound):
        return f"raised from {known}, or removed,"
    return f"changed from {known} to about {rate(one.bound, one.quota.quota_type)}"


def _downtimes(scope: RunScope) -> list[Downtime]:
    """Return when the day's brokers were down, in order; a silence of hours may be a lost file."""
    day, found = interval_of(scope), []
    for row in read_starts(scope):
        # No line of this day is near any other.
        if not day.from_ms <= row["started_ms"] <= day.until_ms + RESTART_MAX_MS:
            continue
        is_before = (pc.field("broker_id") == row["broker_id"]) & (
            pc.field("log_time_ms") < row["started_ms"]
        )
        lines_ms = read_batches(scope, "requests", ["log_time_ms"], is_before)
        last_ms = max((pc.max(batch["log_time_ms"]).as_py() for batch in lines_ms), default=None)
        if last_ms is not None and row["started_ms"] - last_ms <= RESTART_MAX_MS:
            found.append(Downtime(row["broker_id"], last_ms, row["started_ms"]))
    return sorted(found, key=lambda one: one.silent_from_ms)


def _suspects(path: Path, from_ms: int) -> Iterator[Quota]:
    """Yield the bandwidth quotas of which decisions since then are wrong."""
    with parquet_file(path) as opened:
        looked_at = opened.read(columns=["verdict", "recorded_at_ms"])
        is_wrong = pc.is_in(looked_at["verdict"].cast(pa.string()), pa.array(WRONG_VERDICTS))
        is_suspect = pc.and_(is_wrong, pc.greater_equal(looked_at["recorded_at_ms"], from_ms))
        if not pc.any(is_suspect).as_py():
            return
        rows = opened.read(columns=list(_OF_QUOTA)).filter(is_suspect)
    for row in rows.group_by(list(_OF_QUOTA)).aggregate([]).to_pylist():
        if row["quota_type"] in BANDWIDTH_TYPES and row["bound"] is not None:
            entity = entity_of_level(row["quota_level"], row["user"], row["client_id"] or "")
            yield Quota(row["quota_type"], entity, row["bound"])


def _known_again_ms(quota: Quota, downtime: Downtime, events: Iterable[QuotaEvent]) -> int:
    """Return when (ms) the log tells the quota's value again; at once where it is the same.

    A value that was changed, and changed back, would have left a line.
    """
    later = [
        event
        for event in events
        if (event.quota_type, event.entity) == quota[:2] and event.likely_ms >= downtime.started_ms
    ]
    first = min(later, key=lambda event: event.likely_ms, default=None)
    if first is None:
        return END_MS
    is_same = first.source in _STATES and first.bound == quota.bound
    return downtime.silent_from_ms if is_same else first.likely_ms


@dataclass(frozen=True, slots=True)
class _StagedRows:
    """The staged decisions on one quota, and where each is."""

    decisions: QuotaDecisions
    is_open: np.ndarray  # bool: not agreed with
    file: Int64s
    row: Int64s

    @classmethod
    def of(cls, quota: Quota, paths: Sequence[Path]) -> _StagedRows:
        parts, files, places = [], [], []
        for number, path in enumerate(paths):
            with parquet_file(path) as opened:
                rows = opened.read(columns=list(_COLUMNS))
            own = np.flatnonzero(_is_of(quota, rows))
            parts.append(rows.take(pa.array(own)))
            files.append(np.full(len(own), number))
            places.append(own)
        rows = pa.concat_tables(parts).combine_chunks()
        recorded = ~bools(rows["is_unrecorded"])
        decisions = QuotaDecisions(
            broker_id=rows["broker_id"].to_numpy(),
            recorded_at_ms=rows["recorded_at_ms"].to_numpy(),
            rate=np.where(recorded, floats(rows["rate"]), np.nan),
            window_size_ms=pc.fill_null(rows["window_size_ms"], 0).to_numpy(),
            logged_ms=rows["logged_throttle_time_ms"].to_numpy(),
            replayed_ms=pc.fill_null(rows["replayed_throttle_time_ms"], 0).to_numpy(),
        )
        is_open = ~bools(pc.is_in(rows["verdict"].cast(pa.string()), pa.array(_DECIDED)))
        return cls(decisions, is_open, np.concatenate(files), np.concatenate(places))

    def explained(
        self, downtime: Downtime, until_ms: int, tolerance_ms: int
    ) -> tuple[float, Int64s]:
        """Return the value that explains decisions since a broker went down, and their places."""
        at_ms = self.decisions.recorded_at_ms
        near = (at_ms >= downtime.silent_from_ms - RESTART_MAX_MS) & (at_ms < until_ms)
        places = np.flatnonzero(near)
        found = unlogged_change(
            self.decisions.take(places),
            downtime.silent_from_ms,
            downtime.started_ms + CHANGE_LATEST_MS,
            tolerance_ms,
        )
        if found is None:
            return np.nan, np.zeros(0, np.int64)
        return found.bound, places[found.decisions & self.is_open[places]]

    def taken(self, places: Int64s) -> Iterator[tuple[int, int]]:
        """Yield the file and the row of each, and take it back."""
        self.is_open[places] = False
        yield from zip(self.file[places].tolist(), self.row[places].tolist(), strict=True)


def _is_of(quota: Quota, rows: pa.Table) -> np.ndarray:
    """Return True for each of ``rows`` that is a decision on the quota."""
    is_own = pc.and_(
        pc.equal(rows["quota_type"].cast(pa.string()), quota.quota_type),
        pc.equal(rows["bound"], quota.bound),
    )
    level = quota_level(quota.entity)
    is_own = bools(pc.and_(is_own, pc.equal(rows["quota_level"].cast(pa.string()), level)))
    for part, name in zip(quota.entity, ("user", "client_id"), strict=True):
        if part is not None and part != DEFAULT:
            is_own &= bools(pc.equal(pc.fill_null(rows[name].cast(pa.string()), ""), part))
    return is_own
