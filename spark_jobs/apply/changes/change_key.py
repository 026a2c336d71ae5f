"""Changes by a name that a person can type: ``users/alice/clients/etl:producer_byte_rate``.

With its values behind it, ``…:producer_byte_rate:50000:none``, it is that very change and no other.

The entity is written as Kafka keeps it in ZooKeeper (``ConfigEntityName``, ``Sanitizer``):
``users/<user>``, ``clients/<client-id>``, or both, names percent-encoded, ``<default>`` as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, value_text
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

# Never special in a shell word, and never '/', ':' or '%', which have a meaning here.
_PLAIN = "@=+,"
_USERS, _CLIENTS = "users", "clients"
_TYPES = "|".join(QUOTA_TYPES)
_VALUE = r"none|\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_WITH_VALUES = re.compile(rf"(.*:(?:{_TYPES})):({_VALUE}):({_VALUE})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """An entity, and one of its quota types or (None) all.

    ``values`` are what the change must be from and to; None: whatever it is.
    """

    user: str | None
    client_id: str | None
    quota_type: str | None
    values: tuple[float | None, float | None] | None = None

    def covers(self, change: QuotaAlteration) -> bool:
        """Return True if it is about ``change``."""
        same_entity = (self.user, self.client_id) == change.entity
        return same_entity and self.quota_type in (None, change.quota_type)


def entity_path(user: str | None, client_id: str | None) -> str:
    """Return the name of an entity.

    >>> entity_path("alice", None), entity_path("a/b", "<default>")
    ('users/alice', 'users/a%2Fb/clients/<default>')
    """
    parts = ((_USERS, user), (_CLIENTS, client_id))
    return "/".join(f"{kind}/{_encoded(name)}" for kind, name in parts if name is not None)


def change_key(change: QuotaAlteration) -> str:
    """Return the name of a change: its entity's, and its quota type."""
    return f"{entity_path(change.user, change.client_id)}:{change.quota_type}"


def change_key_with_values(change: QuotaAlteration) -> str:
    """Return the name of a change with its values: another one of that name has another.

    >>> change_key_with_values(QuotaAlteration("producer_byte_rate", "alice", None, 50000.0, None))
    'users/alice:producer_byte_rate:50000:none'
    """
    return f"{change_key(change)}:{value_text(change.before)}:{value_text(change.after)}"


def parse_selection(text: str) -> Selection:
    """Return the selection that ``text`` names. Raises BadInputError.

    >>> parse_selection("clients/etl")
    Selection(user=None, client_id='etl', quota_type=None, values=None)
    """
    named, values = text, None
    if (found := _WITH_VALUES.fullmatch(text)) is not None:
        named, values = found[1], (_value(found[2]), _value(found[3]))
    entity, colon, quota_type = named.rpartition(":")
    if not colon or quota_type not in QUOTA_TYPES:
        entity, quota_type = named, ""
    user: str | None = None
    client_id: str | None = None
    match entity.split("/"):
        case [kind, name] if kind == _USERS and name:
            user = unquote(name)
        case [kind, name] if kind == _CLIENTS and name:
            client_id = unquote(name)
        case [first, name, second, other] if (first, second) == (_USERS, _CLIENTS) and name:
            user, client_id = unquote(name), unquote(other)
        case _:
            raise BadInputError(
                f"{text!r} names no quota entity: expected users/NAME, clients/NAME or "
                "users/NAME/clients/NAME ('/' in a name is written %2F), and maybe "
                f":TYPE, one of {', '.join(QUOTA_TYPES)}, and behind it :BEFORE:AFTER."
            )
    return Selection(user, client_id, quota_type or None, values)


def chosen_changes(
    changes: Iterable[QuotaAlteration], selections: Sequence[Selection]
) -> list[QuotaAlteration]:
    """Return the changes that a selection covers; all where there is no selection.

    Raises BadInputError where a selection covers nothing, saying what there is, or names other
    values than those of the change.
    """
    offered = list(changes)
    for selection in selections:
        covered = [change for change in offered if selection.covers(change)]
        if not covered:
            raise BadInputError(
                f"Nothing is proposed for {_selection_text(selection)}; what is: "
                f"{', '.join(map(change_key, offered)) or 'nothing'}."
            )
        for change in covered:
            if selection.values not in (None, (change.before, change.after)):
                raise BadInputError(
                    f"Nothing was changed: proposed is {change_key_with_values(change)} by now, "
                    f"and chosen was {_selection_text(selection)}. The day was audited again "
                    "since: look at 'quota-audit proposals', and choose anew."
                )
    if not selections:
        return offered
    return [c for c in offered if any(selection.covers(c) for selection in selections)]


def _encoded(name: str) -> str:
    return name if name == DEFAULT else quote(name, safe=_PLAIN)


def _value(text: str) -> float | None:
    return None if text == "none" else float(text)


def _selection_text(selection: Selection) -> str:
    name = entity_path(selection.user, selection.client_id)
    values = map(value_text, selection.values or ())
    return ":".join([name, *filter(None, [selection.quota_type]), *values])
