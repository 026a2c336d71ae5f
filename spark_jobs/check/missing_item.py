"""One thing that an archive lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BLOCKS, LIMITS, NOTE = "blocks", "limits", "note"
"""Nothing can be audited so; less can be than could; nothing is wrong with the result."""

NAMED_MAX = 3
DO_DEBUG = "set kafka.request.logger to DEBUG on every broker (docs/howto/own-archive.md)"


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is missing or wrong, what to do about it, and how much it matters."""

    weight: str
    what: str
    do: str


def named(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are.

    >>> named(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
