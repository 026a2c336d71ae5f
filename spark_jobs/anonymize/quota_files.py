"""The small files beside the logs under pseudonyms: quotas, settings, versions.

Each is written anew from what was read of it, and a value stands on the line it stood on.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.java_properties import read_properties
from spark_jobs.ingest.quota_sources.journal import NOTED_WITHIN_MS, read_journal
from spark_jobs.ingest.quota_sources.out_of_scope import out_of_scope_names
from spark_jobs.ingest.quota_sources.snapshot import read_snapshot
from spark_jobs.ingest.quota_sources.static_config import read_static_config
from spark_jobs.quota.codes import DEFAULT

_RELEASE = re.compile(r"\d{1,4}(?:\.\d{1,6}){1,3}")
_NUMBER = re.compile(r"\+?\d{1,18}")
_NUMBERS = (
    "quota.window.num", "quota.window.size.seconds",
    "controller.quota.window.num", "controller.quota.window.size.seconds",
)  # fmt: skip
# Properties of which an audit asks whether they are there.
_PRESENT = {"process.roles": "broker", "zookeeper.connect": "zookeeper:2181"}
_CALLBACK = "client.quota.callback.class"
# Without a quota, until one is read.
_STATIC = {
    "quota.producer.default": str(2**63 - 1),
    "quota.consumer.default": str(2**63 - 1),
    "quota.producer.override": "",
    "quota.consumer.override": "",
    "quota.producer.bytes.per.second.overrides": "",
    "quota.consumer.bytes.per.second.overrides": "",
}


def written_version(text: str) -> str:
    """Return a version's numbers, without what builds of one's own add to them."""
    found = _RELEASE.match(text.strip())
    return f"{found[0]}\n" if found else "unknown\n"


def written_snapshot(text: str, source_file: str, pseudonyms: Pseudonyms) -> str:
    """Return a snapshot as it was read, of JSON or of text; raises BadInputError as its reader."""
    events = read_snapshot(text, 0, source_file)
    names = [name for line in text.splitlines() for name in out_of_scope_names(line)]
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        return json.dumps([_entry(e, pseudonyms) for e in events] + _ip_entries(names), indent=1)
    lines = _lines(text, events, lambda of_line: _described(of_line, pseudonyms))
    others = "".join(f"Dynamic configs for brokers are {name}=0\n" for name in names)
    return lines + others


def written_journal(text: str, source_file: str, pseudonyms: Pseudonyms) -> str:
    """Return a journal as it was read; raises BadInputError as its reader."""
    names = [name for line in text.splitlines() for name in out_of_scope_names(line)]
    events = read_journal(text, source_file)
    others = "".join(
        f"1000000000000 --entity-type ips --entity-name x --add-config {name}=0\n" for name in names
    )
    return _lines(text, events, lambda of_line: _command(of_line, pseudonyms)) + others


def written_properties(text: str, source_file: str, pseudonyms: Pseudonyms) -> str:
    """Return the properties that an audit reads; raises BadInputError as their reader."""
    properties = read_properties(text, source_file)
    written: dict[int, str] = {}
    for key, found in properties.items():
        value = found.value.strip()
        if key in _NUMBERS and _NUMBER.fullmatch(value):
            written[found.line] = f"{key}={value}"
        elif key in _PRESENT:
            written[found.line] = f"{key}={_PRESENT[key]}"
        elif key in _STATIC:
            written[found.line] = f"{key}={_STATIC[key]}"
        elif key == _CALLBACK and value:
            written[found.line] = f"{key}=of.ones.own.Callback"
    # Of no version in particular, so that no static quota is left out.
    config = read_static_config(text, source_file, 0)
    for line, of_line in _by_line(config.quota_events).items():
        written[line] = f"{written[line].partition('=')[0]}={_static(of_line, pseudonyms)}"
    last = max(written, default=0)
    lines = "".join(f"{written.get(number, '')}\n" for number in range(1, last + 1))
    names = [name for line in text.splitlines() for name in out_of_scope_names(line)]
    return lines + "".join(f"{name}=0\n" for name in names)


def _by_line(events: Iterable[QuotaEvent]) -> Mapping[int, list[QuotaEvent]]:
    by_line: dict[int, list[QuotaEvent]] = defaultdict(list)
    for event in events:
        assert event.source_line is not None
        by_line[event.source_line].append(event)
    return by_line


def _lines(
    text: str, events: Sequence[QuotaEvent], written: Callable[[list[QuotaEvent]], str]
) -> str:
    """Return as many lines as ``text`` has, empty where nothing was read."""
    by_line = _by_line(events)
    count = len(text.removeprefix("\ufeff").splitlines())
    return "".join(
        (written(by_line[number]) if number in by_line else "") + "\n"
        for number in range(1, count + 1)
    )


def _named(event: QuotaEvent, pseudonyms: Pseudonyms) -> dict[str, str]:
    """Return the names of an event's entity by its type, DEFAULT among them."""
    named = {}
    if event.quota_user is not None:
        named["user"] = pseudonyms.name(event.quota_user, Kind.PRINCIPAL)
    if event.quota_client_id is not None:
        named["client-id"] = pseudonyms.name(event.quota_client_id, Kind.CLIENT_ID)
    return named


def _entry(event: QuotaEvent, pseudonyms: Pseudonyms) -> dict[str, object]:
    named = _named(event, pseudonyms)
    entity = {kind: None if name == DEFAULT else name for kind, name in named.items()}
    return {"entity": entity, "values": {event.quota_type: event.bound}}


def _ip_entries(names: Iterable[str]) -> list[dict[str, object]]:
    return [{"entity": {"ip": None}, "values": {name: 0}} for name in names]


def _described(events: list[QuotaEvent], pseudonyms: Pseudonyms) -> str:
    """Return a line of ``kafka-configs.sh --describe`` through the brokers."""
    titles = {"user": "user-principal", "client-id": "client-id"}
    parts = [
        f"the default {titles[kind]}" if name == DEFAULT else f"{titles[kind]} '{name}'"
        for kind, name in _named(events[0], pseudonyms).items()
    ]
    values = ", ".join(f"{event.quota_type}={event.bound}" for event in events)
    return f"Quota configs for {', '.join(parts)} are {values}"


def _command(events: list[QuotaEvent], pseudonyms: Pseudonyms) -> str:
    """Return arguments of ``kafka-configs.sh``."""
    words = [str(events[0].latest_ms - NOTED_WITHIN_MS)]
    for kind, name in _named(events[0], pseudonyms).items():
        words.append(f"--entity-type {'users' if kind == 'user' else 'clients'}")
        # In one word, since a name may begin with a dash.
        is_default = name == DEFAULT
        words.append("--entity-default" if is_default else shlex.quote(f"--entity-name={name}"))
    removed = ",".join(event.quota_type for event in events if event.bound is None)
    added = [f"{event.quota_type}={event.bound}" for event in events if event.bound is not None]
    words += [f"--delete-config {removed}"] if removed else []
    words += [f"--add-config {','.join(added)}"] if added else []
    return " ".join(words)


def _static(events: list[QuotaEvent], pseudonyms: Pseudonyms) -> str:
    """Return the value of a static quota: a number, or clients with one each."""
    bounds = [(event.quota_client_id, int(event.bound or 0)) for event in events]
    if bounds[0][0] == DEFAULT:
        return str(bounds[0][1])
    text = ",".join(
        f"{pseudonyms.name(client_id or '', Kind.CLIENT_ID)}:{bound}" for client_id, bound in bounds
    )
    return text.replace("\\", "\\\\")
