"""Workers' side of a replay: one broker's requests → Parquet files of its decisions and rates.

Rows go from Parquet through arrays into Parquet; only counts travel to the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.broker_stream import RowGroup, request_chunks, stops
from spark_jobs.replay.rates import stream_tables
from spark_jobs.replay.rates.fixed_times import (
    SAMPLES_MAX,
    FetchFixing,
    Fixing,
    ProduceFixing,
    RequestTimeFixing,
)
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.recorded_amounts import TIME_COLUMNS, RecordedAmounts
from spark_jobs.replay.rates.sensor_codes import SensorCodes, Share
from spark_jobs.replay.rates.stream_interval import ClosedInterval, StreamInterval
from spark_jobs.replay.rates.stream_rows import Decided
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.rates.stream_tables import Columns, StreamAgreement, StreamSeconds, rate_rows
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState
from spark_jobs.replay.verdicts.verdicts import RATE_VERDICTS, Tolerances
from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.warehouse.days import Interval
from spark_jobs.warehouse.worker_files import TableFiles

BANDWIDTHS = (QuotaType.PRODUCER_BYTE_RATE, QuotaType.CONSUMER_BYTE_RATE)
DECIDE_ROWS = 24_576
SHARES_MAX = 16
"""Every share reads all requests of its broker."""


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """What the replay of every broker needs to know."""

    rules: Mapping[int, BrokerRules]
    resolutions: ResolutionTable
    carried: Mapping[SensorKey, CarriedState]
    controller_listeners: frozenset[str]
    broker_log: BrokerLog
    lost: LostRequests
    tolerances: Tolerances
    folder: Path  # where the tables' files are staged
    read_us: Mapping[int, float]  # of small requests, by broker, where request times are replayed
    has_request_quotas: bool
    interval: Interval


@dataclass(slots=True)
class ReplayReport:
    """What a worker says of one broker: its verdicts, and the files it wrote."""

    verdicts: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """A share of one broker's sensors, and where the broker's requests are.

    ``around`` has those before the interval that no state has, and those after it that tell of it.
    """

    broker_id: int
    groups: Sequence[RowGroup]
    share: Share
    around: Sequence[RowGroup] = ()

    @property
    def rows(self) -> int:
        """Return the approximate number of the share's requests."""
        return sum(group.rows for group in self.groups) // self.share.of


def broker_shares(
    brokers: Mapping[int, Sequence[RowGroup]],
    tasks_at_once: int,
    around: Mapping[int, Sequence[RowGroup]] | None = None,
) -> list[BrokerShare]:
    """Return the shares of brokers, one for each task, the largest first.

    A broker with more than a task's fair part of all requests is shared among several tasks, by
    sensors: each reads all its requests, and leaves those of other sensors.
    """
    rows = {broker_id: sum(g.rows for g in groups) for broker_id, groups in brokers.items()}
    fair = max(sum(rows.values()) / max(tasks_at_once, 1), 1)
    shares = []
    for broker_id, groups in brokers.items():
        of = min(max(round(rows[broker_id] / fair), 1), SHARES_MAX)
        beyond = (around or {}).get(broker_id, ())
        shares += [BrokerShare(broker_id, groups, Share(place, of), beyond) for place in range(of)]
    return sorted(shares, key=lambda share: -share.rows)


def replay_broker(broker: BrokerShare, task: ReplayTask) -> ReplayReport:
    """Write decisions on a share's windowed rates, and what follows from them."""
    broker_id = broker.broker_id
    files = TableFiles(task.folder)
    report = ReplayReport()
    streams = {quota_type: _stream(broker, quota_type, task) for quota_type in _types(task)}
    groups = [*broker.groups, *broker.around]
    expand = RecordedAmounts(
        broker_id,
        task.resolutions,
        {quota_type: stream.stream.codes for quota_type, stream in streams.items()},
        task.controller_listeners,
        task.broker_log,
        task.lost,
        task.read_us.get(broker_id, 0.0),
        stops(groups, broker_id),
    )
    more = TIME_COLUMNS if task.has_request_quotas else ()
    try:
        for requests, order, until_ms in request_chunks(groups, broker_id, more=more):
            expanded = expand.rows(requests, order)
            # Nothing is kept while more is read, or longer than it is looked at.
            del requests, order
            for quota_type, stream in streams.items():
                for decided in stream.decided(expanded.pop(quota_type), until_ms):
                    stream.write(decided, files, report)
                    del decided
        for stream in streams.values():
            stream.close(files)
    except BaseException:
        files.discard()
        raise
    report.files = files.close()
    return report


