"""What a log shows a broker to serve that no known release of Kafka does: it is newer, or another.

A request is logged once the broker has read it, so it serves that version of it: one it does not
know closes the connection (``RequestContext.parseRequest``). An answer to API_VERSIONS names all
that the broker serves; such a request alone is answered in any version (``ApiVersionsRequest``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from spark_jobs.quota.apis import API_KEYS, APIS, NEWEST_RELEASE
from spark_jobs.quota.rate_profile import release_of_version

ServedBeyond = Mapping[int, int]
"""The newest version served of each request, by its key; those that a known release serves less of.
"""
API_VERSIONS = API_KEYS["API_VERSIONS"]
_NAMED_MAX = 3
_NEWEST = np.full(max(APIS) + 1, -1, np.int64)
for _api in APIS.values():
    _NEWEST[_api.key] = _api.newest_version
_NEWEST[API_VERSIONS] = np.iinfo(np.int16).max


class _Served(msgspec.Struct, gc=False):
    apiKey: int
    maxVersion: int


class _Answer(msgspec.Struct, gc=False):
    apiKeys: list[_Served] = []


_decode = msgspec.json.Decoder(_Answer).decode


def beyond_of_requests(api_key: np.ndarray, api_version: np.ndarray) -> dict[int, int]:
    """Return the versions of requests, by key, that are newer than all known releases serve."""
    key = api_key.astype(np.int64)
    is_known = (key >= 0) & (key < len(_NEWEST))
    is_beyond = ~is_known
    is_beyond[is_known] = api_version[is_known] > _NEWEST[key[is_known]]
    return together(
        {k: v}
        for k, v in zip(key[is_beyond].tolist(), api_version[is_beyond].tolist(), strict=True)
    )


class ServedApis:
    """What brokers were seen to serve beyond what is known, by broker, from line to line."""

    def __init__(self) -> None:
        self.beyond: dict[int, dict[int, int]] = {}
        self._answered: dict[int, bytes] = {}

    def take_answer(self, broker_id: int, response: bytes) -> None:
        """Take an answer to API_VERSIONS; a broker gives nearly all its clients the same."""
        if response != self._answered.get(broker_id):
            self._answered[broker_id] = response
            self.take(broker_id, beyond_of_answer(response))

    def take(self, broker_id: int, served: ServedBeyond) -> None:
        """Take what one broker was seen to serve."""
        if served:
            self.beyond[broker_id] = together([self.beyond.get(broker_id, {}), served])

    @classmethod
    def of_all(cls, found: Iterable[Mapping[int, ServedBeyond]]) -> ServedApis:
        """Return the union of ``found``, each by broker: the newest version of each request."""
        served = cls()
        for beyond in found:
            for broker_id, of_broker in beyond.items():
                served.take(broker_id, of_broker)
        return served


def answer_in(text: bytes) -> bytes:
    """Return the response in a JSON line as it is logged; empty where it has none.

    In texts of a line quotes are escaped, so these are its own.
    """
    _, _, response = text.partition(b'"response":')
    return response.rpartition(b',"connection":')[0]


def beyond_of_answer(response: bytes) -> dict[int, int]:
    """Return the newest versions, by key, that an answer names beyond all known releases.

    One that cannot be read tells nothing.
    """
    try:
        served = _decode(response).apiKeys
    except msgspec.DecodeError:
        return {}
    newest = {key: api.newest_version for key, api in APIS.items()}
    return {s.apiKey: s.maxVersion for s in served if s.maxVersion > newest.get(s.apiKey, -1)}


def together(found: Iterable[ServedBeyond]) -> dict[int, int]:
    """Return the newest version of each request in any of ``found``."""
    newest: dict[int, int] = {}
    for each in found:
        for key, version in each.items():
            newest[key] = max(version, newest.get(key, version))
    return newest


def newer_than_known(version: str | None, served: ServedBeyond) -> str | None:
    """Return the evidence that a broker is newer than what is known, None where there is none.

    >>> newer_than_known("4.5.0", {0: 14})
    'its version is 4.5.0; it serves PRODUCE up to version 14 (known: 13)'
    >>> newer_than_known("4.4.0", {}) is None
    True
    """
    told = []
    if version is not None and release_of_version(version) > NEWEST_RELEASE:
        told.append(f"its version is {version}")
    names = [_served(key, newest) for key, newest in sorted(served.items())]
    if names:
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        told.append(f"it serves {', '.join(names[:_NAMED_MAX])}{more}")
    return "; ".join(told) or None


def _served(key: int, version: int) -> str:
    if key not in APIS:
        return f"requests of the unknown key {key}"
    known = APIS[key].newest_version
    return f"{APIS[key].name} up to version {version} (known: {max(known, 0)})"


def newer_sentences(brokers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a warning for each broker (a row of ``tables.BROKERS``) newer than what is known."""
    newest = ".".join(map(str, NEWEST_RELEASE))
    return [
        f"broker {broker['broker_id']} is newer than Kafka {newest}, or no Apache Kafka: "
        f"{broker['newer_than_known']}. How it decides is not known here, so its decisions are "
        "replayed but not judged (indeterminate, broker_not_known). Audit it again with a version "
        "of quota-audit that knows it"
        for broker in brokers
        if broker["newer_than_known"]
    ]
