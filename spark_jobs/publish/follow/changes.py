"""What is new on a day: each problem beside what was said of it on the days before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spark_jobs.publish.follow.kept_files import Acknowledgement
from spark_jobs.publish.follow.problem import Level, Problem, WorseWhen
from spark_jobs.quota.sensor_key import SensorKey


class Status(StrEnum):
    """What became of a problem since the audited day before."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still there"
    GONE = "gone"
    UNSEEN = "not seen"
    """Nobody can say: its broker's log, or the client's requests, are not in the day."""


@dataclass(frozen=True, slots=True)
class DayFindings:
    """What was found on an audited day, and which sensors counted anything at all."""

    day: dt.date
    problems: Mapping[str, Problem]
    seen: frozenset[SensorKey]


@dataclass(frozen=True, slots=True)
class Change:
    """One problem on one day.

    ``problem`` is the day's, or the last there was; ``since`` the first day of it without being
    gone in between; ``before`` the level to compare with, at which it was last told as new or
    worse; ``gone_on`` the day on which it was gone before, if it was.
    """

    status: Status
    problem: Problem
    since: dt.date
    last_day: dt.date
    before: Level | None = None
    gone_on: dt.date | None = None
    acknowledged: Acknowledgement | None = None
    outgrown: Acknowledgement | None = None
    """An acknowledgement in force that does not hold: the problem is worse than what was known."""

    @property
    def told(self) -> Level:
        """Return the level at which the problem was last told as new or worse."""
        if self.before is None or self.status is Status.WORSE:
            return self.problem.level
        return self.before

    @property
    def is_there(self) -> bool:
        """Return True if the day has the problem."""
        return self.status in (Status.NEW, Status.WORSE, Status.STILL)

    @property
    def is_open(self) -> bool:
        """Return True if the problem is there and nobody has acknowledged it as it is."""
        return self.is_there and self.acknowledged is None

    @property
    def is_news(self) -> bool:
        """Return True if the problem is open, and new or worse."""
        return self.is_open and self.status is not Status.STILL


def changes_of(
    days: Sequence[DayFindings],
    acknowledgements: Sequence[Acknowledgement] = (),
    worse_when: WorseWhen | None = None,
) -> list[Change]:
    """Return the changes of the last of ``days``, which are in order; what is worst first.

    A problem that grows a little every day is worse when it has grown enough since it was last
    told. One that is not there is gone only where its sensor counted something on that day.
    """
    worse_when = worse_when or WorseWhen()
    followed: dict[str, Change] = {}
    gone: dict[str, dt.date] = {}
    changes: list[Change] = []
    for one in days:
        changes = []
        for problem_id, problem in one.problems.items():
            change = _there(problem, one.day, followed.get(problem_id), gone, worse_when)
            followed[problem_id] = change
            changes.append(change)
        for problem_id in followed.keys() - one.problems.keys():
            last = followed[problem_id]
            status = Status.GONE if last.problem.sensor in one.seen else Status.UNSEEN
            followed[problem_id] = replace(last, status=status, before=last.told)
            changes.append(followed[problem_id])
            if status is Status.GONE:
                del followed[problem_id]
                gone[problem_id] = one.day
    if not days:
        return []
    known = [_with_acknowledgement(c, acknowledgements, days[-1].day, worse_when) for c in changes]
    return sorted(known, key=_order)


def _there(
    problem: Problem,
    day: dt.date,
    last: Change | None,
    gone: Mapping[str, dt.date],
    worse_when: WorseWhen,
) -> Change:
    if last is None:
        return Change(Status.NEW, problem, day, day, gone_on=gone.get(problem.problem_id))
    is_worse = worse_when.is_worse(last.told, problem.level)
    status = Status.WORSE if is_worse else Status.STILL
    return Change(status, problem, last.since, day, last.told, last.gone_on)


def _with_acknowledgement(
    change: Change,
    acknowledgements: Sequence[Acknowledgement],
    day: dt.date,
    worse_when: WorseWhen,
) -> Change:
    ids = {change.problem.problem_id, *change.problem.finding_ids}
    in_force = [a for a in acknowledgements if a.finding in ids and a.is_in_force(day)]
    if not in_force:
        return change
    # The latest acknowledgement counts: who wrote it knew most.
    last = sorted(in_force, key=lambda a: a.since)[-1]
    if worse_when.is_worse(last.level, change.problem.level):
        return replace(change, outgrown=last)
    return replace(change, acknowledged=last)


def _order(change: Change) -> tuple[int, int, int, str]:
    statuses = list(Status)
    level = change.problem.level
    return (
        statuses.index(change.status), level.rank, -level.decisions, change.problem.problem_id,
    )  # fmt: skip
