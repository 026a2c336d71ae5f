"""What looks wrong in a warehouse: what was found, what it means, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote


@dataclass(frozen=True, slots=True)
class Ailment:
    """``kind`` is for programs; ``where`` a path below the warehouse, or cluster and day.

    ``bytes`` is what can be had back.
    """

    kind: str
    where: str
    found: str
    means: str
    remedy: str
    bytes: int = 0

    def text(self) -> str:
        """Return the ailment in three lines."""
        return f"{self.kind}: {self.where}\n  {self.found}. {self.means}.\n  → {self.remedy}"


def quoted(path: Path) -> str:
    """Return a path as one word of a shell's command, whatever it holds."""
    return quote(str(path))
