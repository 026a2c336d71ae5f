"""Brokers' own metrics beside the decisions of an audited day."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from zstandard import ZstdError

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archived_file import open_packed, open_regular
from spark_jobs.judge.decision_counts import decisions_by_sensor, sensors_at_a_time
from spark_jobs.judge.log_span import Broker, brokers_of
from spark_jobs.judge.metrics.comparison import (
    Comparison,
    Expectation,
    compare,
    throttle_history,
)
from spark_jobs.judge.metrics.disagreement import finding_row, is_disagreement, likely_cause
from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE, QuotaSeries, quota_series, read_export
from spark_jobs.judge.metrics.sensor_amounts import CarriedSamples, SampleRule, SensorAmounts
from spark_jobs.judge.metrics.unknown import BrokerLog, unknown_periods
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.day_edges import interval_of
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.warehouse.read import read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope

EXPORT_BYTES_MAX = 512 << 20
_PIECE_BYTES = 1 << 20
_COLUMNS = [
    "sensor_epoch", "sensor_seq", "recorded_at_ms", "amount", "bound", "is_unrecorded",
    "logged_throttle_time_ms", "verdict",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crosscheck:
    """What was compared, the rows of ``findings`` it leads to, and what was left out, and why.

    ``other_series`` are neither a rate of bytes nor a throttle time.
    """

    comparisons: tuple[Comparison, ...]
    findings: tuple[dict[str, Any], ...]
    left_out: Mapping[str, int]
    other_series: int

    @property
    def compared(self) -> int:
        """Return the number of samples that were compared."""
        return sum(one.compared for one in self.comparisons)

    @property
    def disagreeing(self) -> int:
        """Return the number of samples that disagree."""
        return sum(one.disagreeing for one in self.comparisons)


def crosscheck_metrics(
    scope: RunScope,
    exports: Sequence[Path],
    settings: CrosscheckSettings,
    instances: Mapping[str, int] | None = None,
) -> Crosscheck:
    """Return the comparison of exports with the day's decisions; ``instances`` win over settings.

    Raises BadInputError where an export cannot be read or understood.
    """
    brokers = {broker.broker_id: broker for broker in brokers_of(scope)}
    named = {**settings.instances, **(instances or {})}
    series, others = read_exports(exports, named, brokers)
    decisions = decisions_by_sensor(scope)
    by_sensor, left_out = _by_sensor(series, decisions, brokers)
    logs = _logs_of(scope, brokers.values())
    gaps = read_table(scope, "log_gaps", ["user", "client_id", "missing", "cause", "places"])
    lost = [gap for gap in gaps.to_pylist() if gap["cause"] == "lost_lines"]
    comparisons, findings = [], []
    for key, rows in _rows_of(scope, {key: decisions[key] for key in by_sensor}):
        sensor = _SensorOfDay.of(scope, key, rows, brokers[key.broker_id], logs[key.broker_id])
        for one in by_sensor[key]:
            compared, expectation = _compared(scope, sensor, one, settings)
            comparisons.append(compared)
            left_out.update(compared.left_out)
            if is_disagreement(compared, settings.min_samples, settings.min_share):
                cause = likely_cause(compared, expectation, settings)
                missing = sum(_missing(lost, key))
                findings.append(finding_row(compared, cause, scope.cluster, missing))
    return Crosscheck(tuple(comparisons), tuple(findings), dict(left_out), others)


@dataclass(frozen=True, slots=True)
class _SensorOfDay:
    """A sensor's decisions of the day, and which of its throttles the replay confirms."""

    key: SensorKey
    history: SensorAmounts
    is_confirmed: np.ndarray
    log: BrokerLog

    @classmethod
    def of(
        cls, scope: RunScope, key: SensorKey, rows: pa.Table, broker: Broker, log: BrokerLog
    ) -> _SensorOfDay:
        rows = rows.sort_by([("sensor_epoch", "ascending"), ("sensor_seq", "ascending")])
        columns = {name: rows[name].to_numpy() for name in _COLUMNS if name != "verdict"}
        epoch, seq = columns["sensor_epoch"].astype(np.int64), columns["sensor_seq"]
        carried = _carried(scope, key, int(epoch[0])) if seq[0] > 0 else None
        assert broker.rate_profile is not None, broker
        profile = RateProfile(broker.rate_profile)
        history = SensorAmounts(
            rule=SampleRule(profile, broker.samples, broker.window_ms),
            at_ms=columns["recorded_at_ms"],
            amount=columns["amount"].astype(np.float64),
            bound=columns["bound"].astype(np.float64),
            is_unrecorded=columns["is_unrecorded"].astype(bool),
            throttle_ms=columns["logged_throttle_time_ms"].astype(np.int64),
            epoch=epoch,
            carried=carried,
        )
        agrees = pc.equal(rows["verdict"], "agree").to_numpy().astype(bool)
        return cls(key, history, agrees, log)


