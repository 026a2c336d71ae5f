"""Which quota a client fell under, on which sensor, from when to when."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.ingest.quota_sources.events import QuotaEntity
from spark_jobs.resolve.timeline.default_quota_callback import (
    EnabledLevels,
    candidate_entities,
    enabled_level,
    entity_of_level,
    quota_level,
    quota_limit,
    quota_metric_tags,
)
from spark_jobs.resolve.timeline.enabled_levels import (
    BEGINNING_MS,
    END_MS,
    LevelRule,
    LevelSpan,
    LevelSteps,
    level_steps,
)

_ANY_BROKER_BEFORE_4_2 = LevelRule()


@dataclass(frozen=True, slots=True)
class Resolution:
    """What held for a client in ``[valid_from_ms, valid_until_ms)``.

    ``quota_user`` and ``quota_client_id`` are the tags of its sensor. Where ``is_enabled`` is
    False the broker had no quota of the type and kept no sensor. ``quota_level``, ``bound`` and
    ``set_at_ms`` (when the value was set) are None where no quota matched.
    """

    valid_from_ms: int
    valid_until_ms: int
    is_enabled: bool
    quota_user: str
    quota_client_id: str
    quota_level: str | None
    bound: float | None
    set_at_ms: int | None


@dataclass(frozen=True, slots=True)
class QuotaInForce:
    """The answer to "which quota held then"; all but ``resolution`` is None where none did.

    ``entity`` is the configured one; the rest says where its value is known from.
    """

    resolution: Resolution
    entity: QuotaEntity | None = None
    source: str | None = None
    source_file: str | None = None
    source_line: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaInterval:
    """A row of ``tables.QUOTA_CHANGES``; ``valid_until_ms`` is END_MS where it still holds."""

    bound: float
    broker_id: int | None
    valid_from_ms: int
    valid_until_ms: int
    source: str
    source_file: str | None
    source_line: int | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> QuotaInterval:
        """Return the interval of a row."""
        until_ms = row["valid_until_ms"]
        return cls(
            bound=row["bound"],
            broker_id=row["broker_id"],
            valid_from_ms=row["valid_from_ms"],
            valid_until_ms=END_MS if until_ms is None else until_ms,
            source=row["source"],
            source_file=row.get("source_file"),
            source_line=row.get("source_line"),
        )

    def applies_to(self, broker_id: int) -> bool:
        """Return True if the value held on a broker."""
        return self.broker_id is None or self.broker_id == broker_id


_Quotas = dict[QuotaEntity, list[QuotaInterval]]


class QuotaTimeline:
    """Every quota value of a cluster over time, and the levels they enabled on each broker."""

    def __init__(
        self,
        quotas: Mapping[str, _Quotas],
        level_rules: Mapping[int, LevelRule],
        restarts_ms: Mapping[int, Sequence[int]],
        answered_ms: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        self._quotas = quotas
        self._level_rules = level_rules
        self._restarts_ms = restarts_ms
        self._answered_ms = answered_ms or {}
        self._levels: dict[tuple[str, int], LevelSteps] = {}
        self._own = {
            i.broker_id
            for entities in quotas.values()
            for each in entities.values()
            for i in each
            if i.broker_id is not None
        }
        self._alike: dict[tuple[object, ...], int] = {}

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        level_rules: Mapping[int, LevelRule] | None = None,
        restarts_ms: Mapping[int, Sequence[int]] | None = None,
        answered_ms: Mapping[tuple[int, int], int] | None = None,
    ) -> QuotaTimeline:
        """Return the timeline of rows of ``tables.QUOTA_CHANGES``.

        ``level_rules`` by broker id; a broker without one counts as KRaft before 4.2, where a
        quota enables its level for its own type until the broker restarts. ``restarts_ms`` by
        broker id: the moments it started. ``answered_ms``: when the controller had answered a
        change, by broker id and the moment from which ``rows`` have it there.
        """
        quotas: dict[str, _Quotas] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            entity = (row["quota_user"], row["quota_client_id"])
            quotas[row["quota_type"]][entity].append(QuotaInterval.of_row(row))
        for entities in quotas.values():
            for each in entities.values():
                each.sort(key=lambda interval: interval.valid_from_ms)
        by_type = {quota_type: dict(entities) for quota_type, entities in quotas.items()}
        return cls(by_type, level_rules or {}, restarts_ms or {}, answered_ms)

    def alike(self, broker_id: int) -> int:
        """Return a broker on which every client resolves as on this one; its own id if none does.

        Brokers differ by values of their own, by how their version keeps levels, by restarts.
        """
        if broker_id in self._own:
            return broker_id
        rule = self._level_rules.get(broker_id, _ANY_BROKER_BEFORE_4_2)
        kept = (rule, tuple(self._restarts_ms.get(broker_id, ())))
        return self._alike.setdefault(kept, broker_id)

    def change_span_ms(self, broker_id: int, in_force_ms: int) -> tuple[int, int]:
        """Return from when to when a change that was in force at a moment may have come to be so.

        The moment is the one that explains throttles best; the controller's answer is the other
        thing known of it.
        """
        answered_ms = self._answered_ms.get((broker_id, in_force_ms), in_force_ms)
        return min(answered_ms, in_force_ms), max(answered_ms, in_force_ms)

    def has_quotas(self, quota_type: str) -> bool:
        """Return True if anybody ever had a quota of the type."""
        return bool(self._quotas.get(quota_type))

    def restarts_of(self, broker_id: int) -> Sequence[int]:
        """Return when a broker began anew (ms since the Unix epoch), as far as the log tells."""
        return self._restarts_ms.get(broker_id, ())

    def resolve(
        self, quota_type: str, user: str, client_id: str, broker_id: int
    ) -> tuple[Resolution, ...]:
        """Return the values that held for a client on a broker, in time order and without gaps.

        The first begins at BEGINNING_MS, the last ends at END_MS. An unauthenticated client is
        the user ANONYMOUS, as for Kafka; one without client-id has the empty one.
        """
        quotas = self._matching(quota_type, user, client_id, broker_id)
        levels = self._enabled_levels(quota_type, broker_id)
        moments = {at_ms for at_ms, _ in levels}
        for each in quotas.values():
            moments |= {ms for i in each for ms in (i.valid_from_ms, i.valid_until_ms)}
        resolved: list[Resolution] = []
        for from_ms in sorted(m for m in moments if m < END_MS):
            found = _resolution(from_ms, _levels_at(levels, from_ms), user, client_id, quotas)
            if not resolved or _content(resolved[-1]) != _content(found):
                if resolved:
                    resolved[-1] = replace(resolved[-1], valid_until_ms=from_ms)
                resolved.append(found)
        assert resolved[0].valid_from_ms == BEGINNING_MS
        return tuple(resolved)

    def interval_of(
        self, quota_type: str, entity: QuotaEntity, broker_id: int, at_ms: int
    ) -> QuotaInterval | None:
        """Return the interval of an entity's value that holds at ``at_ms``, None without one."""
        each = self._quotas.get(quota_type, {}).get(entity, [])
        return _in_force([i for i in each if i.applies_to(broker_id)], at_ms)

    def _matching(self, quota_type: str, user: str, client_id: str, broker_id: int) -> _Quotas:
        """Return the intervals of the eight entities that a client's quota may be set at."""
        of_type = self._quotas.get(quota_type, {})
        matching = {
            entity: [i for i in of_type.get(entity, ()) if i.applies_to(broker_id)]
            for entity in candidate_entities(user, client_id)
        }
        return {entity: each for entity, each in matching.items() if each}

    def _enabled_levels(self, quota_type: str, broker_id: int) -> LevelSteps:
        key = (quota_type, broker_id)
        if key not in self._levels:
            rule = self._level_rules.get(broker_id, _ANY_BROKER_BEFORE_4_2)
            spans: list[LevelSpan] = [
                (enabled_level(entity), i.valid_from_ms, i.valid_until_ms)
                for each_type in sorted(rule.types_with(quota_type))
                for entity, each in self._quotas.get(each_type, {}).items()
                for i in each
                if i.applies_to(broker_id)
            ]
            self._levels[key] = level_steps(spans, rule, self._restarts_ms.get(broker_id, ()))
        return self._levels[key]


