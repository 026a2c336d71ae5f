"""The YAML files that people keep under version control: what they know of findings, who owns whom.

Each is one list under one name, with comments that stay where they are.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.problem import Level
from spark_jobs.quota.codes import SEVERITIES
from spark_jobs.warehouse.days import later_day

Entry = TypeVar("Entry")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
# What YAML itself has: a sign, or the name of a token.
_OF_YAML = re.compile(r"'(.|<[a-z ]+>)'")


def document_of(text: str, name: str, list_name: str, how: str) -> Any:
    """Return the document of the file ``name``: a mapping with the list, None where it is empty.

    Raises BadInputError where it is no YAML or another document; ``how`` ends its sentence.
    """
    try:
        document = _yaml().load(text)
    except (YAMLError, ValueError, RecursionError) as error:  # a 30th of February; [[[[…
        raise BadInputError(f"{name} is no YAML: {_said_of(error)}. {how}") from error
    is_ours = isinstance(document, Mapping) and set(document) == {list_name}
    if not is_ours or not isinstance(document[list_name], (list, type(None))):
        raise BadInputError(f"{name} is not a list named '{list_name}' and nothing else. {how}")
    return document


def entries_of(
    document: Any, list_name: str, name: str, kind: type[Entry], how: str
) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a document's list, each behind its file and line in words.

    Raises BadInputError that says where and why one is none; ``how`` ends its sentence.
    """
    entries: Any = document[list_name] or []
    for place, entry in enumerate(entries):
        where = f"{name}, line {entries.lc.item(place)[0] + 1}"
        try:
            yield where, msgspec.convert(entry, kind, builtin_types=(dt.date,))
        except msgspec.ValidationError as error:
            raise BadInputError(f"{where}: {error}. {how}") from error


def text_of(document: Any) -> str:
    """Return a document as the text of its file."""
    out = io.StringIO()
    _yaml().dump(document, out)
    return out.getvalue()


def _said_of(error: Exception) -> str:
    """Return the fault and its line; no text of the file, which may be another one's secret."""
    said = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f", line {mark.line + 1}"
    shown = _QUOTED.sub(lambda m: m[0] if _OF_YAML.fullmatch(m[0]) else "…", said)
    return f"{' '.join(shown.split())}{where}"


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.allow_unicode = True
    yaml.width = 4096
    return yaml


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Acknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``finding`` is known from ``since`` up to and with ``until``, as bad as it was then.

    ``acknowledged_by`` is who was signed in; "": written by the command or by hand.
    """

    finding: _Text
    since: dt.date
    until: dt.date
    owner: _Text
    reason: _Text
    severity: str
    decisions: Annotated[int, msgspec.Meta(ge=0)]
    acknowledged_by: str = ""

    @property
    def level(self) -> Level:
        """Return the severity and number of decisions that the known problem had."""
        return Level(self.severity, self.decisions)

    def within(self, days_max: int) -> Acknowledgement:
        """Return the acknowledgement, ended so many days after its first where it ends later."""
        last = later_day(self.since, days_max)
        return self if self.until <= last else msgspec.structs.replace(self, until=last)

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
    "Each entry has finding, since, until, owner, reason, severity and decisions, and may have "
    "acknowledged_by; "
    "'quota-audit acknowledge' writes it so."
)


def read_acknowledgements(text: str, name: str) -> list[Acknowledgement]:
    """Return the acknowledgements of the file ``name`` with this ``text``, in its order.

    Raises BadInputError that names the line of what cannot be read.
    """
    found = []
    for where, one in entries_of(_document(text, name), _LIST, name, Acknowledgement, _HOW):
        if one.severity not in SEVERITIES:
            raise BadInputError(
                f"{where}: severity is {one.severity!r}, expected one of {', '.join(SEVERITIES)}."
            )
        if one.until < one.since:
            raise BadInputError(f"{where}: until {one.until} is before since {one.since}.")
        found.append(one)
    return found


def with_acknowledgement(text: str, name: str, new: Acknowledgement) -> str:
    """Return ``text`` with one more entry; comments and other entries stay as they are.

    Raises BadInputError where ``text`` is no such file.
    """
    read_acknowledgements(text, name)
    document = _document(text, name)
    document[_LIST] = document[_LIST] or []
    document[_LIST].append(msgspec.to_builtins(new, builtin_types=(dt.date,)))
    return text_of(document)


def _document(text: str, name: str) -> Any:
    return document_of(text if text.strip() else _HEAD, name, _LIST, _HOW)


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


_OWNERS = "owners"
_HOW_OWNED = (
    "Each entry has 'match' (a regular expression that fits a whole name), 'team' and 'contact'; "
    "and may have 'part' (user, client-id or either), 'valid_from' and 'valid_until' (days)."
)


class _OwnerEntry(msgspec.Struct, forbid_unknown_fields=True):
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
    document = document_of(text, name, _OWNERS, _HOW_OWNED)
    entries = entries_of(document, _OWNERS, name, _OwnerEntry, _HOW_OWNED)
    return Owners(tuple(_rule(where, found) for where, found in entries))


def _rule(where: str, found: _OwnerEntry) -> OwnerRule:
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
