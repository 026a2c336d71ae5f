"""What a capture folder says, read without the code under test that reads such folders."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

LAYOUT = (
    "broker=1/kafka-request.log.gz",
    "broker=1/server.log.gz",
    "broker=1/server.properties",
    "broker=2/kafka-request.log.gz",
    "broker=2/server.log.gz",
    "broker=2/server.properties",
    "kafka-version.txt",
    "scenario.txt",
)
"""The files of a capture folder, sorted."""

THROTTLING_QUOTA_EXCEEDED = 89
"""Kafka: ``Errors.THROTTLING_QUOTA_EXCEEDED``."""

_COMPLETED = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] DEBUG "
    r"Completed request:(\{.*\}) \(kafka\.request\.logger\)$"
)
_VIOLATED = re.compile(r"Quota violated for sensor \((\w+)-(.*)\)\. Delay time: \((\d+)\)")


@dataclass(frozen=True, slots=True)
class Logged:
    """One line of a request log, in the broker's own words."""

    broker: str
    line: dict[str, Any]

    @property
    def api(self) -> tuple[str, int]:
        """Return the request's name and version."""
        header = self.line["requestHeader"]
        return header["requestApiKeyName"], header["requestApiVersion"]

    @property
    def client(self) -> tuple[str, str]:
        """Return user and client-id."""
        user = self.line["principal"].removeprefix("User:")
        return user, self.line["requestHeader"]["clientId"]

    @property
    def was_refused(self) -> bool:
        """Return whether the mutation quota refused a topic of a strict request."""
        # acks=0 has an empty string for a response.
        response = self.line["response"] or {}
        topics = response.get("topics", response.get("results", response.get("responses", ())))
        return any(topic.get("errorCode") == THROTTLING_QUOTA_EXCEEDED for topic in topics)


def files(capture: Path) -> tuple[str, ...]:
    """Return the relative names of all files in a folder, sorted."""
    found = (path for path in capture.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(capture).as_posix() for path in found))


def text(path: Path) -> str:
    """Return what a file says, unpacked where it is packed."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def request_log(capture: Path) -> list[Logged]:
    """Return every line of both request logs; AssertionError at one that Kafka does not write."""
    return [
        Logged(folder.name, msgspec.json.decode(_completed(line)))
        for folder in sorted(capture.glob("broker=*"))
        for line in text(folder / "kafka-request.log.gz").splitlines()
    ]


def violations(capture: Path) -> Counter[tuple[str, str, str]]:
    """Return how often each broker's quota managers recorded a throttle of 1 ms or more.

    The key is the broker, Kafka's name of the quota type (``Produce``, ``Fetch``, ``Request``) and
    ``<user>:<client-id>``, empty where the quota's level has none. A rate just above its bound
    violates it and delays nobody: its delay rounds to 0 ms, which a request log cannot show.
    """
    return Counter(
        (folder.name, found[1], found[2])
        for folder in sorted(capture.glob("broker=*"))
        for found in _violations(text(folder / "server.log.gz"))
        if int(found[3]) > 0
    )


def _completed(line: str) -> str:
    found = _COMPLETED.match(line)
    assert found is not None, f"not a line of Kafka's request logger: {line[:200]!r}"
    return found[1]


def _violations(server_log: str) -> Iterator[re.Match[str]]:
    return filter(None, map(_VIOLATED.search, server_log.splitlines()))
