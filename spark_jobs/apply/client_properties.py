"""The client properties file: checked before use, and its secrets kept out of every message."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.java_properties import Property, read_properties
from spark_jobs.warehouse.secret_files import check_kept_from_others

HIDDEN = "[hidden]"
JAAS = "sasl.jaas.config"
_PROVIDERS = "config.providers"
# What stands for a value that a provider of ``config.providers`` has: ${file:/secrets:password}
_PROVIDED = re.compile(r"\$\{[^}]*:[^}]*\}")
# Only what reads like a key, with a value behind it, may be one: anything else may be a secret.
_KEY = re.compile(r"[a-z]{2,30}(\.[a-z][a-z0-9_-]{0,30}){1,9}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?')
_OPTION_NAME = re.compile(r"(?<=\s)\w+(?=\s*=)")
_WORD = re.compile(r"[^\s\"'=;]+")
# Words that say nothing, and that other texts need.
_WORDS_OF_JAAS = {"required", "requisite", "sufficient", "optional", "true", "false"}
_WORD_LENGTH_MIN = 4


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """A properties file: its path, its keys with their values; never shown, so never printed."""

    path: Path | None = None
    properties: dict[str, Property] = field(default_factory=dict, repr=False)

    def number(self, key: str) -> int | None:
        """Return the value of a key that counts something; None where there is no such number."""
        found = self.properties.get(key)
        return int(found.value) if found and found.value.strip().isdecimal() else None


def read_client_properties(path: Path | None) -> ClientProperties:
    """Return the file's properties, none where there is no file.

    Raises BadInputError where it cannot be read, or everybody can read it.
    """
    if path is None:
        return ClientProperties()
    try:
        check_kept_from_others(path, "--command-config")
        # Kafka's tools read these files through java.util.Properties: Latin-1.
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise BadInputError(
            f"--command-config: {path} cannot be read: {error.strerror}. Give the path of a "
            "Kafka client properties file, as kafka-configs.sh takes it."
        ) from error
    return ClientProperties(path.absolute(), read_properties(text, str(path)))


def check_keys(client: ClientProperties, known: Collection[str], extra: Iterable[str]) -> None:
    """Raise BadInputError where a key is none of ``known`` and ``extra``.

    Kafka ignores such a key, and then connects in another way than the file's author meant. A text
    that does not read like a key is not quoted: it may be a secret.
    """
    fits = {*known, *extra}
    for key, found in client.properties.items():
        if key in fits or key.startswith(_PROVIDERS):
            continue
        reads_like_one = bool(found.value and _KEY.fullmatch(key))
        near = difflib.get_close_matches(key, sorted(fits), n=1) if reads_like_one else []
        meant = f" Is {near[0]} meant?" if near else ""
        said = repr(key) if reads_like_one else f"a text of {len(key)} characters"
        raise BadInputError(
            f"{client.path}, line {found.line}: {said} is no setting of a Kafka client.{meant} "
            "A key of a class of your own is allowed by QUOTA_AUDIT_KAFKA_EXTRA_KEYS, a JSON list."
        )


def check_no_providers(client: ClientProperties) -> None:
    """Raise BadInputError where Kafka would read a value from somewhere else than the file.

    Such a value is not known here, so no message could be kept from showing it.
    """
    for key, found in client.properties.items():
        if key.startswith(_PROVIDERS) or _PROVIDED.search(found.value):
            raise BadInputError(
                f"{client.path}, line {found.line}: config providers are not used, as what they "
                "read could be shown in a message. Write the value into the file, or allow them "
                "with QUOTA_AUDIT_KAFKA_CONFIG_PROVIDERS=true."
            )


def secrets_of(client: ClientProperties, is_secret: Callable[[str], bool]) -> tuple[str, ...]:
    """Return every text of the file that no message may show, the longest first.

    Those are the values of the keys for which ``is_secret`` holds, and of ``sasl.jaas.config``
    all that is no name of an option or class.
    """
    found: set[str] = set()
    for key, one in client.properties.items():
        if is_secret(key):
            found.add(one.value)
        if key.endswith(JAAS):
            found |= _secrets_of_login(one.value)
    return tuple(sorted(filter(None, found), key=lambda text: (-len(text), text)))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with every secret, given the longest first, replaced by ``[hidden]``."""
    # All at once: a secret may be part of the word that stands for another one.
    pattern = "|".join(map(re.escape, secrets))
    return HIDDEN.join(re.split(pattern, text)) if pattern else text


def _secrets_of_login(login: str) -> set[str]:
    quoted = {match[1] for match in _QUOTED.finditer(login)}
    # A file with a quote too many or too few must not give its secret away either.
    words = _WORD.findall(login)
    names = {*_OPTION_NAME.findall(_QUOTED.sub('""', login)), *words[:1], *_WORDS_OF_JAAS}
    loose = {word for word in words if len(word) >= _WORD_LENGTH_MIN}
    return quoted | (loose - names)
