"""What one run found, read from its published tables: what page and terminal both say."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.judge.decision_counts import (
    DecisionCount,
    SensorUse,
    VerdictCounts,
)
from spark_jobs.judge.log_span import Broker
from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.findings import Finding
from spark_jobs.publish.facts.news import News
from spark_jobs.publish.facts.proposals import (
    ChangeResult,
    Proposal,
)
from spark_jobs.publish.facts.quality import LinesOfFile, StageQuality
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.warehouse.scope import RunScope


@dataclass(frozen=True, slots=True)
class SensorAgreement:
    """One sensor's row of ``tables.AGREEMENT``; counts of decisions."""

    sensor: SensorKey
    decisions: int
    same_decision: int
    throttles: int
    within_1ms: int
    residual_max_ms: int
    proven: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The sensors that throttled or should have, the least explained first."""

    sensors: tuple[SensorAgreement, ...]

    @property
    def throttles(self) -> int:
        """Return the number of throttles that were compared."""
        return sum(each.throttles for each in self.sensors)

    @property
    def within_1ms(self) -> int:
        """Return the number of compared throttles that the replay gives to the millisecond."""
        return sum(each.within_1ms for each in self.sensors)


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """One run's facts; ``span_ms`` is the log's first and last request in epoch ms.

    ``team``: those of one owner's clients only; None: of all.
    """

    scope: RunScope
    brokers: tuple[Broker, ...]
    span_ms: tuple[int, int] | None
    counted: tuple[DecisionCount, ...]
    verdicts: VerdictCounts
    findings: tuple[Finding, ...]
    uses: dict[SensorKey, SensorUse]
    throttled: tuple[ThrottledSensor, ...]
    throttled_by_second: pa.Table
    proposals: tuple[Proposal, ...]
    stages: tuple[StageQuality, ...]
    files: tuple[LinesOfFile, ...]
    agreement: Agreement
    news: News
    applied: tuple[ChangeResult, ...] = ()
    team: str | None = None

    def broker(self, broker_id: int) -> Broker | None:
        """Return the broker with this id, if it is known."""
        return next((b for b in self.brokers if b.broker_id == broker_id), None)

    @property
    def requests(self) -> int:
        """Return the number of requests in the log."""
        return sum(broker.requests for broker in self.brokers)

    @property
    def changes(self) -> tuple[Proposal, ...]:
        """Return the recommendations that change a quota."""
        return tuple(p for p in self.proposals if p.status == "proposed")

    @property
    def never_throttled(self) -> tuple[SensorUse, ...]:
        """Return the uses of sensors with a quota and no throttle, the closest to it first."""
        held_back = {throttled.sensor for throttled in self.throttled}
        free = [u for s, u in self.uses.items() if u.decisions and s not in held_back]
        return tuple(sorted(free, key=lambda use: (-use.use_of_bound, use.sensor)))
