"""Three weeks of simulated days: what each way of recommending values leads to.

Clients want what they want (a week's shape, a growing one, a burst that comes once, a newcomer, one
that is too tight, one that is fine), and wait while they are muted. At the end of each day each way
sees its own log and sets the values of the next day; so each way lives in a world of its own. The
oracle knows the next day. Regret is the time clients were muted beyond the oracle's.

Baselines: the 99th percentile, or the largest, windowed rate of the hottest broker over the last
week, times 1.15.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.recommend.rolling_origin import EarlierDay
from spark_jobs.recommend.weigh.observation import Observation
from spark_jobs.recommend.weigh.outlook import SeenDay, seen_day
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS
from tests.builders.tables_builder import NOON_MS, Row, row, table_of
from tests.spark_jobs.recommend.day import produces, rates_of

DAYS = 21
SECONDS = 300
PER_SECOND = 5
FIRST_BOUND = 60_000.0
BROKERS = (1, 2)
# The hottest broker serves so much of a client.
SHARES = (0.6, 0.4)
FIRST_DAY = NOON_MS // DAY_MS
MARGIN = 1.15


def wanted_rates(day: int) -> dict[str, float]:
    """Return the bytes per second that each client wants of both brokers on a day."""
    weekday = day % 7
    weekly = 1.0 if weekday < 5 else 0.4
    rates = {
        "weekly": 130_000.0 * weekly,
        "growing": 60_000.0 * 1.06**day,
        "burst": 60_000.0 * (6.0 if day == 9 else 1.0),
        "tight": 160_000.0,
        "fine": 70_000.0,
        "idle": 4_000.0,
    }
    if day >= 10:
        rates["newcomer"] = 170_000.0
    return rates


def wanted(day: int, seed: int) -> dict[str, list[tuple[int, list[tuple[int, float]]]]]:
    """Return what each client wants to send: by broker, (ms after noon, bytes)."""
    found = {}
    for name, rate in wanted_rates(day).items():
        chance = random.Random(f"{seed} {day} {name}")
        found[name] = [
            (broker, _requests(rate * share, chance))
            for broker, share in zip(BROKERS, SHARES, strict=True)
        ]
    return found


def _requests(rate: float, chance: random.Random) -> list[tuple[int, float]]:
    """Return requests with a swell in the middle of the time, and chance."""
    made = []
    for i in range(SECONDS * PER_SECOND):
        swell = 0.75 + 0.25 * math.sin(math.pi * i / (SECONDS * PER_SECOND))
        made.append((i * 1000 // PER_SECOND, rate / PER_SECOND * swell * chance.uniform(0.7, 1.3)))
    return made


@dataclass(slots=True)
class World:
    """One way's values and what they led to."""

    values: dict[str, float] = field(default_factory=dict)
    days: list[EarlierDay] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    muted_ms: int = 0
    raises: int = 0
    needed_raises: int = 0
    changed: int = 0
    value_days: float = 0.0
    demand_days: float = 0.0


Way = Callable[[World, int, Sequence[Observation], ds.Dataset], Mapping[str, float]]


def live(world: World, day: int, seed: int) -> tuple[list[Observation], ds.Dataset]:
    """Return a day's log under the world's values; counts what was muted."""
    rows: list[Row] = []
    for name, brokers in wanted(day, seed).items():
        world.values.setdefault(name, FIRST_BOUND)
        for broker, requests in brokers:
            made = produces(
                requests, world.values[name], waits=True, quota_user=name, user=name,
                broker_id=broker,
            )  # fmt: skip
            rows += [r | {"recorded_at_ms": r["recorded_at_ms"] + day * DAY_MS} for r in made]
    table = table_of("decisions", rows)
    seen = observed(table, rates_of(rows), BROKER_ROWS)
    world.muted_ms += sum(o.muted_ms for o in seen)
    return seen, ds.dataset(table)


BROKER_ROWS = table_of("brokers", [row("brokers", broker_id=b) for b in BROKERS])


def needs(day: int, seed: int) -> dict[str, float]:
    """Return the least value that throttles nobody on a day: the largest rate of a full window."""
    found = {}
    for name, brokers in wanted(day, seed).items():
        largest = 0.0
        for _, requests in brokers:
            (seen,) = observed(
                table_of("decisions", made := produces(requests, 1e12, quota_user=name, user=name)),
                rates_of(made),
                BROKER_ROWS,
            )
            largest = max(largest, seen.hottest.peak_rate)
        found[name] = largest
    return found


