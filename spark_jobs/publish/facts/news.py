"""A day's news: what is new, worse or gone, whose it is, and how it is said in words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.publish.follow.changes import Change, Status
from spark_jobs.publish.follow.kept_files import Owner, Owners
from spark_jobs.wording.names import FINDING_KINDS, counted, entity_name, in_words
from spark_jobs.wording.numbers import count
from spark_jobs.wording.visible_text import shortened, visible

_BAD_DATA = ("failed", "broken")


@dataclass(frozen=True, slots=True)
class News:
    """What there is to say of an audited day; ``before`` is the audited day before, if any.

    ``owners`` is None where no file says whose clients are.
    """

    cluster: str
    day: dt.date
    before: dt.date | None
    changes: Sequence[Change]
    data_quality: str  # passed, warnings, failed, broken, not validated
    broken_rules: tuple[str, ...]
    owners: Owners | None = None
    errors: tuple[str, ...] = ()
    """Why a file of acknowledgements or owners could not be read: it is passed over."""

    def of(self, *statuses: Status) -> list[Change]:
        """Return the changes with one of these statuses that are not acknowledged."""
        return [c for c in self.changes if c.status in statuses and c.acknowledged is None]

    @property
    def acknowledged(self) -> list[Change]:
        """Return the changes of the day's problems that are acknowledged as bad as they are."""
        return [c for c in self.changes if c.acknowledged is not None and c.is_there]

    @property
    def is_bad_data(self) -> bool:
        """Return True if validation failed."""
        return self.data_quality in _BAD_DATA

    def by_finding(self) -> dict[str, Change]:
        """Return the change that each finding of the day belongs to, by the finding's id."""
        return {
            finding: change
            for change in self.changes
            if change.is_there
            for finding in change.problem.finding_ids
        }

    def is_urgent(self, from_rank: int = 0) -> bool:
        """Return True if somebody should be told: news of ``from_rank`` or worse, or bad data."""
        return self.is_bad_data or any(
            change.is_news and change.problem.level.rank <= from_rank for change in self.changes
        )

    def owner(self, change: Change) -> Owner | None:
        """Return the owner of the client that a change is about; None where none is known."""
        if self.owners is None:
            return None
        sensor = change.problem.sensor
        return self.owners.of(sensor.quota_user, sensor.quota_client_id, self.day)


_WHO_LENGTH_MAX = 80
_REASON_LENGTH_MAX = 200


def changes_in_words(news: News) -> dict[str, str]:
    """Return the line on each finding of the day, by its id; "" where there is nothing to say.

    On the first audited day every finding is new, and that is not said.
    """
    return {
        finding_id: _change_in_words(change, news)
        for finding_id, change in news.by_finding().items()
    }


def _change_in_words(change: Change, news: News) -> str:
    owner = news.owner(change)
    parts = [
        _course_beside(change) if news.before is not None else "",
        f"owner {shown(owner.team)}, {shown(owner.contact)}" if owner else "",
        acknowledged_in_words(change),
    ]
    return " · ".join(part for part in parts if part)


def acknowledged_in_words(change: Change) -> str:
    """Return the acknowledgement in words, also one that the problem has outgrown; "": none."""
    if change.acknowledged is not None:
        known = change.acknowledged
        why = shown(known.reason, _REASON_LENGTH_MAX)
        by = f" (entered by {shown(known.acknowledged_by)})" if known.acknowledged_by else ""
        return f"acknowledged until {known.until} by {shown(known.owner)}{by}: {why}"
    if change.outgrown is not None:
        known = change.outgrown
        return (
            f"worse than what {shown(known.owner)} acknowledged on {known.since}: "
            f"{known.level.severity}, {counted(known.level.decisions, 'decision')}"
        )
    return ""


def gone_in_words(change: Change) -> str:
    """Return the days of a problem that is no longer there, and its last decisions, in words."""
    was = f"on {change.since}"
    if change.since != change.last_day:
        was = f"from {change.since} to {change.last_day}"
    return f"was there {was}, last with {counted(change.problem.level.decisions, 'decision')}"


def shown(text: str, length_max: int = _WHO_LENGTH_MAX) -> str:
    """Return text that people wrote as pages may show it."""
    return shortened(visible(text), length_max)


def _course_beside(change: Change) -> str:
    if change.status is Status.NEW:
        return f"new: gone on {change.gone_on} and back" if change.gone_on else "new"
    since = f"there since {change.since}"
    if change.status is Status.WORSE and change.before is not None:
        before = change.before
        was = f"{before.severity}, " if before.severity != change.problem.level.severity else ""
        return f"worse: {was}{counted(before.decisions, 'decision')} when it was last told, {since}"
    return since


LISTED_MAX = 10
_EXPLANATION_LENGTH_MAX = 400
_RULES_MAX = 5
_TITLES = {
    Status.NEW: "New",
    Status.WORSE: "Worse",
    Status.GONE: "Gone",
    Status.STILL: "Still there",
    Status.UNSEEN: "Not seen: neither there nor gone, as the log has no requests of it",
}


