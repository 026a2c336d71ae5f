"""YAML that every parser reads alike: texts are quoted, so that none is taken for a number."""

from __future__ import annotations

import sys
from typing import Any

import yaml


class Quoted(str):
    """A text that is written in double quotes, whatever it holds."""

    __slots__ = ()


yaml.add_representer(
    Quoted,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'),
    Dumper=yaml.SafeDumper,
)


def yaml_text(document: Any) -> str:
    """Return ``document`` as block-style YAML, keys in their order, one line a text."""
    dumped: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=sys.maxsize)
    return dumped
