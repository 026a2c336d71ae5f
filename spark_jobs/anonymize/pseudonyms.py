"""Names → pseudonyms: one for one, of the same length in UTF-8, the same wherever a name stands.

The lengths have to stay: request sizes are computed from names, and quotas weigh them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache

from spark_jobs.anonymize.permutation import (
    ADDRESS_LETTERS,
    NAME_LETTERS,
    Alphabet,
    alphabet_of,
    permuted,
)
from spark_jobs.quota.codes import DEFAULT

KEPT_NAMES = frozenset(
    {
        "",
        "ANONYMOUS",
        DEFAULT,
        "null",  # how the text format prints that there is no client-id
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Names that Kafka gives a meaning to; nothing else becomes one of them."""
KEPT_LISTENERS = frozenset(
    {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER", "INTERNAL", "EXTERNAL"}
)
KEPT_SOFTWARE = frozenset(
    {
        "apache-kafka-java", "librdkafka", "confluent-kafka-python", "confluent-kafka-go",
        "confluent-kafka-dotnet", "confluent-kafka-javascript", "sarama", "kgo", "franz-go",
        "kafka-go", "kafkajs", "kafka-python", "aiokafka", "node-rdkafka", "rdkafka-ruby",
        "rust-rdkafka", "unknown",
    }
)  # fmt: skip
"""Libraries, as they name themselves to brokers (KIP-511)."""

_USER = "User"
_CONNECTION = re.compile(r"(.*):(\d{1,5})-(.*):(\d{1,5})((?:-\d{1,19})+)", re.DOTALL)
_VERSION = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,4})(.*)", re.DOTALL)
_KEPT_VERSION_ENDS = frozenset({"", "-SNAPSHOT", "-ccs", "-ce"})
_HELD_NAMES_MAX = 1 << 16
_HELD_LENGTH_MAX = 256
_UUID_BYTES, _UUID_CHARACTERS = 16, 22
_RESERVED_UUIDS = 100
"""Kafka keeps the first ids for itself: of its metadata topic, of what has none."""


class Kind(StrEnum):
    """What was replaced, in the words of the account."""

    PRINCIPAL = "principals"
    CLIENT_ID = "client ids"
    TOPIC = "topics"
    TOPIC_ID = "ids of topics and directories"
    GROUP = "groups and their members"
    TRANSACTIONAL_ID = "transactional ids"
    ADDRESS = "host names and addresses"
    CLUSTER = "clusters"
    LISTENER = "listeners"
    RACK = "racks"
    SOFTWARE = "clients' own software"
    TEXT = "free texts (blanked)"