def news_in_a_line(news: News) -> str:
    """Return the changes since the audited day before, in a line; "" where there is no such day."""
    if news.before is None:
        return ""
    return f"Since {news.before}: {', '.join(_counts(news)) or 'nothing found, then and now'}"


def news_subject(news: News) -> str:
    """Return the message in a line."""
    parts = _counts(news)
    if news.is_bad_data:
        parts.insert(0, f"data quality {news.data_quality}")
    return f"Kafka quotas, {news.cluster} on {news.day}: {', '.join(parts) or 'nothing found'}"


def _counts(news: News) -> list[str]:
    parts = [_counted(status, found) for status in Status if (found := news.of(status))]
    if news.acknowledged:
        parts.append(f"{count(len(news.acknowledged))} acknowledged")
    return parts


def _counted(status: Status, changes: Sequence[Change]) -> str:
    critical = sum(change.is_news and change.problem.level.rank == 0 for change in changes)
    return f"{count(len(changes))} {status}" + (f" ({count(critical)} critical)" * bool(critical))


def news_text(news: News, listed_max: int = LISTED_MAX) -> str:
    """Return the whole message: what is new first, then worse and gone, then what is known.

    Each part lists at most ``listed_max`` problems, and says how many more there are.
    """
    lines = [news_subject(news), _compared(news), *(f"Passed over: {why}" for why in news.errors)]
    if news.is_bad_data:
        said = "The tables of this day broke rules of data quality; what was published is older:"
        lines += ["", said, *(f"  {rule}" for rule in news.broken_rules[:_RULES_MAX])]
        if len(news.broken_rules) > _RULES_MAX:
            lines.append(f"  and {count(len(news.broken_rules) - _RULES_MAX)} more")
    lines += _sections(news.changes, news, listed_max)
    return "\n".join(lines) + "\n"


def owner_text(news: News, owner: Owner | None) -> str:
    """Return the message about one owner's clients; None: about those that nobody owns."""
    who = f"{shown(owner.team)} ({shown(owner.contact)})" if owner else "clients without an owner"
    own = [change for change in news.changes if news.owner(change) == owner]
    lines = [f"{who}, {news.cluster} on {news.day}", *_sections(own, news, len(own))]
    if not own:
        lines.append("Nothing was found.")
    return "\n".join(lines) + "\n"


def problem_name(change: Change) -> str:
    """Return the name of a problem: the quota, what is wrong with it, whose, and where."""
    problem = change.problem
    sensor = problem.sensor
    where = "" if sensor.broker_id is None else f" on broker {sensor.broker_id}"
    kind = in_words(problem.kind, FINDING_KINDS)
    whose = entity_name(sensor.quota_user, sensor.quota_client_id)
    return f"{sensor.quota_type} {kind}: {whose}{where}"


def _compared(news: News) -> str:
    if news.before is None:
        return "The first audited day: nothing to compare it with."
    return f"Compared with {news.before}, the audited day before."


def _sections(changes: Sequence[Change], news: News, listed_max: int) -> Iterator[str]:
    parts = {
        title: [c for c in changes if c.status is status and c.acknowledged is None]
        for status, title in _TITLES.items()
    }
    parts["Acknowledged"] = [c for c in changes if c.acknowledged is not None and c.is_there]
    for title, found in parts.items():
        if found:
            yield from ("", f"{title} ({count(len(found))})")
        for change in found[:listed_max]:
            yield from _told(change, news)
        if len(found) > listed_max:
            yield f"  and {count(len(found) - listed_max)} more: quota-audit news --all"


def _told(change: Change, news: News) -> Iterator[str]:
    name = f"  {change.problem.level.severity}  {problem_name(change)}"
    if change.acknowledged is not None:
        now = counted(change.problem.level.decisions, "decision")
        yield from (name, f"    {now}, {acknowledged_in_words(change)}")
        return
    owner = news.owner(change)
    whose = f" [{shown(owner.team)}, {shown(owner.contact)}]" if owner else ""
    yield from (f"{name}{whose}", f"    {_course(change)}")
    if change.is_news:
        yield f"    {shown(change.problem.explanation, _EXPLANATION_LENGTH_MAX)}"
    if change.outgrown is not None:
        yield f"    {acknowledged_in_words(change)}"


def _course(change: Change) -> str:
    level = change.problem.level
    now = counted(level.decisions, "decision")
    named = f"finding {change.problem.worst_id}"
    if change.status is Status.NEW:
        again = f", gone on {change.gone_on} and back" if change.gone_on else ""
        return f"{now}{again}, {named}"
    since = f"since {change.since}"
    if change.status is Status.WORSE and change.before is not None:
        before = change.before
        was = f"{before.severity} with " if before.rank != level.rank else ""
        return f"{now}, {was}{count(before.decisions)} when it was last told, {since}, {named}"
    if change.status in (Status.GONE, Status.UNSEEN):
        return gone_in_words(change)
    return f"{now}, {since}, {named}"
