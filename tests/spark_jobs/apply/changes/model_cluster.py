"""A cluster in memory that answers as Kafka does, and fails as a test says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_jobs.apply.changes.quota_admin import (
    ACCEPTED,
    AnswerKind,
    ClusterFacts,
    EntityAnswer,
    QuotaAdminError,
)
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaKey

WRONG_VALUE = EntityAnswer(AnswerKind.REFUSED, "Quota must be greater than 0")
LOST = EntityAnswer(AnswerKind.UNKNOWN, "no answer in time")


@dataclass(slots=True)
class ModelCluster:
    """Values by quota key.

    ``fails`` are answers to entities when they are really altered; the changes of those in
    ``lost_but_done`` happen all the same, of those in ``ignores`` never. After a change it shows
    its old values ``lag`` times, and after ``unreadable_after`` reads none.
    """

    held: dict[QuotaKey, float] = field(default_factory=dict)
    fails: dict[Entity, EntityAnswer] = field(default_factory=dict)
    lost_but_done: set[Entity] = field(default_factory=set)
    ignores: set[Entity] = field(default_factory=set)
    lag: int = 0
    unreadable_after: int | None = None
    cluster_id: str = "the-cluster"
    down_broker_ids: tuple[int, ...] = ()
    writes: list[list[QuotaAlteration]] = field(default_factory=list)
    reads: int = 0
    _shown: dict[QuotaKey, float] | None = None

    def facts(self) -> ClusterFacts:
        return ClusterFacts(self.cluster_id, self.down_broker_ids)

    def values(self, entities: Iterable[Entity]) -> dict[QuotaKey, float]:
        self.reads += 1
        if self.unreadable_after is not None and self.reads > self.unreadable_after:
            raise QuotaAdminError("nobody answers")
        wanted = set(entities)
        shown = self.held
        if self._shown is not None and self.lag > 0:
            self.lag -= 1
            shown = self._shown
        return {key: value for key, value in shown.items() if key[1:] in wanted}

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> dict[Entity, EntityAnswer]:
        answers = {
            a.entity: self._answer(a.entity, alterations, validate_only) for a in alterations
        }
        if validate_only:
            return answers
        self.writes.append(list(alterations))
        self._shown = dict(self.held)
        for one in alterations:
            happens = answers[one.entity] is ACCEPTED or one.entity in self.lost_but_done
            if happens and one.entity not in self.ignores:
                self._set(one)
        return answers

    def _answer(
        self, entity: Entity, alterations: Sequence[QuotaAlteration], validate_only: bool
    ) -> EntityAnswer:
        values = [a.after for a in alterations if a.entity == entity]
        if any(value is not None and value <= 0 for value in values):
            return WRONG_VALUE
        return ACCEPTED if validate_only else self.fails.get(entity, ACCEPTED)

    def _set(self, one: QuotaAlteration) -> None:
        if one.after is None:
            self.held.pop(one.key, None)
        else:
            self.held[one.key] = one.after


class Patience:
    """What says ``times`` times that there is time left to wait."""

    def __init__(self, times: int = 5) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0