def _compared(
    scope: RunScope, sensor: _SensorOfDay, series: QuotaSeries, settings: CrosscheckSettings
) -> tuple[Comparison, Expectation]:
    samples = series.samples
    margin_ms = settings.around_ms + settings.scrape_interval_ms * samples.is_resampled
    decisions, is_rate = sensor.history, series.metric == BYTE_RATE
    if is_rate:
        taken_back = decisions.is_unrecorded & (decisions.throttle_ms > 0)
        history = decisions
        unsure = "amount_not_logged", np.isnan(decisions.amount) & ~taken_back
    else:
        rule = SampleRule(
            decisions.rule.profile, settings.throttle_samples, settings.throttle_window_ms
        )
        history = throttle_history(decisions, rule)
        unsure = "throttle_uncertain", ~sensor.is_confirmed[decisions.throttle_ms > 0]
    first_ms = int(decisions.at_ms[0]) if decisions.carried is None or not is_rate else None
    unknown = unknown_periods(interval_of(scope), sensor.log, history, first_ms, unsure, margin_ms)
    expectation = Expectation(series.metric, history)
    compared = compare(sensor.key, expectation, samples, unknown, settings)
    return compared, expectation


def _by_sensor(
    series: Iterable[QuotaSeries],
    sensors: Iterable[SensorKey],
    brokers: Mapping[int, Broker],
) -> tuple[dict[SensorKey, list[QuotaSeries]], Counter[str]]:
    """Return the series of each sensor that has decisions, and how many samples have none."""
    near: dict[tuple[int, str], list[SensorKey]] = defaultdict(list)
    for key in sensors:
        near[key.broker_id, key.quota_type].append(key)
    found: dict[SensorKey, list[QuotaSeries]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for one in series:
        own = next((k for k in near[one.broker_id, one.quota_type] if one.is_of(k)), None)
        broker = brokers.get(one.broker_id)
        if broker is None or broker.first_ms is None:
            left_out["no_log"] += len(one.samples.at_ms)
        elif own is None:
            left_out["no_decisions"] += len(one.samples.at_ms)
        else:
            found[own].append(one)
    return dict(found), left_out


def _rows_of(
    scope: RunScope, sensors: Mapping[SensorKey, int]
) -> Iterator[tuple[SensorKey, pa.Table]]:
    """Yield the decisions of each sensor; those of several are read at a time, not of all."""
    for together in sensors_at_a_time(sensors):
        rows = read_table(scope, "decisions", [*SENSOR_COLUMNS, *_COLUMNS], sensor_filter(together))
        for key in together:
            yield key, rows.filter(sensor_filter([key]))


def _logs_of(scope: RunScope, brokers: Iterable[Broker]) -> dict[int, BrokerLog]:
    """Return the span and the starts of each broker's log."""
    starts = read_table(scope, "broker_starts", ["broker_id", "started_ms", "source"]).to_pylist()
    return {
        broker.broker_id: BrokerLog(
            broker.first_ms,
            broker.last_ms,
            tuple(
                (row["started_ms"], row["source"] == "server_log")
                for row in starts
                if row["broker_id"] == broker.broker_id
            ),
        )
        for broker in brokers
        if broker.first_ms is not None and broker.last_ms is not None
    }


def _carried(scope: RunScope, key: SensorKey, epoch: int) -> CarriedSamples | None:
    """Return the sensor as the day before left it."""
    where = sensor_filter([key]) & (pc.field("sensor_epoch") == epoch)
    rows = read_table(scope.day_before, "quota_state", ["sample_index", "samples"], where)
    for row in rows.to_pylist():
        held = [(s["start_ms"], s["last_event_ms"], s["value"]) for s in row["samples"]]
        return CarriedSamples(row["sample_index"], held)
    return None


def _missing(gaps: Iterable[Mapping[str, Any]], key: SensorKey) -> Iterator[int]:
    """Yield the requests of the sensor's clients that its broker may have had in each gap."""
    for gap in gaps:
        is_own = key.quota_user in ("", gap["user"]) and key.quota_client_id in (
            "",
            gap["client_id"],
        )
        is_there = any(place["broker_id"] == key.broker_id for place in gap["places"])
        if is_own and is_there:
            yield gap["missing"]


def read_exports(
    paths: Iterable[Path], instances: Mapping[str, int], brokers: Iterable[int]
) -> tuple[list[QuotaSeries], int]:
    """Return the series of all files, and how many series are no rate or throttle of bytes.

    Raises BadInputError where a file cannot be read or understood; see :func:`quota_series`.
    """
    found: list[QuotaSeries] = []
    others = 0
    for path in paths:
        series, other = quota_series(
            read_export(_text_of(path), str(path)), str(path), instances, brokers
        )
        found += series
        others += other
    return found, others


def _text_of(path: Path) -> bytes:
    pieces, size = [], 0
    try:
        with open_regular(path) as raw:
            source = open_packed(raw, path.suffix)
            while piece := source.read1(_PIECE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > EXPORT_BYTES_MAX:
                    raise BadInputError(
                        f"{path} has more than {EXPORT_BYTES_MAX:,} bytes unpacked. Export fewer "
                        "hours or brokers to a file."
                    )
    except (OSError, EOFError, ZstdError, zlib.error) as error:
        raise BadInputError(f"{path} cannot be unpacked: {error}. Export it again.") from error
    return b"".join(pieces)
