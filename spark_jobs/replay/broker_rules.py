"""Which rate profile each broker follows: as given, or the one that explains its log best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import BROKERS
from spark_jobs.warehouse.write import write_table

# What current brokers follow: used where a log has no throttle that could tell.
NEWEST_PROFILE = RateProfile.RATE_3_8


@dataclass(frozen=True, slots=True)
class ProfileScore:
    """How well one profile explains one broker's logged produce throttles."""

    broker_id: int
    profile: RateProfile
    decisions: int
    agreeing: int
    throttled: int
    within_1ms: int

    @property
    def rank(self) -> tuple[float, float]:
        """Return the shares that rank profiles: of exact throttles, then of equal decisions."""
        return (
            self.within_1ms / self.throttled if self.throttled else 0.0,
            self.agreeing / self.decisions if self.decisions else 0.0,
        )


def rules_of(scope: RunScope, assumed: Mapping[int, RateProfile]) -> dict[int, BrokerRules]:
    """Return each broker's rules; ``assumed`` is used where the table knows no profile."""
    rules = {}
    for row in read_table(scope, "brokers").to_pylist():
        profile = assumed.get(row["broker_id"]) or row["rate_profile"]
        rules[row["broker_id"]] = BrokerRules(
            profile=RateProfile(profile),
            samples=row["samples"],
            window_ms=row["window_ms"],
            controller_samples=row["controller_samples"],
            controller_window_ms=row["controller_window_ms"],
        )
    return rules


def profiled_brokers(
    scope: RunScope, scores: Callable[[], Sequence[ProfileScore]]
) -> dict[int, BrokerRules]:
    """Return every broker's rules, detecting the profiles that neither user nor archive named.

    What was detected is written into the ``brokers`` table. ``scores`` are asked for only then.
    """
    unknown = {
        r["broker_id"] for r in read_table(scope, "brokers").to_pylist() if not r["rate_profile"]
    }
    if not unknown:
        return rules_of(scope, {})
    best = best_profiles(scores())
    assumed = {broker: best[broker][-1] if broker in best else NEWEST_PROFILE for broker in unknown}
    rules = rules_of(scope, assumed)
    _record(scope, assumed, detected=set(best))
    return rules


def best_profiles(scores: Sequence[ProfileScore]) -> dict[int, tuple[RateProfile, ...]]:
    """Return the profiles that explain each broker's log best, oldest first.

    They are several where the log does not tell them apart; a broker whose log tells none from
    another is left out.
    """
    best: dict[int, tuple[RateProfile, ...]] = {}
    for broker_id in {score.broker_id for score in scores}:
        of_broker = [s for s in scores if s.broker_id == broker_id and s.throttled]
        top = max((s.rank for s in of_broker), default=None)
        equal = tuple(
            p for p in RateProfile if any(s.profile is p and s.rank == top for s in of_broker)
        )
        if 0 < len(equal) < len(RateProfile):
            best[broker_id] = equal
    return best


def _record(scope: RunScope, assumed: Mapping[int, RateProfile], detected: set[int]) -> None:
    rows = read_table(scope, "brokers").to_pylist()
    for row in rows:
        if row["broker_id"] in assumed:
            row["rate_profile"] = str(assumed[row["broker_id"]])
            row["version_source"] = "detected" if row["broker_id"] in detected else "unknown"
    write_table(pa.Table.from_pylist(rows, schema=BROKERS), "brokers", scope)
