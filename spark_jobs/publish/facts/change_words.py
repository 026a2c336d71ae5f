"""What became of a finding since the days before, in words: for pages, which show it beside it."""

from __future__ import annotations

from spark_jobs.publish.facts.news import News
from spark_jobs.publish.follow.changes import Change, Status
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import count
from spark_jobs.wording.visible_text import shortened, visible

_WHO_LENGTH_MAX = 80
_REASON_LENGTH_MAX = 200


def changes_in_words(news: News) -> dict[str, str]:
    """Return what is to say of each finding of the day, in a line; "" where that is nothing.

    On the first audited day all is new, and nothing is said of that.
    """
    return {
        finding_id: _change_in_words(change, news)
        for finding_id, change in news.by_finding().items()
    }


def _change_in_words(change: Change, news: News) -> str:
    owner = news.owner(change)
    parts = [
        _course(change) if news.before is not None else "",
        f"owner {shown(owner.team)}, {shown(owner.contact)}" if owner else "",
        acknowledged_in_words(change),
    ]
    return " · ".join(part for part in parts if part)


def acknowledged_in_words(change: Change) -> str:
    """Return who has acknowledged it and why, or that it has become worse; "": nobody has."""
    if change.acknowledged is not None:
        known = change.acknowledged
        why = shown(known.reason, _REASON_LENGTH_MAX)
        return f"acknowledged until {known.until} by {shown(known.owner)}: {why}"
    if change.outgrown is not None:
        known = change.outgrown
        return (
            f"worse than what {shown(known.owner)} acknowledged on {known.since}: "
            f"{known.level.severity}, {decisions_in_words(known.level.decisions)}"
        )
    return ""


def gone_in_words(change: Change) -> str:
    """Return when what is not there any more was there."""
    was = f"on {change.since}"
    if change.since != change.last_day:
        was = f"from {change.since} to {change.last_day}"
    return f"was there {was}, last with {decisions_in_words(change.problem.level.decisions)}"


def decisions_in_words(number: int) -> str:
    """Return how many decisions, with the noun."""
    return f"{count(number)} {plural(number, 'decision')}"


def shown(text: str, length_max: int = _WHO_LENGTH_MAX) -> str:
    """Return text of people as pages may show it."""
    return shortened(visible(text), length_max)


def _course(change: Change) -> str:
    if change.status is Status.NEW:
        return f"new: gone on {change.gone_on} and back" if change.gone_on else "new"
    since = f"there since {change.since}"
    if change.status is Status.WORSE and change.before is not None:
        before = change.before
        was = f"{before.severity}, " if before.severity != change.problem.level.severity else ""
        return f"worse: {was}{decisions_in_words(before.decisions)} when it was last told, {since}"
    return since
