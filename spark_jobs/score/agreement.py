"""How far the decisions of a replay are those that brokers logged: counted, per sensor and in all.

Two sides are compared: rows of the ``decisions`` table, of which only what was replayed counts,
and the logged outcomes read again from the lines (:mod:`spark_jobs.score.logged_outcomes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SensorKey
from spark_jobs.replay.verdicts.verdicts import STATE_UNKNOWN
from spark_jobs.score.logged_outcomes import (
    DecisionKey,
    LoggedMutation,
    LoggedOutcomes,
    LoggedProduce,
)

COLUMNS = (
    "broker_id", "connection", "correlation_id", *ENTITY_COLUMNS, "resource",
    "sensor_epoch", "sensor_seq", "recorded_at_ms", "amount", "bound",
    "replayed_throttle_time_ms", "replayed_admitted", "verdict", "reason",
)  # fmt: skip
"""What a score reads of the ``decisions`` table."""

FIRST_QUOTA_SLACK_MS = 5000
"""So long a first quota may take to every broker, on a busy machine; no decision is due before."""


@dataclass(slots=True)
class Tally:
    """Counts of decisions; ``throttled`` ones are those that either side throttled."""

    decisions: int = 0
    agreeing: int = 0
    throttled: int = 0
    exact: int = 0
    within_1ms: int = 0
    within_5ms: int = 0
    indeterminate: int = 0
    flagged: int = 0

    def throttle(self, logged_ms: int, replayed_ms: int) -> None:
        """Count one produce by its two throttle times."""
        self.decisions += 1
        self.agreeing += (logged_ms > 0) == (replayed_ms > 0)
        if logged_ms or replayed_ms:
            apart_ms = abs(logged_ms - replayed_ms)
            self.throttled += 1
            self.exact += apart_ms == 0
            self.within_1ms += apart_ms <= 1
            self.within_5ms += apart_ms <= 5

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in (one.name for one in fields(self)):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Agreement:
    """The counts of a whole capture."""

    sensors: dict[SensorKey, Tally] = field(default_factory=dict)
    rows_of: Counter[DecisionKey] = field(default_factory=Counter)
    rows_not_in_log: int = 0
    produce_rows: int = 0
    inside_phases: int = 0
    flags_by_type: Counter[str] = field(default_factory=Counter)
    flagged: set[DecisionKey] = field(default_factory=set)

    def total(self, quota_type: str) -> Tally:
        """Return the counts of all sensors of a quota type."""
        total = Tally()
        for key, tally in self.sensors.items():
            if key.quota_type == quota_type:
                total.add(tally)
        return total


def compare(rows: Iterable[Mapping[str, Any]], logged: LoggedOutcomes) -> Agreement:
    """Return the agreement of the ``decisions`` rows (COLUMNS) with what was logged.

    Produces without a bound, or under a request quota, and mutations without a bound are no
    decisions: they count for coverage and timing only. Neither is a mutation whose bucket is not
    known: nothing was replayed. Fetches are counted where flagged.
    """
    found = Agreement()
    mutations = logged.direct_mutations | logged.mutations
    for row in rows:
        key = (row["broker_id"], row["connection"], row["correlation_id"], row["resource"])
        sensor = SensorKey.of(row)
        tally = found.sensors.setdefault(sensor, Tally())
        if row["verdict"] in WRONG_VERDICTS:
            found.flags_by_type[row["quota_type"]] += 1
            found.flagged.add(key)
            tally.flagged += 1
        if row["quota_type"] == "producer_byte_rate":
            found.rows_of[key] += 1
            _compare_produce(row, logged.produces.get(key), logged, found, tally)
        elif row["quota_type"] == "controller_mutation_rate":
            found.rows_of[key] += 1
            _compare_mutation(row, mutations.get(key), found, tally)
    return found


def _compare_produce(
    row: Mapping[str, Any],
    produce: LoggedProduce | None,
    logged: LoggedOutcomes,
    found: Agreement,
    tally: Tally,
) -> None:
    if produce is None:
        found.rows_not_in_log += 1
        return
    found.produce_rows += 1
    found.inside_phases += produce.earliest_ms <= row["recorded_at_ms"] <= produce.latest_ms
    if row["bound"] is None or logged.is_spared(produce):
        return
    tally.indeterminate += row["verdict"] == "indeterminate"
    tally.throttle(produce.throttle_time_ms, row["replayed_throttle_time_ms"] or 0)


def _compare_mutation(
    row: Mapping[str, Any], mutation: LoggedMutation | None, found: Agreement, tally: Tally
) -> None:
    if mutation is None:
        found.rows_not_in_log += 1
    elif row["bound"] is not None:
        tally.indeterminate += row["verdict"] == "indeterminate"
        if row["reason"] != STATE_UNKNOWN:
            tally.decisions += 1
            tally.agreeing += mutation.is_admitted == row["replayed_admitted"]