class Pseudonyms:
    """Pseudonyms under one key; ``replaced`` counts values, not different names."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.replaced: Counter[Kind] = Counter()
        self._held = lru_cache(_HELD_NAMES_MAX)(self._pseudonym)

    def __repr__(self) -> str:
        """Return a text without the key."""
        return "Pseudonyms()"

    def name(self, name: str, kind: Kind) -> str:
        """Return the pseudonym of a name of any kind but an address."""
        if name in KEPT_NAMES:
            return name
        self.replaced[kind] += 1
        return self._of(name, b"name")

    def listener(self, name: str) -> str:
        """Return the pseudonym of a listener; Kafka's usual ones stay."""
        return name if name in KEPT_LISTENERS else self.name(name, Kind.LISTENER)

    def principal(self, principal: str) -> str:
        """Return the pseudonym of ``<type>:<name>``; the type User stays."""
        kind, colon, name = principal.partition(":")
        shown = kind if kind == _USER else self.name(kind, Kind.PRINCIPAL)
        return shown + colon + self.name(name, Kind.PRINCIPAL)

    def address(self, host: str) -> str:
        """Return the pseudonym of a host's name or address; its colons and dashes stay."""
        if not host:
            return host
        self.replaced[Kind.ADDRESS] += 1
        return self._of(host, b"address")

    def connection(self, connection: str) -> str:
        """Return ``host:port-host:port-…`` with both hosts replaced; ports and numbers stay."""
        found = _CONNECTION.fullmatch(connection)
        if found is None:
            return self.address(connection)
        local, remote = self.address(found[1]), self.address(found[3])
        return f"{local}:{found[2]}-{remote}:{found[4]}{found[5]}"

    def listener_address(self, address: str) -> str:
        """Return ``host:port`` with its host replaced."""
        host, colon, port = address.rpartition(":")
        return self.address(host) + colon + port

    def cluster(self, name: str) -> str:
        """Return the pseudonym of a cluster's folder, which begins with a letter or digit."""
        self.replaced[Kind.CLUSTER] += 1
        return self._of(name, b"cluster")

    def software(self, name: str) -> str:
        """Return the pseudonym of a client library; known ones stay."""
        return name if name in KEPT_SOFTWARE else self.name(name, Kind.SOFTWARE)

    def software_version(self, version: str) -> str:
        """Return a version with what follows its numbers replaced."""
        found = _VERSION.fullmatch(version)
        if found is None:
            return self.software(version)
        end = found[2]
        return version if end in _KEPT_VERSION_ENDS else found[1] + self.name(end, Kind.SOFTWARE)

    def uuid(self, text: str) -> str:
        """Return the pseudonym of a Kafka ``Uuid``; reserved ones stay, what is none is a name."""
        value = _uuid(text)
        if value is None:
            return self.name(text, Kind.TOPIC_ID)
        if int.from_bytes(value, "big") < _RESERVED_UUIDS:
            return text
        self.replaced[Kind.TOPIC_ID] += 1
        return self._held(text, b"uuid")

    def text(self, text: str) -> str:
        """Return as many bytes as ``text`` has, which say nothing."""
        if text:
            self.replaced[Kind.TEXT] += 1
        return "x" * len(text.encode("utf-8", "surrogatepass"))

    def _of(self, name: str, domain: bytes) -> str:
        # Names of megabytes are not held.
        held = len(name) <= _HELD_LENGTH_MAX
        return self._held(name, domain) if held else self._pseudonym(name, domain)

    def _pseudonym(self, name: str, domain: bytes) -> str:
        """Return the first image that may be one: so no two names meet, and none is a kept one."""
        image = self._image(name, domain)
        while not _MAY_BE[domain](image):
            image = self._image(image, domain)
        return image

    def _image(self, name: str, domain: bytes) -> str:
        if domain == b"uuid":
            value = _uuid(name)
            assert value is not None, name
            image = bytes(permuted(self._key, domain, value, (256,) * _UUID_BYTES))
            return base64.urlsafe_b64encode(image).decode().rstrip("=")
        letters = ADDRESS_LETTERS if domain == b"address" else NAME_LETTERS
        return _respelled(self._key, domain, name, letters)


def _respelled(key: bytes, domain: bytes, name: str, letters: Alphabet) -> str:
    alphabets = [alphabet_of(character, letters) for character in name]
    shape = "".join(
        character if alphabet is None else alphabet.mark
        for character, alphabet in zip(name, alphabets, strict=True)
    )
    replaced = [
        (index, alphabet, alphabet.index(character) or 0)
        for index, (character, alphabet) in enumerate(zip(name, alphabets, strict=True))
        if alphabet is not None
    ]
    digits = permuted(
        key,
        domain + b"\0" + shape.encode("utf-8", "surrogatepass"),
        [digit for _, _, digit in replaced],
        [alphabet.size for _, alphabet, _ in replaced],
    )
    spelled = list(name)
    for (place, alphabet, _), digit in zip(replaced, digits, strict=True):
        spelled[place] = alphabet.character(digit)
    return "".join(spelled)


def _uuid(text: str) -> bytes | None:
    """Return the bytes of an id as Kafka prints it, None for another text."""
    if len(text) != _UUID_CHARACTERS or not text.isascii():
        return None
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return value if base64.urlsafe_b64encode(value).decode() == text + "==" else None


def _may_be_uuid(image: str) -> bool:
    value = _uuid(image)
    return value is not None and int.from_bytes(value, "big") >= _RESERVED_UUIDS


_MAY_BE: dict[bytes, Callable[[str], bool]] = {
    b"name": lambda image: image not in KEPT_NAMES,
    b"address": lambda image: True,
    b"cluster": lambda image: image[:1].isalnum(),
    b"uuid": _may_be_uuid,
}
