"""Configuration as Kafka's ``ConfigDef`` reads it; what it refuses is refused with the rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from spark_jobs.errors import BadInputError
from spark_jobs.quota.java_math import LONG_MAX
from spark_jobs.whatif.policies.change import ConfigChanged


class PolicyConfigError(BadInputError):
    """A key, what was found there, and the rule that it breaks."""

    def __init__(self, policy: str, key: str, found: object, rule: str) -> None:
        """Say that ``policy`` refuses ``found`` at ``key`` because of ``rule``, a sentence."""
        super().__init__(f"{policy}: {key} = {found!r}: {rule}")
        self.key = key
        self.rule = rule


# int() also takes "1_000" and other numerals; Java's Long.parseLong does not.
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)

# Kafka: Topic.LEGAL_CHARS and MAX_NAME_LENGTH.
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

E = TypeVar("E", bound=StrEnum)


class KafkaConfig:
    """The keys of one policy and their values, as a properties or a TOML file has them.

    Raises PolicyConfigError on a key that is not among ``keys``.

    >>> KafkaConfig("kip599_rate", {"quota.window.num": "100"}, {"quota.window.num"}).whole_number(
    ...     "quota.window.num", default=11)
    100
    """

    def __init__(self, policy: str, config: Mapping[str, object], keys: Collection[str]) -> None:
        self.policy = policy
        self._config = config
        for key, found in config.items():
            if key not in keys:
                rule = f"there is no such key; the keys are {', '.join(sorted(keys))}."
                raise PolicyConfigError(policy, key, found, rule)

    def whole_number(
        self, key: str, default: int, at_least: int = 1, at_most: int = LONG_MAX
    ) -> int:
        """Return a whole number; never through a float, which has no room for 63 bits.

        Kafka: ``ConfigDef.Type.INT`` and ``LONG`` with ``Range.between``.
        """
        found = self._config.get(key)
        if found is None:
            return default
        number = as_whole_number(found)
        if number is None or not at_least <= number <= at_most:
            rule = f"it must be a whole number from {at_least} to {at_most}; default {default}."
            raise PolicyConfigError(self.policy, key, found, rule)
        return number

    def boolean(self, key: str, default: bool) -> bool:
        """Return true or false. Kafka: ``ConfigDef.Type.BOOLEAN``."""
        found = self._config.get(key)
        if found is None or isinstance(found, bool):
            return default if found is None else found
        text = found.strip().lower() if isinstance(found, str) else ""
        if text not in ("true", "false"):
            rule = f"it must be true or false; default {str(default).lower()}."
            raise PolicyConfigError(self.policy, key, found, rule)
        return text == "true"

    def choice(self, key: str, default: E) -> E:
        """Return one of the values that ``default`` is one of."""
        found = self._config.get(key)
        if found is None:
            return default
        values = [str(value) for value in type(default)]
        if not isinstance(found, str) or found not in values:
            rule = f"it must be one of {', '.join(values)}; default {default}."
            raise PolicyConfigError(self.policy, key, found, rule)
        return type(default)(found)

    def text(self, key: str) -> str | None:
        """Return a text that is not empty, None where there is none."""
        found = self._config.get(key)
        if found is None or (isinstance(found, str) and found.strip()):
            return None if found is None else str(found).strip()
        raise PolicyConfigError(self.policy, key, found, "it must be a text, and not empty.")


def refuse_while_running(policy: str, change: ConfigChanged) -> None:
    """Raise PolicyConfigError: Kafka reads these keys when a broker starts, and not again."""
    for key, found in change.values.items():
        rule = "it is read when a broker starts, and cannot be changed while it runs."
        raise PolicyConfigError(policy, key, found, rule)


def as_whole_number(found: object) -> int | None:
    """Return the whole number that a value is or spells, None where it is none."""
    if isinstance(found, bool):
        return None
    if isinstance(found, int):
        return found
    is_number = isinstance(found, str) and _WHOLE.fullmatch(found.strip())
    return int(str(found)) if is_number else None
