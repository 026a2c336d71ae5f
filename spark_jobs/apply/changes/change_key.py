"""Changes by a name that a person can type: ``users/alice/clients/etl:producer_byte_rate``.

The entity is written as Kafka keeps it in ZooKeeper (``ConfigEntityName``, ``Sanitizer``):
``users/<user>``, ``clients/<client-id>``, or both, names percent-encoded, ``<default>`` as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

# Never special in a shell word, and never '/', ':' or '%', which have a meaning here.
_PLAIN = "@=+,"
_USERS, _CLIENTS = "users", "clients"


@dataclass(frozen=True, slots=True)
class Selection:
    """An entity, and one of its quota types or (None) all."""

    user: str | None
    client_id: str | None
    quota_type: str | None

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


def parse_selection(text: str) -> Selection:
    """Return the selection that ``text`` names. Raises BadInputError.

    >>> parse_selection("clients/etl")
    Selection(user=None, client_id='etl', quota_type=None)
    """
    entity, colon, quota_type = text.rpartition(":")
    if not colon or quota_type not in QUOTA_TYPES:
        entity, quota_type = text, ""
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
                f":TYPE, one of {', '.join(QUOTA_TYPES)}."
            )
    return Selection(user, client_id, quota_type or None)


def chosen_changes(
    changes: Iterable[QuotaAlteration], selections: Sequence[Selection]
) -> list[QuotaAlteration]:
    """Return the changes that a selection covers; all where there is no selection.

    Raises BadInputError where a selection covers nothing, saying what there is.
    """
    offered = list(changes)
    for selection in selections:
        if not any(selection.covers(change) for change in offered):
            raise BadInputError(
                f"Nothing is proposed for {_selection_text(selection)}; what is: "
                f"{', '.join(map(change_key, offered)) or 'nothing'}."
            )
    if not selections:
        return offered
    return [c for c in offered if any(selection.covers(c) for selection in selections)]


def _encoded(name: str) -> str:
    return name if name == DEFAULT else quote(name, safe=_PLAIN)


def _selection_text(selection: Selection) -> str:
    name = entity_path(selection.user, selection.client_id)
    return f"{name}:{selection.quota_type}" if selection.quota_type else name
