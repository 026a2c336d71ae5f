"""What somebody knows of a finding and has said until when: no message needs to tell it again."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from spark_jobs.publish.follow.problem import Level


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """``finding`` is known from ``since`` up to and with ``until``, as bad as ``level``."""

    finding: str
    since: dt.date
    until: dt.date
    owner: str
    reason: str
    level: Level

    def is_in_force(self, day: dt.date) -> bool:
        """Return whether it is about ``day``."""
        return self.since <= day <= self.until
