"""Who owns a client: the first rule that fits its user or client-id.

The rules are a YAML file that a platform team keeps under version control.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.entries_file import document_of, entry_of

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
        """Return True if the rule is about this client on ``day``."""
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
        """Return the owner of a client on ``day``; None: nobody. An empty name fits no rule."""
        for rule in self.rules:
            if rule.fits(user, client_id, day):
                return rule.owner
        return None

    def team_of(self, user: str | None, client_id: str | None, day: dt.date) -> str | None:
        """Return the name of the team that owns a client on ``day``; None: nobody."""
        owner = self.of(user or "", client_id or "", day)
        return None if owner is None else owner.team

    def teams(self) -> tuple[Owner, ...]:
        """Return all owners, each once, in the order of the file."""
        return tuple(dict.fromkeys(rule.owner for rule in self.rules))


LIST = "owners"
_HOW = (
    "Each entry has 'match' (a regular expression that fits a whole name), 'team' and 'contact'; "
    "and may have 'part' (user, client-id or either), 'valid_from' and 'valid_until' (days)."
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    match: _Text
    team: _Text
    contact: _Text
    part: Part = "either"
    valid_from: dt.date | None = None
    valid_until: dt.date | None = None


def read_owners(text: str, name: str) -> Owners:
    """Return the rules of the file ``name`` with this ``text``.

    Raises BadInputError that names the line of what cannot be read.
    """
    entries = document_of(text, name, LIST, _HOW)[LIST] or []
    return Owners(tuple(_rule(entries, place, name) for place in range(len(entries))))


def _rule(entries: Any, place: int, name: str) -> OwnerRule:
    where, found = entry_of(entries, place, name, _Entry, _HOW)
    try:
        pattern = re.compile(found.match)
    except re.error as error:
        raise BadInputError(
            f"{where}: match is {found.match!r}, which is no regular expression: {error}."
        ) from error
    if found.valid_from and found.valid_until and found.valid_until < found.valid_from:
        raise BadInputError(
            f"{where}: valid_until {found.valid_until} is before valid_from {found.valid_from}."
        )
    owner = Owner(found.team, found.contact)
    return OwnerRule(pattern, found.part, owner, found.valid_from, found.valid_until)
