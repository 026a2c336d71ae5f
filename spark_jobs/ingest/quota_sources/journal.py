"""A journal of quota changes: when ``kafka-configs.sh`` was run, and with which arguments.

One change a line, for clusters whose log does not have them (before 2.6 the tool wrote to
ZooKeeper)::

    1795229264942 --entity-type users --entity-name alice --add-config producer_byte_rate=400000
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from itertools import zip_longest
from typing import NoReturn

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import QuotaEntity, QuotaEvent, read_bound
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

NOTED_WITHIN_MS = 5_000
"""A change took effect at most this far from the noted time: the tool runs for some seconds."""

_LINE = re.compile(r"(\d{10,16})\s+(\S.*)")
_EXAMPLE = "1795229264942 --entity-type users --entity-name alice --add-config producer_byte_rate=1"
# Entities of ConfigCommand; quotas of the others are not those of clients.
_USER, _CLIENT = "users", "clients"
_OTHERS = ("topics", "brokers", "broker-loggers", "ips", "client-metrics", "groups")
_OTHER_NAMES = ("--topic", "--broker", "--broker-logger", "--ip", "--client-metrics", "--group")
_OTHER_DEFAULTS = ("--broker-defaults", "--ip-defaults")


def read_journal(text: str, source_file: str) -> list[QuotaEvent]:
    """Return the quota changes of a journal; empty lines and those that begin with # are skipped.

    Lines about topics, brokers and addresses change no client quota.

    Raises BadInputError naming the line that cannot be read.
    """
    events: list[QuotaEvent] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            events += _events(line.strip(), number, source_file)
    return events


def _events(line: str, number: int, source_file: str) -> Iterator[QuotaEvent]:
    where = f"{source_file}, line {number}"
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadInputError(
            f"{where}: found a text of {len(line)} characters, expected the time in epoch "
            f"milliseconds and the arguments of kafka-configs.sh, such as "
            f"'{_EXAMPLE}'. Correct or remove the line."
        )
    noted_ms = int(found[1])
    arguments = _Arguments(where).parse(found[2])
    entity = _entity(arguments, where)
    if entity is None:
        return
    for quota_type, bound in _changes(arguments, where):
        yield QuotaEvent(
            quota_type=quota_type,
            quota_user=entity[0],
            quota_client_id=entity[1],
            bound=bound,
            broker_id=None,
            earliest_ms=noted_ms - NOTED_WITHIN_MS,
            latest_ms=noted_ms + NOTED_WITHIN_MS,
            source="journal",
            source_file=source_file,
            source_line=number,
        )


_TWO_DASHES = "\0"  # in no word of a shell


class _Arguments(argparse.ArgumentParser):
    """Reads arguments as ``ConfigCommand.ConfigCommandOptions`` does."""

    def __init__(self, where: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._where = where
        for name in ("--bootstrap-server", "--zookeeper", "--command-config"):
            self.add_argument(name)
        for name in ("--bootstrap-controller", "--zk-tls-config-file"):
            self.add_argument(name)
        for name in _OTHER_NAMES:
            self.add_argument(name, dest="other")
        for name in _OTHER_DEFAULTS:
            self.add_argument(name, action="store_const", const=DEFAULT, dest="other")
        for name in ("--alter", "--force"):
            self.add_argument(name, action="store_true")
        self.add_argument("--entity-type", action="append", default=[])
        self.add_argument("--entity-name", action="append", default=[])
        self.add_argument(
            "--entity-default", action="append_const", const=DEFAULT, dest="entity_name"
        )
        self.add_argument("--user")
        self.add_argument("--user-defaults", action="store_const", const=DEFAULT, dest="user")
        self.add_argument("--client")
        self.add_argument("--client-defaults", action="store_const", const=DEFAULT, dest="client")
        self.add_argument("--add-config", action="append", default=[])
        self.add_argument("--delete-config", action="append", default=[])

    def parse(self, text: str) -> argparse.Namespace:
        """Return the arguments of a command line; raise BadInputError where it is none."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.error(str(error))
        # Before 3.12.5 argparse takes the value away from --entity-name=--, a name like any other.
        found = self.parse_args([re.sub("=--$", f"={_TWO_DASHES}", word) for word in words])
        found.entity_name = ["--" if name == _TWO_DASHES else name for name in found.entity_name]
        return found

    def error(self, message: str) -> NoReturn:
        # What is no option's name may be a password, as of a SCRAM credential: it is not quoted.
        what, colon, words = re.sub("'[^']*'", "…", message).partition("arguments: ")
        names = " ".join(re.findall(r"(?<!\S)--[a-z-]+(?=[\s=]|$)", words))
        raise BadInputError(
            f"{self._where}: {what}{colon}{names}. Expected arguments of kafka-configs.sh, such as "
            f"'{_EXAMPLE}'. Correct or remove the line."
        )


def _entity(arguments: argparse.Namespace, where: str) -> QuotaEntity | None:
    """Return the entity of a command line, None where it is not a client's."""
    if arguments.other is not None:
        return None
    named: dict[str, str | None] = {_USER: arguments.user, _CLIENT: arguments.client}
    for kind, name in zip_longest(arguments.entity_type, arguments.entity_name):
        if kind in _OTHERS:
            return None
        if kind not in named or name is None:
            raise BadInputError(
                f"{where}: found --entity-type {kind} with the name {name!r}, expected users or "
                "clients, each with --entity-name or --entity-default. Correct the line."
            )
        named[kind] = name
    if not any(named.values()):
        raise BadInputError(
            f"{where}: found no entity, expected --entity-type users or clients with a name. "
            "Correct the line."
        )
    return named[_USER], named[_CLIENT]


def _changes(arguments: argparse.Namespace, where: str) -> Iterator[tuple[str, float | None]]:
    # Square brackets group a value that has commas; no quota's value has them.
    deleted = ",".join(arguments.delete_config)
    added = re.sub(r"\[[^\]]*\]", "", ",".join(arguments.add_config))
    if not deleted and not added:
        raise BadInputError(
            f"{where}: found neither --add-config nor --delete-config, expected one of them. "
            "Correct the line."
        )
    for key in deleted.split(","):
        if key.strip() in QUOTA_TYPES:
            yield key.strip(), None
    for pair in added.split(","):
        key, separator, value = pair.partition("=")
        if key.strip() in QUOTA_TYPES:
            yield key.strip(), read_bound(value.strip(), key.strip(), where)
        elif pair.strip() and not separator:
            raise BadInputError(
                f"{where}: found a text of {len(pair)} characters in --add-config, expected "
                "<key>=<value>. Correct it."
            )
