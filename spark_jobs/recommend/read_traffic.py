"""The traffic of a day's sensors, read from ``decisions`` in portions that fit into memory.

Client-ids of a user may share one bucket. Whose request each decision was stands in ``decisions``
alone, so what each of them asks for, and the others without it, is read here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.weigh.traffic import (
    TRAFFIC_COLUMNS,
    QuotaSensor,
    SensorId,
    SensorTraffic,
    split_by_sensor,
)

PORTION_ROWS_MAX = 500_000
"""Decisions held at once; a single sensor with more is held whole."""

SHARED_TYPES = (
    QuotaType.PRODUCER_BYTE_RATE,
    QuotaType.CONSUMER_BYTE_RATE,
    QuotaType.CONTROLLER_MUTATION_RATE,
)
SHARED_LEVELS = ("user", "default-user")
"""Levels at which all client-ids of a user that have no value of their own share one bucket."""

ClientAmounts = dict[str, float]
"""What was delivered, appended or admitted, by client-id."""

Aggregate = tuple[str, str, pc.FunctionOptions | None, str]
"""Column, Acero's function, its options, and what the result is called."""


def bound_sensors(decisions: ds.Dataset) -> list[QuotaSensor]:
    """Return the sensors that a quota still bounds at their last decision, sorted by key.

    Reads ``decisions`` batch by batch: what is held is one row per sensor and value of its quota.
    """
    aggregates: list[Aggregate] = [
        ("recorded_at_ms", "hash_count", pc.CountOptions(mode="all"), "decisions"),
        ("recorded_at_ms", "hash_max", None, "last_ms"),
    ]
    by_sensor: dict[SensorId, list[dict[str, Any]]] = {}
    for row in grouped(decisions, [*ENTITY_COLUMNS, "quota_level", "bound"], aggregates):
        by_sensor.setdefault(tuple(row[name] for name in ENTITY_COLUMNS), []).append(row)
    sensors = (_sensor(key, rows) for key, rows in sorted(by_sensor.items()))
    return [sensor for sensor in sensors if sensor is not None]


def _sensor(key: SensorId, rows: list[dict[str, Any]]) -> QuotaSensor | None:
    last = max(rows, key=lambda r: (r["last_ms"], r["bound"] is not None, r["bound"] or 0.0))
    if last["bound"] is None or last["quota_level"] is None:
        return None
    return QuotaSensor(
        key=key,
        decisions=sum(row["decisions"] for row in rows),
        last_ms=last["last_ms"],
        level=last["quota_level"],
        bound=last["bound"],
    )


def traffic_of(
    decisions: ds.Dataset, sensors: Iterable[QuotaSensor], rows_max: int = PORTION_ROWS_MAX
) -> Iterator[SensorTraffic]:
    """Yield the traffic of ``sensors``, holding ``rows_max`` decisions or one sensor at a time."""
    for portion in _portions(sensors, rows_max):
        yield from split_by_sensor(read_sensors(decisions, [sensor.key for sensor in portion]))


def _portions(sensors: Iterable[QuotaSensor], rows_max: int) -> Iterator[list[QuotaSensor]]:
    portion: list[QuotaSensor] = []
    rows = 0
    for sensor in sensors:
        if portion and rows + sensor.decisions > rows_max:
            yield portion
            portion, rows = [], 0
        portion.append(sensor)
        rows += sensor.decisions
    if portion:
        yield portion


def read_sensors(decisions: ds.Dataset, keys: Sequence[SensorId]) -> pa.Table:
    """Return all decisions of the sensors named by ``keys``, in TRAFFIC_COLUMNS."""
    wanted = pa.table(dict(zip(ENTITY_COLUMNS, map(list, zip(*keys, strict=True)), strict=True)))
    # Each part by itself skips files early; only all three together say which rows are meant.
    parts = [pc.field(name).isin(wanted[name].unique()) for name in ENTITY_COLUMNS]
    batches = decisions.to_batches(
        columns=list(TRAFFIC_COLUMNS), filter=parts[0] & parts[1] & parts[2]
    )
    tables = (
        pa.Table.from_batches([batch]).join(
            wanted, keys=list(ENTITY_COLUMNS), join_type="left semi"
        )
        for batch in batches
        if len(batch)
    )
    return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class Parts:
    """A bucket's traffic of a day, and the same in two: of those that leave it, and the others."""

    whole: SensorTraffic
    alone: SensorTraffic | None
    others: SensorTraffic | None


def parts_of(
    decisions: ds.Dataset, client_ids: Mapping[SensorId, Collection[str]]
) -> Iterator[Parts]:
    """Yield each bucket that has traffic, parted from some client-ids; one is held at a time."""
    for key, leaving in sorted(client_ids.items()):
        table = read_sensors(decisions, [key])
        if not table.num_rows:
            continue
        is_own = pc.is_in(
            pc.fill_null(table["client_id"], ""), pa.array(sorted(leaving), pa.string())
        )
        yield Parts(
            split_by_sensor(table)[0],
            _only(table.filter(is_own)),
            _only(table.filter(pc.invert(is_own))),
        )


def _only(table: pa.Table) -> SensorTraffic | None:
    return next(iter(split_by_sensor(table)), None)


def amounts_by_client(
    decisions: ds.Dataset, keys: Collection[SensorId]
) -> dict[SensorId, ClientAmounts]:
    """Return each client-id's amount in the buckets ``keys``; the empty client-id has no name.

    Reads ``decisions`` batch by batch: what is held is one number for each client-id.
    """
    if not keys:
        return {}
    parts = [
        pc.field(name).isin(pa.array(sorted(set(values))))
        for name, values in zip(ENTITY_COLUMNS, zip(*keys, strict=True), strict=True)
    ]
    wanted = parts[0] & parts[1] & parts[2]
    served = pc.field("logged_admitted") & ~pc.field("is_unrecorded")
    rows = grouped(
        decisions,
        [*ENTITY_COLUMNS, "client_id"],
        [("amount", "hash_sum", None, "amount")],
        where=wanted & served,
        also_read=["is_unrecorded", "logged_admitted"],
    )
    found: dict[SensorId, ClientAmounts] = defaultdict(dict)
    for row in rows:
        key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
        if key in keys:
            client_id = row["client_id"] or ""
            found[key][client_id] = found[key].get(client_id, 0.0) + (row["amount"] or 0.0)
    return dict(found)


def summed(days: Iterable[ClientAmounts]) -> ClientAmounts:
    """Return the amounts of all days, by client-id."""
    total: ClientAmounts = defaultdict(float)
    for amounts in days:
        for client_id, amount in amounts.items():
            total[client_id] += amount
    return dict(total)


def grouped(
    data: ds.Dataset,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate] = (),
    where: pc.Expression | None = None,
    also_read: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return a row for each group of ``keys``, of the rows ``where`` (all of them without).

    ``also_read`` are the columns of ``where`` that are neither keys nor aggregated.
    """
    columns = list(dict.fromkeys([*keys, *(column for column, *_ in aggregates), *also_read]))
    scan = acero.ScanNodeOptions(data, columns=columns, filter=where)
    steps = [acero.Declaration("scan", scan)]
    if where is not None:
        # A scan passes over files and row groups only.
        steps.append(acero.Declaration("filter", acero.FilterNodeOptions(where)))
    options = acero.AggregateNodeOptions(list(aggregates), keys=list(keys))
    steps.append(acero.Declaration("aggregate", options))
    rows: list[dict[str, Any]] = acero.Declaration.from_sequence(steps).to_table().to_pylist()
    return rows
