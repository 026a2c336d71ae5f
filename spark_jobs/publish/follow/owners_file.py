"""The file of owners: YAML that a platform team keeps under version control."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.entries_file import document_of, entry_of
from spark_jobs.publish.follow.owners import Owner, OwnerRule, Owners, Part

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
