from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spark_jobs.publish.follow.changes import Change, DayFindings, Status, changes_of
from spark_jobs.publish.follow.kept_files import Acknowledgement
from spark_jobs.publish.follow.problem import Level, Problem, WorseWhen, problems_of
from spark_jobs.quota.sensor_key import SensorKey
from tests.builders.tables_builder import row

FIRST = dt.date(2026, 11, 10)
ALICE = SensorKey(1, "producer_byte_rate", "alice", "")
CLUSTER = "prod"


def found(decisions: int, severity: str = "warning", finding_id: str = "f1") -> dict[str, Problem]:
    return problems_of(
        [row("findings", decisions=decisions, severity=severity, finding_id=finding_id)], CLUSTER
    )


def days_of(*problems: dict[str, Problem], unseen: tuple[int, ...] = ()) -> list[DayFindings]:
    return [
        DayFindings(
            FIRST + dt.timedelta(days=place),
            problems_of_day,
            frozenset() if place in unseen else frozenset({ALICE}),
        )
        for place, problems_of_day in enumerate(problems)
    ]


def last(*problems: dict[str, Problem], unseen: tuple[int, ...] = ()) -> Change:
    changes = changes_of(days_of(*problems, unseen=unseen))
    assert len(changes) == 1
    return changes[0]


def known(level: Level, days: int = 30) -> Acknowledgement:
    (problem_id,) = found(1)
    until = FIRST + dt.timedelta(days=days)
    bad = level.severity, level.decisions
    return Acknowledgement(problem_id, FIRST, until, "Orders", "moves on Monday", *bad)


def test_what_was_not_there_the_audited_day_before_is_new() -> None:
    change = last({}, found(12))
    assert (change.status, change.since) == (Status.NEW, FIRST + dt.timedelta(days=1))


def test_what_was_there_is_still_there_since_its_first_day() -> None:
    change = last(found(12), found(12), found(13))
    assert (change.status, change.since, change.before) == (
        Status.STILL, FIRST, Level("warning", 12),
    )  # fmt: skip


def test_a_day_that_was_not_audited_makes_nothing_new() -> None:
    first, second = days_of(found(12), found(12))
    later = DayFindings(second.day + dt.timedelta(days=3), second.problems, second.seen)
    assert changes_of([first, later])[0].status is Status.STILL


@pytest.mark.parametrize(
    ("before", "now", "is_worse"),
    [
        (Level("warning", 100), Level("warning", 149), False),
        (Level("warning", 100), Level("warning", 150), True),
        (Level("warning", 2), Level("warning", 11), False),
        (Level("warning", 2), Level("warning", 12), True),
        (Level("warning", 100), Level("critical", 20), True),
        (Level("critical", 100), Level("warning", 1000), False),
        (Level("info", 0), Level("info", 10), True),
    ],
)
def test_worse_is_more_severe_or_many_more_wrong_decisions(
    before: Level, now: Level, is_worse: bool
) -> None:
    assert WorseWhen().is_worse(before, now) == is_worse


def test_what_grows_a_little_every_day_is_worse_when_it_has_grown_enough() -> None:
    growing = [found(round(100 * 1.2**place)) for place in range(10)]
    statuses = [last(*growing[: place + 1]).status for place in range(10)]
    worse = [place for place, status in enumerate(statuses) if status is Status.WORSE]
    assert statuses[0] is Status.NEW
    assert worse == [3, 6, 9]


def test_what_is_not_there_is_gone_where_its_sensor_counted_something() -> None:
    change = last(found(12), found(20), {})
    assert (change.status, change.since, change.last_day, change.problem.level.decisions) == (
        Status.GONE, FIRST, FIRST + dt.timedelta(days=1), 20,
    )  # fmt: skip


def test_what_is_gone_is_told_once() -> None:
    assert changes_of(days_of(found(12), {}, {})) == []


def test_what_comes_back_is_new_and_says_since_when_it_was_gone() -> None:
    change = last(found(12), {}, {}, found(12))
    assert (change.status, change.gone_on) == (Status.NEW, FIRST + dt.timedelta(days=1))


def test_a_client_that_sent_nothing_is_neither_mended_nor_new_afterwards() -> None:
    assert last(found(12), {}, unseen=(1,)).status is Status.UNSEEN
    change = last(found(12), {}, found(12), unseen=(1,))
    assert (change.status, change.since) == (Status.STILL, FIRST)


def test_several_intervals_of_a_day_are_one_problem_with_the_id_of_the_first() -> None:
    rows = [
        row("findings", finding_id="b", decisions=5, from_ms=20, until_ms=30, explanation="five"),
        row("findings", finding_id="a", decisions=9, from_ms=50, until_ms=60, explanation="nine"),
    ]
    ((problem_id, problem),) = problems_of(rows, CLUSTER).items()
    assert problem_id == next(iter(found(1)))
    assert (problem.level.decisions, problem.worst_id, problem.explanation) == (14, "a", "nine")
    assert (problem.finding_ids, problem.from_ms, problem.until_ms) == (("a", "b"), 20, 60)


def test_what_is_acknowledged_is_not_open_until_the_day_is_over() -> None:
    days = days_of(found(12), found(13), found(13))
    during = changes_of(days, [known(Level("warning", 12), days=2)])[0]
    after = changes_of(days, [known(Level("warning", 12), days=1)])[0]
    assert (during.is_open, during.acknowledged is not None) == (False, True)
    assert (after.is_open, after.acknowledged) == (True, None)


def test_an_acknowledgement_never_hides_what_is_worse_than_what_was_known() -> None:
    days = days_of(found(12), found(100), found(100))
    for until in (2, 3):
        change = changes_of(days[:until], [known(Level("warning", 12))])[0]
        assert (change.acknowledged, change.is_open) == (None, True)
        assert change.outgrown is not None
    more_severe = days_of(found(12), found(12, "critical"))
    assert changes_of(more_severe, [known(Level("warning", 12))])[0].is_news


def test_who_acknowledged_last_knew_most() -> None:
    early = known(Level("warning", 12))
    since = FIRST + dt.timedelta(days=1)
    late = replace(early, since=since, decisions=100)
    change = changes_of(days_of(found(12), found(100)), [late, early])[0]
    assert change.acknowledged == late


levels = st.tuples(st.sampled_from(["info", "warning", "critical"]), st.integers(0, 200))


@given(st.lists(st.one_of(st.none(), levels), min_size=1, max_size=15), st.sets(st.integers(0, 15)))
def test_every_day_says_one_thing_of_a_problem_and_tells_of_every_rise(
    course: list[tuple[str, int] | None], unseen: set[int]
) -> None:
    told: Level | None = None
    for end in range(1, len(course) + 1):
        days = days_of(
            *({} if one is None else found(one[1], one[0]) for one in course[:end]),
            unseen=tuple(unseen),
        )
        changes = changes_of(days)
        assert len(changes) <= 1
        one = course[end - 1]
        if one is None:
            assert all(c.status in (Status.GONE, Status.UNSEEN) for c in changes)
            if changes and changes[0].status is Status.GONE:
                told = None
            continue
        change, level = changes[0], Level(*one)
        if told is None:
            assert change.status is Status.NEW
        else:
            is_worse = WorseWhen().is_worse(told, level)
            assert change.status is (Status.WORSE if is_worse else Status.STILL)
        told = level if change.status is not Status.STILL else told
