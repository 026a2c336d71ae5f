"""The configuration that KIP-13 and its rejected alternatives are written in.

Keys of the document (KIP-13): ``quota.producer.default``, ``quota.consumer.default``,
``quota.producer.override``, ``quota.consumer.override``; values such as ``2M`` and
``"clientA:4M,clientB:10M"``. Decided where it is silent:

- K, M and G are powers of 1024, in either case; a size is a whole number above 0.
- An override is split at its last ':', so a client-id may have one; one with a ',' cannot be named.
- Quotes around a whole value and blanks around an entry, a name and a size are left out.
- A default that is not given is the 2M that the page prints.
- ``quota.window.num`` (N, 10) and ``quota.window.size.seconds`` (1) are the names that Kafka gave
  these settings when it had built them.
- ``inter.broker.principal`` names the brokers' user, with or without ``User:``; none if empty.
- ``quota.response.form``: ``throttle_time_ms``, or ``flag`` as in the early revision; a flag needs
  a new field of the response too, so that both are for versions from 1 on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.quota.java_math import LONG_MAX
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError

PRINTED_DEFAULT = "2M"
COMMON_KEYS = frozenset(
    {
        "quota.producer.default",
        "quota.consumer.default",
        "quota.producer.override",
        "quota.consumer.override",
        "quota.window.num",
        "quota.window.size.seconds",
        "inter.broker.principal",
        "quota.response.form",
    }
)
_SIZE = re.compile(r"(-?[0-9]+)([KMG]?)", re.IGNORECASE)
_FACTOR = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SIZE_RULE = (
    "a bound is a whole number of bytes per second, alone or followed by K, M or G (times 1024), "
    "as in 2M."
)


@dataclass(frozen=True, slots=True)
class ByteBounds:
    """Bytes per second for each name, and for all the others."""

    default: int
    overrides: Mapping[str, int]

    def of(self, name: str) -> int:
        """Return the bound of ``name``."""
        return self.overrides.get(name, self.default)


@dataclass(frozen=True, slots=True)
class Kip13Settings:
    """What KIP-13 and all of its alternatives are set up with."""

    bounds: Mapping[str, ByteBounds]  # by API
    samples: int
    window_ms: int
    inter_broker_user: str
    answers_with_flag: bool


class ConfigKeys:
    """A policy's configuration, read key by key; what breaks a rule raises PolicyConfigError."""

    def __init__(self, policy: str, values: Mapping[str, object]) -> None:
        self._policy = policy
        self._values = values

    def refuse_unknown(self, known: frozenset[str]) -> None:
        """Refuse the first key that is none of ``known``."""
        for key, found in self._values.items():
            if key not in known:
                raise self._error(key, found, f"there is no such key; there are {_list(known)}.")

    def size(self, key: str, default: str | None) -> int | None:
        """Return bytes per second."""
        found = self._values.get(key, default)
        return None if found is None else self._size(key, found, found)

    def overrides(self, key: str) -> dict[str, int]:
        """Return bytes per second by name, in the order given."""
        text = self.text(key)
        if len(text) >= 2 and text[0] == text[-1] == '"':
            text = text[1:-1]
        found: dict[str, int] = {}
        for entry in text.split(",") if text.strip() else ():
            name, size = self._override(key, entry)
            if name in found:
                raise self._error(key, entry, f"{name!r} is overridden twice; once is allowed.")
            found[name] = size
        return found

    def whole(self, key: str, default: int, minimum: int, maximum: int = LONG_MAX) -> int:
        """Return a whole number."""
        found = self._values.get(key, default)
        if isinstance(found, str) and re.fullmatch(r"-?[0-9]+", found.strip()):
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool):
            raise self._error(key, found, "it must be a whole number.")
        if not minimum <= found <= maximum:
            above = "" if maximum == LONG_MAX else f" and at most {maximum}"
            raise self._error(key, found, f"it must be at least {minimum}{above}.")
        return found

    def one_of(self, key: str, names: tuple[str, ...]) -> str:
        """Return one of ``names``, the first unless the key is there."""
        found = self._values.get(key, names[0])
        if not isinstance(found, str) or found not in names:
            raise self._error(key, found, f"it must be one of {_list(names)}.")
        return found

    def text(self, key: str) -> str:
        """Return a text, an empty one where the key is not there."""
        found = self._values.get(key, "")
        if not isinstance(found, str):
            raise self._error(key, found, "it must be text.")
        return found.strip()

    def refused(self, key: str, rule: str) -> PolicyConfigError:
        """Return the error of a rule that only the policy knows."""
        return self._error(key, self._values.get(key), rule)

    def _override(self, key: str, entry: str) -> tuple[str, int]:
        name, colon, size = entry.strip().rpartition(":")
        if not entry.strip():
            raise self._error(key, entry, "there is nothing between two ','; leave one out.")
        if not colon or not size.strip():
            rule = "an override without a value; one is name:size, as in clientA:4M."
            raise self._error(key, entry, rule)
        if not name.strip():
            rule = "an override without a name; what has none shares the default."
            raise self._error(key, entry, rule)
        return name.strip(), self._size(key, size, entry)

    def _size(self, key: str, text: object, found: object) -> int:
        if not isinstance(text, (str, int)) or isinstance(text, bool):
            raise self._error(key, found, _SIZE_RULE)
        matched = _SIZE.fullmatch(str(text).strip())
        if matched is None:
            raise self._error(key, found, _SIZE_RULE)
        size = int(matched[1]) * _FACTOR[matched[2].upper()]
        if not 0 < size <= LONG_MAX:
            rule = f"a bound must be above 0 and at most {LONG_MAX} bytes per second."
            raise self._error(key, found, rule)
        return size

    def _error(self, key: str, found: object, rule: str) -> PolicyConfigError:
        return PolicyConfigError(self._policy, key, found, rule)


def read_settings(keys: ConfigKeys) -> Kip13Settings:
    """Return the settings that all policies of KIP-13 have. Raises PolicyConfigError."""
    return Kip13Settings(
        bounds={"PRODUCE": _bounds(keys, "producer"), "FETCH": _bounds(keys, "consumer")},
        samples=keys.whole("quota.window.num", default=10, minimum=1, maximum=100_000),
        window_ms=keys.whole("quota.window.size.seconds", default=1, minimum=1) * 1000,
        inter_broker_user=keys.text("inter.broker.principal").removeprefix("User:"),
        answers_with_flag=keys.one_of("quota.response.form", ("throttle_time_ms", "flag"))
        == "flag",
    )


def _bounds(keys: ConfigKeys, side: str) -> ByteBounds:
    default = keys.size(f"quota.{side}.default", PRINTED_DEFAULT)
    assert default is not None
    return ByteBounds(default, keys.overrides(f"quota.{side}.override"))


def _list(names: tuple[str, ...] | frozenset[str]) -> str:
    return ", ".join(names if isinstance(names, tuple) else sorted(names))