def which_quota(
    timeline: QuotaTimeline,
    quota_type: str,
    user: str,
    client_id: str,
    broker_id: int,
    at_ms: int,
) -> QuotaInForce:
    """Return the quota of a client on a broker at a moment: value, level, since when, source."""
    resolution = next(
        r
        for r in timeline.resolve(quota_type, user, client_id, broker_id)
        if r.valid_from_ms <= at_ms < r.valid_until_ms
    )
    if resolution.quota_level is None:
        return QuotaInForce(resolution)
    entity = entity_of_level(resolution.quota_level, user, client_id)
    interval = timeline.interval_of(quota_type, entity, broker_id, at_ms)
    assert interval is not None, (entity, at_ms)
    return QuotaInForce(
        resolution, entity, interval.source, interval.source_file, interval.source_line
    )


def _resolution(
    from_ms: int, levels: EnabledLevels, user: str, client_id: str, quotas: _Quotas
) -> Resolution:
    """Return the resolution that holds from ``from_ms`` on, so far without an end."""
    in_force = {
        entity: interval
        for entity, each in quotas.items()
        if (interval := _in_force(each, from_ms)) is not None
    }
    tags = quota_metric_tags(levels, user, client_id, in_force)
    entity = quota_limit(tags, in_force)
    interval = None if entity is None else in_force[entity]
    return Resolution(
        valid_from_ms=from_ms,
        valid_until_ms=END_MS,
        is_enabled=levels != EnabledLevels.NONE,
        quota_user=tags[0],
        quota_client_id=tags[1],
        quota_level=None if entity is None else quota_level(entity),
        bound=None if interval is None else interval.bound,
        set_at_ms=None if interval is None else interval.valid_from_ms,
    )


def _in_force(intervals: Sequence[QuotaInterval], at_ms: int) -> QuotaInterval | None:
    """Return the interval that holds at ``at_ms``; ``intervals`` of one quota are in time order."""
    index = bisect_right(intervals, at_ms, key=lambda interval: interval.valid_from_ms) - 1
    return intervals[index] if index >= 0 and at_ms < intervals[index].valid_until_ms else None


def _levels_at(steps: LevelSteps, at_ms: int) -> EnabledLevels:
    return steps[bisect_right(steps, at_ms, key=lambda step: step[0]) - 1][1]


def _content(resolution: Resolution) -> tuple[Any, ...]:
    """Return all of ``resolution`` but its times of validity."""
    return (
        resolution.is_enabled,
        resolution.quota_user,
        resolution.quota_client_id,
        resolution.quota_level,
        resolution.bound,
        resolution.set_at_ms,
    )
