"""docker/compose.yaml as compose understands it: anchors merged, variables filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"
# What the file asks every user for.
ASKED = {"ARCHIVE": "/logs", "SECRETS": "/secrets"}
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")


class VariableNotSetError(Exception):
    """Raised, with the file's sentence, where a variable that must be set is not."""


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """Return ``text`` with ``${NAME}``, ``${NAME:-default}``, ``${NAME:?why}`` and ``$$`` replaced.

    Raises VariableNotSetError with the sentence after ``:?``.
    """

    def value(match: re.Match[str]) -> str:
        dollar, name, kind, rest = match.groups()
        if dollar:
            return "$"
        if kind == ":?" and not variables.get(name):
            raise VariableNotSetError(rest)
        return variables.get(name) or (rest if kind == ":-" else "")

    return _VARIABLE.sub(value, text)


def compose_file(variables: Mapping[str, str] | None = None) -> Any:
    """Return the whole file; ``variables`` are :data:`ASKED` where not given."""
    return _filled(yaml.safe_load(COMPOSE.read_text()), ASKED if variables is None else variables)


def _filled(part: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(part, dict):
        return {name: _filled(value, variables) for name, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, variables) for value in part]
    return filled_in(part, variables) if isinstance(part, str) else part
