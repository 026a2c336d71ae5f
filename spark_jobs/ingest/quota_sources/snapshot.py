"""Quota snapshots: what is configured at one moment, as Kafka's tools tell it.

``kafka-configs.sh --describe`` through ZooKeeper (``ConfigCommand`` up to 3.x) prints ::

    Configs for user-principal 'alice', default client-id are producer_byte_rate=1024,…

and through the brokers (2.6 and later) ::

    Quota configs for user-principal 'alice', the default client-id are producer_byte_rate=1024.0, …

As JSON, a snapshot is a list of entries, or an object that holds it under ``entries``; an entry is
as in the answer to DESCRIBE_CLIENT_QUOTAS, or shorter, as the Admin API has it ::

    {"entity": [{"entityType": "user", "entityName": "alice"}],
     "values": [{"key": "producer_byte_rate", "value": 1024}]}
    {"entity": {"user": "alice", "client-id": null}, "values": {"producer_byte_rate": 1024}}

where the name null is the default's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import (
    SINCE_UNKNOWN_MS,
    QuotaEntity,
    QuotaEvent,
    read_bound,
)
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

_CONFIGS = re.compile(
    r"(?:Quota configs|Configs) for (?:"
    r"(?:(?P<default_user>(?:the )?default user-principal)|user-principal '(?P<user>.*?)')"
    r"(?:, (?=(?:the )?default client-id|client-id '))?)?"
    r"(?:(?P<default_client>(?:the )?default client-id)|client-id '(?P<client>.*?)')?"
    r" are ?(?P<values>.*)"
)
# The other things the same tool describes.
_FOREIGN = re.compile(
    r"SCRAM credential configs for |Error retrieving SCRAM |Dynamic configs for |All configs for |"
    r"Default configs for |"
    r"(?:Quota configs|Configs) for (?:(?:the )?default (?:ip|broker|topic)|(?:ip|broker|topic) '|"
    r"(?:broker|topic)s? )"
)
# Any other text may be the secret of a file that was named by mistake: it is not quoted.
_OF_TOOL = re.compile(r"\b(kafka|error|exception)\b", re.IGNORECASE)
_SPEAKS_OF_QUOTAS = re.compile(r"^(?:Quota|Config)|onfigs for |" + "|".join(QUOTA_TYPES))

_Quota = tuple[str, QuotaEntity, float, int | None]
"""(quota type, entity, bound, line)"""


def read_snapshot(text: str, taken_at_ms: int, source_file: str) -> list[QuotaEvent]:
    """Return an event for every quota a snapshot shows: set at some time up to ``taken_at_ms``.

    What a snapshot does not show is not said to be unset: it may be of one entity only. Quotas of
    an address (``ip``) and other lines of the tool are left aside.

    Raises BadInputError naming the line, or the JSON entry, that cannot be read.
    """
    begin = text.lstrip("\ufeff \t\r\n")[:1]
    quotas = _json_quotas if begin in ("{", "[") else _text_quotas
    return [
        QuotaEvent(
            quota_type=quota_type,
            quota_user=user,
            quota_client_id=client_id,
            bound=bound,
            broker_id=None,
            earliest_ms=min(SINCE_UNKNOWN_MS, taken_at_ms),
            latest_ms=taken_at_ms,
            source="snapshot",
            source_file=source_file,
            source_line=line,
        )
        for quota_type, (user, client_id), bound, line in quotas(text, source_file)
    ]


def _text_quotas(text: str, source_file: str) -> Iterator[_Quota]:
    understood = False
    first_unknown: tuple[int, str] | None = None
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = raw.strip()
        where = f"{source_file}, line {number}"
        if found := _CONFIGS.fullmatch(line):
            understood = True
            entity = _entity(found, where)
            for quota_type, bound in _text_values(found["values"], where):
                yield quota_type, entity, bound, number
        elif _FOREIGN.match(line):
            understood = True
        elif _SPEAKS_OF_QUOTAS.search(line):
            raise _unreadable(where, line)
        elif line and first_unknown is None:
            first_unknown = number, line
    if first_unknown is not None and not understood:
        raise _unreadable(f"{source_file}, line {first_unknown[0]}", first_unknown[1])


def _unreadable(where: str, line: str) -> BadInputError:
    is_of_tool = _SPEAKS_OF_QUOTAS.search(line) or (_OF_TOOL.search(line) and "=" not in line)
    found = repr(line[:80]) if is_of_tool else f"a text of {len(line)} characters"
    return BadInputError(
        f"{where}: found {found}, expected a line of kafka-configs.sh --describe such as "
        "\"Quota configs for user-principal 'alice' are producer_byte_rate=1048576.0\", or JSON. "
        "Take the snapshot again, or remove the line."
    )


def _entity(found: re.Match[str], where: str) -> QuotaEntity:
    user = DEFAULT if found["default_user"] else found["user"]
    client_id = DEFAULT if found["default_client"] else found["client"]
    if user is None and client_id is None:
        raise _unreadable(where, found[0])
    return user, client_id


def _text_values(values: str, where: str) -> Iterator[tuple[str, float]]:
    for pair in re.split(r",\s*", values):
        key, separator, value = pair.partition("=")
        if key in QUOTA_TYPES:
            yield key, read_bound(value, key, where)
        elif pair and not separator:
            raise BadInputError(
                f"{where}: found {pair[:80]!r}, expected <key>=<value> pairs after 'are', such as "
                "producer_byte_rate=1048576.0. The line may be cut: take the snapshot again."
            )


class _EntityPart(msgspec.Struct, rename="camel"):
    entity_type: Literal["user", "client-id", "ip"]
    entity_name: str | None = None


class _Value(msgspec.Struct):
    key: str
    value: float


class _Entry(msgspec.Struct):
    entity: list[_EntityPart] | dict[Literal["user", "client-id", "ip"], str | None]
    values: list[_Value] | dict[str, float]


def _json_quotas(text: str, source_file: str) -> Iterator[_Quota]:
    try:
        found: Any = json.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise BadInputError(f"{source_file}: this JSON nests without end.") from error
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{source_file}, line {error.lineno}, column {error.colno}: this is not JSON "
            f"({error.msg}). Expected a list of quota entries, each with entity and values."
        ) from error
    if isinstance(found, dict) and "entries" in found:
        found = found["entries"]
    try:
        entries = msgspec.convert(found, list[_Entry])
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadInputError(
            f"{source_file}: {error}, counting entries from 0 ($ is the list of entries). Expected "
            'entries such as {"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1024}}.'
        ) from error
    for number, entry in enumerate(entries):
        parts = _parts(entry)
        if "ip" in parts:
            continue
        where = f"{source_file}, entry {number} (from 0)"
        if not parts:
            raise BadInputError(
                f"{where}: found no entity, expected a user, a client-id or both. Correct the file."
            )
        for key, value in _values(entry).items():
            if key in QUOTA_TYPES:
                yield (
                    key,
                    (parts.get("user"), parts.get("client-id")),
                    read_bound(str(value), key, where),
                    None,
                )


def _parts(entry: _Entry) -> dict[str, str]:
    named: Mapping[Any, str | None] = (
        entry.entity
        if isinstance(entry.entity, dict)
        else {part.entity_type: part.entity_name for part in entry.entity}
    )
    return {kind: DEFAULT if name is None else name for kind, name in named.items()}


def _values(entry: _Entry) -> dict[str, float]:
    if isinstance(entry.values, dict):
        return entry.values
    return {each.key: each.value for each in entry.values}
