"""Acknowledging a finding: somebody knows of it, until when and why."""

from __future__ import annotations

import datetime as dt
import fcntl
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.news import problem_name
from spark_jobs.publish.follow.changes import Change
from spark_jobs.publish.follow.kept_files import Acknowledgement, with_acknowledgement
from spark_jobs.publish.read_facts import (
    acknowledged_path,
    acknowledgements_of,
    changes_on,
    followed_days,
)
from spark_jobs.settings import FollowSettings
from spark_jobs.warehouse.days import later_day
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import is_in_bucket, write_whole

ID_LENGTH_MIN = 4


def acknowledge_finding(
    scope: RunScope,
    finding: str,
    *,
    owner: str,
    reason: str,
    until: dt.date,
    acknowledged_by: str = "",
) -> str:
    """Add an acknowledgement of a finding to the file of them; return it in a sentence.

    ``finding`` is the id of a finding of the day, or the beginning of one; ``acknowledged_by`` is
    who is signed in. Raises BadInputError where there is no such finding, or several, or a text is
    empty, or ``until`` is before the day or later than is allowed, or the file cannot be written.
    """
    for name, text in (("--owner", owner), ("--reason", reason)):
        if not text.strip():
            raise BadInputError(f"{name} is empty: say who knows of it, and why it may stay.")
    if until < scope.day:
        raise BadInputError(f"--until {until} is before {scope.day}, the day of the finding.")
    last = later_day(scope.day, FollowSettings().acknowledged_days_max)
    if until > last:
        raise BadInputError(
            f"--until {until} is too late: a finding of {scope.day} can be acknowledged up to "
            f"{last}, and then again (QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED_DAYS_MAX)."
        )
    changes = changes_on(followed_days(scope), acknowledgements_of(scope.warehouse))
    change = _named(changes, finding, scope)
    new = Acknowledgement(
        finding=change.problem.problem_id,
        since=scope.day,
        until=until,
        owner=owner.strip(),
        reason=reason.strip(),
        severity=change.problem.level.severity,
        decisions=change.problem.level.decisions,
        acknowledged_by=acknowledged_by,
    )
    path = acknowledged_path(scope.warehouse)
    try:
        _add(path, new)
    except OSError as error:
        raise BadInputError(
            f"Nothing is acknowledged: {path} cannot be written here "
            f"({error.strerror or error}). Let QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED name a file in a "
            "folder that this process may write and every step of an audit may read, or run "
            "'quota-audit acknowledge' where the warehouse can be written."
        ) from error
    return f"acknowledged until {until}: {problem_name(change)} ({path})"


def _named(changes: list[Change], finding: str, scope: RunScope) -> Change:
    there = [change for change in changes if change.is_there]
    found = [
        change
        for change in there
        if len(finding) >= ID_LENGTH_MIN and any(one.startswith(finding) for one in _ids(change))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = "; ".join(f"{change.problem.worst_id} {problem_name(change)}" for change in found)
        raise BadInputError(f"{finding!r} is the beginning of several: {names}. Give more of it.")
    raise BadInputError(
        f"{scope.cluster} {scope.day} has no finding {finding!r}: give an id, or the first "
        f"{ID_LENGTH_MIN} characters or more of it, as 'quota-audit news' prints it."
    )


def _ids(change: Change) -> tuple[str, ...]:
    return (change.problem.problem_id, *change.problem.finding_ids)


def _add(path: Path, new: Acknowledgement) -> None:
    if is_in_bucket(path):
        raise BadInputError(
            f"{path} is in a bucket, where two writers could undo each other's entries: keep the "
            "file under version control and name it by QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        # The file itself is replaced: a lock on it would be one on the file as it was before.
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = path.read_text("utf-8") if path.is_file() else ""
        write_whole(path, with_acknowledgement(text, str(path), new))
