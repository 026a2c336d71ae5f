"""What a target is asked to write, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaSet
from spark_jobs.apply.changes.wording import comment, subject

ELSEWHERE = "use the target kafka-configs or admin-json"
"""How refusals end, but those of these two targets."""


@dataclass(frozen=True, slots=True)
class RefusedAlteration:
    """An alteration that a target cannot express: what was found, why, what to use instead."""

    alteration: QuotaAlteration
    reason: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """``text`` is what is applied, ``rollback`` takes it back; what is in neither is refused."""

    text: str
    rollback: str
    refusals: tuple[RefusedAlteration, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a refusal may depend on: all that is to be altered, and what the cluster holds now."""

    alterations: tuple[QuotaAlteration, ...]
    held: QuotaSet


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one document, none of them refused, and the cluster before and after it."""

    title: str
    changes: tuple[QuotaAlteration, ...]
    before: QuotaSet
    after: QuotaSet
    refusals: tuple[RefusedAlteration, ...] = ()

    def by_entity(self) -> dict[Entity, list[QuotaAlteration]]:
        """Return the changes of each entity, entities in the order of their first change."""
        found: dict[Entity, list[QuotaAlteration]] = {}
        for change in self.changes:
            found.setdefault(change.entity, []).append(change)
        return found

    def head(self, *how: str) -> str:
        """Return the comments a document starts with: title, ``how`` to use it, what is missing."""
        lines = [self.title, *how]
        if not self.changes:
            lines.append("No change can be made." if self.refusals else "No change is proposed.")
        if self.refusals:
            lines.append("Not in here, to be seen to by hand:")
            lines += [f"- {subject(r.alteration)}: {r.reason}" for r in self.refusals]
        return comment(*lines)


@dataclass(frozen=True, slots=True)
class Target:
    """A format: why it cannot express an alteration (None: it can), and how it writes a plan."""

    why_not: Callable[[QuotaAlteration, Situation], str | None]
    text: Callable[[Plan], str]
