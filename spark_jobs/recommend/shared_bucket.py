"""Buckets that several client-ids of a user share: what each asks for, and the others without it.

The ``demand`` table has sensors only. Whose request each decision was stands in ``decisions``, so
that is read here, of the buckets that are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.recommend.backtest import BrokerRule, windowed_rates
from spark_jobs.recommend.observation import Observation, observe
from spark_jobs.recommend.sensors import Sensor, grouped, read_sensors
from spark_jobs.recommend.traffic import SENSOR, SensorKey, SensorTraffic, split_by_sensor

SHARED_TYPES = (
    QuotaType.PRODUCER_BYTE_RATE,
    QuotaType.CONSUMER_BYTE_RATE,
    QuotaType.CONTROLLER_MUTATION_RATE,
)
SHARED_LEVELS = ("user", "default-user")
"""Levels at which all client-ids of a user that have no value of their own share one bucket."""

OWN_LEVEL = "user+client-id"

ClientAmounts = dict[str, float]
"""What was delivered, appended or admitted, by client-id."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A bucket's traffic of a day, and the same in two: of those that leave it, and the others."""

    whole: SensorTraffic
    alone: SensorTraffic | None
    others: SensorTraffic | None


def amounts_by_client(
    decisions: ds.Dataset, keys: Collection[SensorKey]
) -> dict[SensorKey, ClientAmounts]:
    """Return how much each client-id made of the buckets ``keys``, the empty one for no name.

    Reads ``decisions`` batch by batch: what is held is one number for each client-id.
    """
    if not keys:
        return {}
    parts = [
        pc.field(name).isin(pa.array(sorted(set(values))))
        for name, values in zip(SENSOR, zip(*keys, strict=True), strict=True)
    ]
    wanted = parts[0] & parts[1] & parts[2]
    settled = pc.field("logged_admitted") & ~pc.field("is_unrecorded")
    rows = grouped(
        decisions,
        [*SENSOR, "client_id"],
        [("amount", "hash_sum", None, "amount")],
        where=wanted & settled,
        also_read=["is_unrecorded", "logged_admitted"],
    )
    found: dict[SensorKey, ClientAmounts] = defaultdict(dict)
    for row in rows:
        key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
        if key in keys:
            client_id = row["client_id"] or ""
            found[key][client_id] = found[key].get(client_id, 0.0) + (row["amount"] or 0.0)
    return dict(found)


def parts_of(
    decisions: ds.Dataset, client_ids: Mapping[SensorKey, Collection[str]]
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


def seen_alone(
    key: SensorKey,
    bound: float,
    traffic: SensorTraffic,
    rules: Mapping[int, BrokerRule],
    level: str = OWN_LEVEL,
) -> Observation:
    """Return what a bucket ``key`` would show that has all of ``traffic``, and nothing else.

    Its rates are of that traffic alone; the throttles are those the traffic's amounts have.
    """
    amounts = replace(traffic.amounts, rate=windowed_rates(traffic, rules))
    last_ms = int(amounts.recorded_at_ms.max())
    sensor = Sensor(key, len(amounts), last_ms, level, bound)
    seen = observe(sensor, replace(traffic, amounts=amounts), 0, rules)
    return replace(seen, seconds=max(load.seconds for load in seen.brokers))


def summed(days: Iterable[ClientAmounts]) -> ClientAmounts:
    """Return the amounts of all days, by client-id."""
    total: ClientAmounts = defaultdict(float)
    for amounts in days:
        for client_id, amount in amounts.items():
            total[client_id] += amount
    return dict(total)
