"""Quotas of Kafka that are not a client's: recognised and named, never audited.

Kafka: ``QuotaConfig`` (4.x; ``QuotaConfigs`` before) and ``SocketServerConfigs``: the rates at
which connections are made, of an address (KIP-612) or of a whole broker or listener; the rates at
which replicas and log directories are copied (KIP-73, KIP-113). None of them is recorded on a
client's sensor, and none shows as a throttle time in the request log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

CONNECTION_CREATION_RATE = "connection_creation_rate"
"""The quota of an address in ALTER_CLIENT_QUOTAS and in ``--entity-type ips``."""

_KINDS = {
    CONNECTION_CREATION_RATE: "connection-rate",
    "max.connection.creation.rate": "connection-rate",
    "leader.replication.throttled.rate": "replication",
    "follower.replication.throttled.rate": "replication",
    "replica.alter.log.dirs.io.max.bytes.per.second": "replication",
}
# A name as a whole, or behind a listener's: listener.name.client.max.connection.creation.rate.
_NAMES = re.compile(
    r"(?<![\w-])(?:listener\.name\.[\w-]+\.)?("
    + "|".join(re.escape(name) for name in _KINDS)
    + r")(?=\s*[=:\"]|,|\s|$)"
)
# ConnectionQuotas (SocketServer) says so in the server.log; the greatest int is no quota, and
# every broker says that of itself when it starts.
_LOGGED = re.compile(
    r"Updating max connection rate override for |Removing max connection rate override for |"
    r"(?:Updated default max IP connection rate|Updated \S+ max connection creation rate) to "
    r"(?!2147483647\b)"
)


def out_of_scope_settings(text: str, source_file: str) -> tuple[str, ...]:
    """Return a warning for every quota named in ``text`` that no client has, each name once.

    ``text`` is a snapshot, a journal or properties; lines that begin with # do not count.
    """
    found = Counter(name for line in text.splitlines() for name in out_of_scope_names(line))
    return tuple(_warning(source_file, name, count) for name, count in sorted(found.items()))


def out_of_scope_names(line: str) -> list[str]:
    """Return every quota named in ``line`` that no client has, as often as it is named."""
    return [] if line.lstrip().startswith(("#", "!")) else _NAMES.findall(line)


def out_of_scope_alterations(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a warning for every such quota that logged ALTER_CLIENT_QUOTAS requests change.

    ``rows`` are of ``tables.REQUESTS``; needed: quota_alterations, source_file.
    """
    found = Counter(
        (row["source_file"], alteration["quota_type"])
        for row in rows
        for alteration in row["quota_alterations"] or ()
        if alteration["quota_type"] in _KINDS
    )
    return tuple(_warning(file, name, count) for (file, name), count in sorted(found.items()))


def is_out_of_scope(logged: str) -> bool:
    """Return True if a line of a server.log tells of a change to a connection-rate quota."""
    return _LOGGED.search(logged) is not None


def _warning(source_file: str, name: str, count: int) -> str:
    return (
        f"{source_file}: {name} appears {count} time(s): a {_KINDS[name]} quota, out of scope "
        "(only quotas of clients are audited)"
    )