def by_proposals(
    world: World, day: int, seen: Sequence[Observation], decisions: ds.Dataset
) -> Mapping[str, float]:
    """Return the values with what is proposed at the end of the day."""
    rows = recommend(
        seen,
        decisions,
        table_of("quota_changes", world.changes),
        BROKER_ROWS,
        table_of("findings", []),
        RecommendSettings(lower_min_days=7),
        world.days,
        FIRST_DAY + day,
    ).to_pylist()
    proposed = {r["quota_user"]: r["proposed"] for r in rows if r["status"] == "proposed"}
    return world.values | {name: value for name, value in proposed.items() if value}


def by_rate(name: str) -> Way:
    """Return the baseline that follows a figure of the hottest broker's windowed rate."""

    def way(
        world: World, day: int, seen: Sequence[Observation], decisions: ds.Dataset
    ) -> Mapping[str, float]:
        week = [one.seen for one in world.days[-6:]] + [seen_day(FIRST_DAY + day, seen)]
        return world.values | {
            user: max(_figure(one, user, name) for one in week) * MARGIN
            for user in (o.sensor.key[1] for o in seen)
        }

    return way


def _figure(day: SeenDay, user: str, name: str) -> float:
    loads = (load for key, o in day.observations.items() if key[1] == user for load in o.brokers)
    return max((float(getattr(load.rates, name)) for load in loads), default=0.0)


def simulated(way: Way | None, seed: int, wants: Sequence[Mapping[str, float]]) -> World:
    """Return the world of a way after all days; None is the oracle."""
    world = World()
    for day in range(DAYS):
        if way is None:
            world.values = dict(wants[day])
        known = set(world.values) if day else set()
        seen, decisions = live(world, day, seed)
        for name in world.values.keys() - known:
            world.changes.append(_change(name, world.values[name], (FIRST_DAY + day) * DAY_MS))
        world.value_days += sum(world.values[name] for name in wants[day])
        world.demand_days += sum(wants[day].values())
        if way is not None and day < DAYS - 1:
            _set(world, day, way(world, day, seen, decisions), wants[day + 1])
            world.days.append(EarlierDay(seen_day(FIRST_DAY + day, seen), decisions))
    return world


def _set(world: World, day: int, new: Mapping[str, float], next_wants: Mapping[str, float]) -> None:
    """Set the next day's values, and count what was changed and whether it was needed."""
    set_ms = (FIRST_DAY + day + 1) * DAY_MS
    for name, value in new.items():
        old = world.values[name]
        if value == old:
            continue
        world.changed += 1
        if value > old:
            world.raises += 1
            world.needed_raises += next_wants.get(name, 0.0) > old
        for change in world.changes:
            if change["quota_user"] == name and change["valid_until_ms"] is None:
                change["valid_until_ms"] = set_ms
        world.changes.append(_change(name, value, set_ms))
    world.values = dict(new)


def _change(name: str, value: float, from_ms: int) -> Row:
    entity = {"quota_user": name, "quota_client_id": None}
    return row("quota_changes", bound=value, valid_from_ms=from_ms, **entity)


def main() -> None:
    """Print the table."""
    ways: dict[str, Way | None] = {
        "oracle (knows the next day)": None,
        "quota-audit recommend": by_proposals,
        "p99 x 1.15 of the hottest broker": by_rate("p99"),
        "max x 1.15 of the hottest broker": by_rate("largest"),
    }
    seed = 1
    wants = [needs(day, seed) for day in range(DAYS)]
    table = Table(
        "way", "muted s", "regret s", "raises", "of them needed", "changes", "value / need"
    )
    oracle_ms = 0
    for name, way in ways.items():
        world = simulated(way, seed, wants)
        oracle_ms = world.muted_ms if way is None else oracle_ms
        precision = f"{world.needed_raises / world.raises:.2f}" if world.raises else ""
        table.add_row(
            name,
            f"{world.muted_ms / 1000:,.0f}",
            f"{(world.muted_ms - oracle_ms) / 1000:,.0f}",
            str(world.raises),
            precision,
            str(world.changed),
            f"{world.value_days / world.demand_days:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
