"""A day's message: what is new, worse or gone, whose it is, and whether the data can be trusted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.publish.follow.changes import Change, Status
from spark_jobs.publish.follow.owners import Owner, Owners

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

    def of_owner(self, owner: Owner | None) -> list[Change]:
        """Return the changes about an owner's clients; None: about clients without one."""
        return [change for change in self.changes if self.owner(change) == owner]
