"""Mutations of one interval of a log: what is decided of its lines, and what is handed on.

As for streams (:mod:`stream_interval`): a sensor is handed on as it was some time
before the interval's end, where a stretch of its mutations begins, and the partitions of topics as
they were before the first line that has to be read again. Mutations are few, so lines are replayed
as often as is simple.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.sensors.aligned_mutations import align_mutations
from spark_jobs.replay.sensors.amounts import LINE_ORDER, RECORD_ORDER
from spark_jobs.replay.sensors.mutations import MutationLine, expand_mutations, follow_mutations
from spark_jobs.replay.sensors.replayed_mutations import replay_mutations
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import (
    DECISION,
    REPLAYED,
    STATE,
    BrokerRules,
    CarriedState,
)
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.warehouse.days import HANDOVER_MS, Interval

TWINS_MS = HANDOVER_MS
"""Lines so long before the first that is read again only tell which of those are twins."""
_STATE = ("sensor_epoch", "sensor_seq", "sample_index", "samples", "bucket")
_Aligned = tuple[pa.RecordBatch, dict[SensorKey, Mapping[str, Any]]]


def reads_from_ms(carried: Iterable[tuple[SensorKey, CarriedState]], interval: Interval) -> int:
    """Return the estimate from which on the lines of ``interval`` are read again.

    ``carried`` is what it hands on. A charge that went to another bucket counts for an hour.
    """
    resumed_ms = [
        state.resumes_at[0]
        for (_, quota_type, *_), state in carried
        if quota_type == QuotaType.CONTROLLER_MUTATION_RATE and state.resumes_at is not None
    ]
    from_ms = min([interval.hands_over_ms, *resumed_ms]) - EXPIRED_AFTER_MS
    return max(from_ms, interval.from_ms)


def lines_since(
    lines: Iterable[MutationLine], from_ms: int, interval: Interval
) -> list[MutationLine]:
    """Return the lines of ``interval`` and after it, and those before it estimated since then."""
    return [
        (row, gap)
        for row, gap in lines
        if row["log_time_ms"] >= interval.from_ms or row["recorded_estimate_us"] >= from_ms * 1000
    ]


@dataclass(frozen=True, slots=True)
class ReplayedMutations:
    """Decisions on the interval's own lines and sensors' states, as REPLAYED; and the partitions.

    ``inventory`` is that at the interval's end, ``handed_on`` the next replay's.
    """

    rows: pa.Table
    inventory: PartitionInventory
    handed_on: PartitionInventory


@dataclass(frozen=True, slots=True)
class MutationInterval:
    """What the mutations of an interval are replayed with."""

    interval: Interval
    rules: Mapping[int, BrokerRules]
    carried: Mapping[SensorKey, CarriedState]
    tolerances: Tolerances
    resolutions: ResolutionTable
    broker_log: BrokerLog
    uses_zookeeper: bool = False
    _known: list[tuple[pa.RecordBatch, _Aligned]] = field(default_factory=list, init=False)

    def replayed(
        self, lines: Sequence[MutationLine], inventory: PartitionInventory
    ) -> ReplayedMutations:
        """Return the decisions on ``lines``, the sensors' states and the partitions.

        ``lines`` are, in order, those from :func:`reads_from_ms` on, the interval's and some after.
        ``inventory`` is as handed on.
        """
        until_ms = self.interval.until_ms
        decided = self._decided(self._amounts(lines, inventory.copy()))
        own = [line for line in lines if line[0]["log_time_ms"] < until_ms]
        at_the_end = inventory.copy()
        states = self._states(self._amounts(own, at_the_end))
        from_us = 1000 * reads_from_ms(map(CarriedState.handed_on, states), self.interval)
        follow_mutations(
            (line for line in own if line[0]["recorded_estimate_us"] < from_us),
            inventory,
            self.broker_log,
            uses_zookeeper=self.uses_zookeeper,
        )
        rows = pa.concat_tables([decided, pa.Table.from_pylist(states, REPLAYED)])
        return ReplayedMutations(rows, at_the_end, inventory)

    def _amounts(self, lines: Sequence[MutationLine], inventory: PartitionInventory) -> pa.Table:
        """Return the amounts of ``lines`` that no state handed on has, sensor by sensor."""
        amounts = expand_mutations(
            lines, inventory, self.resolutions, self.broker_log, uses_zookeeper=self.uses_zookeeper
        )
        # A broker of another day's lines may have none of this one.
        amounts = amounts.filter(
            pc.is_in(amounts["broker_id"], pa.array([*self.rules], pa.int32()))
        )
        amounts = amounts.sort_by([(n, "ascending") for n in (*SENSOR_COLUMNS, *RECORD_ORDER)])
        is_open, met = [], set()
        for row in amounts.select([*SENSOR_COLUMNS, *LINE_ORDER, "log_time_ms"]).to_pylist():
            sensor = SensorKey.of(row)
            state = self.carried.get(sensor)
            if row["log_time_ms"] >= self.interval.from_ms or state is None:
                is_open.append(True)
                continue
            place = row["order_us"] // 1000, row["source_file"], row["source_line"]
            first = state.resumes_at
            if first is not None and (place == first or place[0] > first[0]):
                met.add(sensor)
            is_open.append(sensor in met)
        return amounts.filter(pa.array(is_open, pa.bool_()))

    def _decided(self, amounts: pa.Table) -> pa.Table:
        """Return the decisions on the interval's own lines."""
        rows = self._replayed(amounts)
        is_own = pc.equal(rows["row_kind"], DECISION)
        is_own = pc.and_(is_own, pc.greater_equal(rows["log_time_ms"], self.interval.from_ms))
        return rows.filter(pc.and_(is_own, pc.less(rows["log_time_ms"], self.interval.until_ms)))

    def _states(self, amounts: pa.Table) -> list[dict[str, Any]]:
        """Return the sensors' states after ``amounts``, and where each of them resumes."""
        rows = amounts.select([*SENSOR_COLUMNS, *LINE_ORDER, "log_time_ms"]).to_pylist()
        first = self._first_open(amounts, rows)
        is_before = [i < first.get(SensorKey.of(row), len(rows)) for i, row in enumerate(rows)]
        before = self._replayed(amounts.filter(pa.array(is_before, pa.bool_())))
        held = {SensorKey.of(row): row for row in _states_of(before)}
        states = _states_of(self._replayed(amounts))
        for state in states:
            sensor = SensorKey.of(state)
            if sensor in first:
                found = held.get(sensor) or _unmoved(self.carried.get(sensor))
                line = rows[first[sensor]]
                state["resumes_from"] = {
                    "at_ms": line["order_us"] // 1000,
                    "source_file": line["source_file"],
                    "source_line": line["source_line"],
                    **{name: found[name] for name in _STATE},
                }
        return states

    def _first_open(
        self, amounts: pa.Table, rows: Sequence[Mapping[str, Any]]
    ) -> dict[SensorKey, int]:
        """Return, by sensor, the first of ``rows`` that the state handed on shall lack.

        That is where its last stretch before the moment began; after an hour of silence, the first
        since. What follows cannot move a mutation before it. Only lines of the interval itself are
        read again.
        """
        moment_us = self.interval.hands_over_ms * 1000
        of_sensor: defaultdict[SensorKey, list[int]] = defaultdict(list)
        for i, row in enumerate(rows):
            of_sensor[SensorKey.of(row)].append(i)
        is_before = pc.less(amounts["order_us"], moment_us)
        _, begun = self._aligned(amounts.filter(is_before))
        found = {}
        for sensor, places in of_sensor.items():
            since: tuple[Any, ...] = (moment_us,)
            times = [rows[i]["order_us"] for i in places if rows[i]["order_us"] < moment_us]
            if times and moment_us - times[-1] <= EXPIRED_AFTER_MS * 1000:
                since = tuple(begun[sensor][name] for name in LINE_ORDER)
            open_rows = [i for i in places if tuple(rows[i][n] for n in LINE_ORDER) >= since]
            for i in reversed(open_rows):
                if rows[i]["log_time_ms"] < self.interval.from_ms:
                    break
                found[sensor] = i
        return found

    def _replayed(self, amounts: pa.Table) -> pa.Table:
        aligned, _ = self._aligned(amounts)
        return replay_mutations(aligned, self.rules, self.carried, self.tolerances)

    def _aligned(self, amounts: pa.Table) -> _Aligned:
        """Return the rows (AMOUNTS) as recorded, and the line that begins the last stretch.

        Such as 241 rows, and line 1,021 of a sensor (:func:`align_mutations`). Where a day's log
        ends with the interval, what is decided and what is handed on are of the same amounts: they
        are aligned once.
        """
        batch = _batch(amounts)
        for known, aligned in self._known:
            if known.equals(batch):
                return aligned
        aligned = align_mutations(batch, self.rules, self.carried, self.tolerances.change_ms)
        self._known.append((batch, aligned))
        return aligned


def _batch(amounts: pa.Table) -> pa.RecordBatch:
    batches = amounts.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], amounts.schema)


def _states_of(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.filter(pc.equal(rows["row_kind"], STATE)).to_pylist()
    return found


def _unmoved(state: CarriedState | None) -> Mapping[str, Any]:
    """Return the columns _STATE of a sensor without an amount since it was handed on, if it was."""
    state = state or CarriedState(0, 0, 0, ())
    bucket = None if state.bucket is None else state.bucket._asdict()
    told = {"sensor_epoch": state.sensor_epoch, "sensor_seq": state.sensor_seq}
    return told | {"sample_index": 0, "samples": [], "bucket": bucket}
