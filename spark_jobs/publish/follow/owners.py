"""Who owns a client: the first rule of a file that fits its user or client-id."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Part = Literal["user", "client-id", "either"]


@dataclass(frozen=True, slots=True)
class Owner:
    """A team and how it is reached."""

    team: str
    contact: str


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """``owner`` owns whom ``pattern`` fits in whole, from and until these days, both included."""

    pattern: re.Pattern[str]
    part: Part
    owner: Owner
    valid_from: dt.date | None = None
    valid_until: dt.date | None = None

    def fits(self, user: str, client_id: str, day: dt.date) -> bool:
        """Return whether the rule is about this client on ``day``."""
        if self.valid_from is not None and day < self.valid_from:
            return False
        if self.valid_until is not None and day > self.valid_until:
            return False
        names = {"user": (user,), "client-id": (client_id,), "either": (user, client_id)}
        return any(name and self.pattern.fullmatch(name) for name in names[self.part])


@dataclass(frozen=True, slots=True)
class Owners:
    """The rules of a file, in its order."""

    rules: Sequence[OwnerRule] = ()

    def of(self, user: str, client_id: str, day: dt.date) -> Owner | None:
        """Return whose client it is on ``day``; None: nobody's. An empty name fits no rule."""
        for rule in self.rules:
            if rule.fits(user, client_id, day):
                return rule.owner
        return None

    def team_of(self, user: str | None, client_id: str | None, day: dt.date) -> str | None:
        """Return the name of the team whose client it is; None: nobody's."""
        owner = self.of(user or "", client_id or "", day)
        return None if owner is None else owner.team

    def teams(self) -> tuple[Owner, ...]:
        """Return all owners, each once, in the order of the file."""
        return tuple(dict.fromkeys(rule.owner for rule in self.rules))
