"""What a change of quotas needs of a cluster, and what it can be answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaKey
from spark_jobs.errors import BadInputError


class AnswerKind(StrEnum):
    """What became of the changes of one entity, by the answer."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """No answer came (in time): the change may happen, now or later."""


@dataclass(frozen=True, slots=True)
class EntityAnswer:
    """The answer about one entity; Kafka takes or refuses an entity's changes as one."""

    kind: AnswerKind
    message: str | None = None


ACCEPTED = EntityAnswer(AnswerKind.ACCEPTED)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Which cluster answered (None: it did not say), and its brokers known to be down."""

    cluster_id: str | None
    down_broker_ids: tuple[int, ...] = ()


class QuotaAdminError(BadInputError):
    """A call to the cluster failed as a whole; nothing is known to have changed (exit 2)."""


class QuotaAdmin(Protocol):
    """A cluster whose client quotas can be read and altered."""

    def facts(self) -> ClusterFacts:
        """Return the cluster's id and its brokers that are down. Raises QuotaAdminError."""

    def values(self, entities: Iterable[Entity]) -> Mapping[QuotaKey, float]:
        """Return the own values of the entities, of every quota type. Raises QuotaAdminError."""

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> Mapping[Entity, EntityAnswer]:
        """Ask for the changes in one request and return the answer for every entity.

        With ``validate_only`` the cluster says what it would answer and changes nothing. Never
        raises for what the cluster, or the way to it, did: that is the answer.
        """
