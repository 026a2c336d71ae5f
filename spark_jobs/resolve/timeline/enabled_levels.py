"""When which quota levels were enabled on a broker: ``quotaTypesEnabled`` over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.resolve.timeline.default_quota_callback import EnabledLevels

BEGINNING_MS = -(1 << 62)
"""Stands for minus infinity: before every log."""
END_MS = 1 << 62
"""Stands for plus infinity: after every log."""

LevelSpan = tuple[EnabledLevels, int, int]
"""One quota's level and the time [from_ms, until_ms) the quota was set."""
LevelSteps = tuple[tuple[int, EnabledLevels], ...]
"""(from_ms, levels enabled from then on), in time order, the first from BEGINNING_MS."""

_FIRST_WITHOUT_ZOOKEEPER = (4, 0)
_FIRST_WITH_MUTATION_QUOTA = (2, 7)
_FIRST_THAT_FORGETS = (4, 2)
_VERSION = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class LevelRule:
    """How a broker keeps the levels of its quota types.

    ``shared_types``: a quota of one of these enables its level for all of them. With ZooKeeper
    every change of an entity goes to every type's manager, as removed where the entity has no
    value of it (Kafka: ``QuotaConfigHandler.updateQuotaConfig``).

    ``until_restart``: a level stays enabled after its last quota was removed. Since 4.2 it does
    not (KAFKA-19282, ``ClientQuotaManager.updateQuotaTypes``).
    """

    shared_types: frozenset[str] = frozenset()
    until_restart: bool = True

    def types_with(self, quota_type: str) -> frozenset[str]:
        """Return the types whose quotas enable levels for ``quota_type``, itself among them."""
        own = frozenset((quota_type,))
        return own | self.shared_types if quota_type in self.shared_types else own

    @classmethod
    def of_broker(cls, version: str | None, *, uses_zookeeper: bool) -> LevelRule:
        """Return the rule of a broker; an unknown version counts as KRaft before 4.2.

        >>> LevelRule.of_broker("4.2.0", uses_zookeeper=False).until_restart
        False
        """
        found = _VERSION.match(version or "")
        release = (int(found[1]), int(found[2])) if found else (3, 0)
        if uses_zookeeper and release < _FIRST_WITHOUT_ZOOKEEPER:
            has_mutations = release >= _FIRST_WITH_MUTATION_QUOTA
            return cls(shared_types=frozenset(QUOTA_TYPES if has_mutations else QUOTA_TYPES[:3]))
        return cls(until_restart=release < _FIRST_THAT_FORGETS)


def level_steps(
    spans: Iterable[LevelSpan], rule: LevelRule, restarts_ms: Sequence[int] = ()
) -> LevelSteps:
    """Return the levels enabled over time, given the quotas set and the broker's restarts."""
    steps = (
        _kept_until_restart(list(spans), restarts_ms) if rule.until_restart else _while_set(spans)
    )
    merged: list[tuple[int, EnabledLevels]] = []
    for from_ms, levels in steps:
        if merged and merged[-1][0] == from_ms:
            merged.pop()
        if not merged or merged[-1][1] != levels:
            merged.append((from_ms, levels))
    return tuple(merged)


def _kept_until_restart(
    spans: Sequence[LevelSpan], restarts_ms: Sequence[int]
) -> list[tuple[int, EnabledLevels]]:
    """Keep at a restart the levels of quotas set at that moment; between two, only add."""
    steps: list[tuple[int, EnabledLevels]] = []
    for begin, end in pairwise((BEGINNING_MS, *sorted(restarts_ms), END_MS)):
        gained_ms: dict[EnabledLevels, int] = {}
        for level, from_ms, until_ms in spans:
            first = max(from_ms, begin)
            if first < min(until_ms, end):
                gained_ms[level] = min(first, gained_ms.get(level, END_MS))
        levels = EnabledLevels.NONE
        steps.append((begin, levels))
        for level, at_ms in sorted(gained_ms.items(), key=lambda item: item[1]):
            levels |= level
            steps.append((at_ms, levels))
    return steps


def _while_set(spans: Iterable[LevelSpan]) -> list[tuple[int, EnabledLevels]]:
    changes: list[tuple[int, int, EnabledLevels]] = []
    for level, from_ms, until_ms in spans:
        changes += [(from_ms, 1, level), (until_ms, -1, level)]
    count = dict.fromkeys(
        (EnabledLevels.CLIENT_ID, EnabledLevels.USER, EnabledLevels.USER_CLIENT_ID), 0
    )
    steps = [(BEGINNING_MS, EnabledLevels.NONE)]
    for at_ms, change, level in sorted(changes):
        count[level] += change
        levels = EnabledLevels.NONE
        for each, quotas in count.items():
            levels |= each if quotas else EnabledLevels.NONE
        steps.append((at_ms, levels))
    return steps
