"""What a request log holds of each client's produces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CLIENT = re.compile(rb'"requestApiKeyName":"PRODUCE".*?"clientId":"([^"]*)"|'
                     rb'"clientId":"([^"]*)".*?"requestApiKeyName":"PRODUCE"')  # fmt: skip


@dataclass(slots=True)
class Logged:
    """Lines of produces, as they stand in the log."""

    lines: int = 0
    text: bytes = b""


def logged_requests(logs: Iterable[Path]) -> dict[str, Logged]:
    """Return by client id what the logs hold of its PRODUCE requests."""
    parts: dict[str, list[bytes]] = {}
    for log in logs:
        for line in log.read_bytes().splitlines(keepends=True):
            found = _CLIENT.search(line)
            if found:
                client = (found[1] or found[2]).decode()
                parts.setdefault(client, []).append(line)
    return {client: Logged(len(lines), b"".join(lines)) for client, lines in parts.items()}