def _types(task: ReplayTask) -> tuple[QuotaType, ...]:
    return (*BANDWIDTHS, QuotaType.REQUEST_PERCENTAGE) if task.has_request_quotas else BANDWIDTHS


def _stream(broker: BrokerShare, quota_type: QuotaType, task: ReplayTask) -> _Stream:
    rules = task.rules[broker.broker_id]
    stream = RateStream(
        broker.broker_id,
        SensorCodes(broker.share),
        StreamStates(rules, quota_type),
        _fixing(rules, quota_type),
        task.tolerances,
        task.carried,
        unrecords=quota_type is QuotaType.CONSUMER_BYTE_RATE,
    )
    of_interval: StreamInterval | ClosedInterval
    if quota_type is QuotaType.REQUEST_PERCENTAGE:
        of_interval = ClosedInterval(stream, task.interval, DECIDE_ROWS)
    else:
        around = bool(broker.around)
        of_interval = StreamInterval(stream, task.interval, DECIDE_ROWS, reads_around=around)
    return _Stream(of_interval, shared=task.has_request_quotas)


def _fixing(rules: BrokerRules, quota_type: QuotaType) -> Fixing:
    if quota_type is QuotaType.REQUEST_PERCENTAGE:
        return RequestTimeFixing()
    samples, window_ms = rules.of_type(quota_type)
    window = Window(samples, window_ms, rules.profile.keeps_overlapping_sample)
    if quota_type is QuotaType.CONSUMER_BYTE_RATE:
        return FetchFixing.of(window)
    return ProduceFixing.of(window) if samples <= SAMPLES_MAX else Fixing()


class _Stream:
    """One stream and what is gathered from its decisions."""

    def __init__(self, of_interval: StreamInterval | ClosedInterval, *, shared: bool) -> None:
        self.stream = of_interval.stream
        self.decided = of_interval.decided
        self._states = of_interval.states
        self._shared = shared
        self._seconds, self._agreement = StreamSeconds(), StreamAgreement()
        self._kind = self.stream.states.quota_type
        self._is_compared = self.stream.states.quota_type == QuotaType.PRODUCER_BYTE_RATE

    def write(self, decided: Decided, files: TableFiles, report: ReplayReport) -> None:
        """Write decisions, and what is known of the seconds before them."""
        table = "replayed" if self._shared else "decisions"
        rows = stream_tables.decisions(decided, self.stream, shared=self._shared)
        files.add(table, rows, self._kind)
        _count(decided, report.verdicts)
        self._write_seconds(self._seconds.take(decided), files)
        if self._is_compared:
            self._agreement.take(decided)

    def close(self, files: TableFiles) -> None:
        """Write what is known at the end."""
        self._write_seconds(self._seconds.rest(), files)
        files.add("quota_state", stream_tables.states(*self._states()))
        if self._is_compared:
            files.add("agreement", self._agreement.rows(self.stream))

    def _write_seconds(self, seconds: Columns | None, files: TableFiles) -> None:
        if seconds is not None and len(seconds["sensor"]):
            files.add("rates", rate_rows(seconds, self.stream), self._kind)


def _count(decided: Decided, verdicts: Counter[str]) -> None:
    for place, count in enumerate(np.bincount(decided.verdict, minlength=len(RATE_VERDICTS))):
        if count:
            verdicts[RATE_VERDICTS[place][0]] += int(count)
