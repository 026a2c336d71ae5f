"""A problem: what a day's findings of one kind about one sensor are, taken together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.judge.causes.finding_id import finding_id
from spark_jobs.quota.codes import severity_rank
from spark_jobs.quota.sensor_key import SensorKey


@dataclass(frozen=True, slots=True)
class Level:
    """How bad a problem is: ``decisions`` are the wrong ones of a day."""

    severity: str
    decisions: int

    @property
    def rank(self) -> int:
        """Return the rank of the severity, 0 for the worst; an unknown one is the least."""
        return severity_rank(self.severity)


@dataclass(frozen=True, slots=True)
class WorseWhen:
    """The growth of wrong decisions that makes a problem of the same severity worse."""

    ratio: float = 1.5
    more_decisions: int = 10

    def is_worse(self, before: Level, now: Level) -> bool:
        """Return True if ``now`` is worse: more severe, or many more wrong decisions."""
        if now.rank != before.rank:
            return now.rank < before.rank
        more = now.decisions - before.decisions
        return more >= self.more_decisions and now.decisions >= self.ratio * before.decisions


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of fault of one sensor on one day, however many intervals of it there were.

    ``problem_id`` is the id of the first finding of its kind: the same every day. ``worst_id`` and
    ``explanation`` are those of the worst finding. Times in epoch ms.
    """

    problem_id: str
    sensor: SensorKey
    kind: str
    level: Level
    worst_id: str
    finding_ids: tuple[str, ...]
    explanation: str
    from_ms: int
    until_ms: int


def problems_of(findings: Iterable[Mapping[str, Any]], cluster: str) -> dict[str, Problem]:
    """Return the problems that rows of ``findings`` of one day tell of, by their ids."""
    gathered: defaultdict[tuple[SensorKey, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in findings:
        gathered[SensorKey.of(row), row["kind"]].append(row)
    problems = (_problem(sensor, kind, rows, cluster) for (sensor, kind), rows in gathered.items())
    return {problem.problem_id: problem for problem in problems}


def _problem(sensor: SensorKey, kind: str, rows: list[Mapping[str, Any]], cluster: str) -> Problem:
    ordered = sorted(
        rows, key=lambda row: (severity_rank(row["severity"]), -row["decisions"], row["finding_id"])
    )
    worst = ordered[0]
    return Problem(
        problem_id=finding_id(cluster, sensor, kind),
        sensor=sensor,
        kind=kind,
        level=Level(worst["severity"], sum(row["decisions"] for row in rows)),
        worst_id=worst["finding_id"],
        finding_ids=tuple(row["finding_id"] for row in ordered),
        explanation=worst["explanation"],
        from_ms=min(row["from_ms"] for row in rows),
        until_ms=max(row["until_ms"] for row in rows),
    )
