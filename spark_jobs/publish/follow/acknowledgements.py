"""What people know of findings, and the YAML file that says so: no message tells it again.

They keep the file under version control and edit it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.entries_file import document_of, entry_of, text_of
from spark_jobs.publish.follow.problem import Level
from spark_jobs.quota.codes import SEVERITIES


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
        """Return True if the acknowledgement is about ``day``."""
        return self.since <= day <= self.until


_LIST = "acknowledged"
_HEAD = """\
# Findings that somebody knows of. Until the day that is said, messages do not tell of one again,
# unless it is worse than it was: more severe, or many more wrong decisions than 'decisions'.
# Written by 'quota-audit acknowledge'; edit or remove entries as you like.
acknowledged: []
"""
_HOW = (
    "Each entry has finding, since, until, owner, reason, severity and decisions; "
    "'quota-audit acknowledge' writes it so."
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    finding: _Text
    since: dt.date
    until: dt.date
    owner: _Text
    reason: _Text
    severity: str
    decisions: Annotated[int, msgspec.Meta(ge=0)]


def read_acknowledgements(text: str, name: str) -> list[Acknowledgement]:
    """Return the acknowledgements of the file ``name`` with this ``text``, in its order.

    Raises BadInputError that names the line of what cannot be read.
    """
    entries = _document(text, name)[_LIST] or []
    return [_entry(entries, place, name) for place in range(len(entries))]


def with_acknowledgement(text: str, name: str, new: Acknowledgement) -> str:
    """Return ``text`` with one more entry; comments and other entries stay as they are.

    Raises BadInputError where ``text`` is no such file.
    """
    read_acknowledgements(text, name)
    document = _document(text, name)
    if document[_LIST] is None or not document[_LIST]:
        document[_LIST] = []
    document[_LIST].append(
        {
            "finding": new.finding,
            "since": new.since,
            "until": new.until,
            "owner": new.owner,
            "reason": new.reason,
            "severity": new.level.severity,
            "decisions": new.level.decisions,
        }
    )
    return text_of(document)


def _document(text: str, name: str) -> Any:
    return document_of(text if text.strip() else _HEAD, name, _LIST, _HOW)


def _entry(entries: Any, place: int, name: str) -> Acknowledgement:
    where, found = entry_of(entries, place, name, _Entry, _HOW)
    if found.severity not in SEVERITIES:
        raise BadInputError(
            f"{where}: severity is {found.severity!r}, expected one of {', '.join(SEVERITIES)}."
        )
    if found.until < found.since:
        raise BadInputError(f"{where}: until {found.until} is before since {found.since}.")
    level = Level(found.severity, found.decisions)
    return Acknowledgement(
        found.finding, found.since, found.until, found.owner, found.reason, level
    )
