"""What looks wrong in a warehouse: what was found, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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

    def as_json(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def text(self) -> str:
        """Return it in three lines."""
        return f"{self.kind}: {self.where}\n  {self.found}. {self.means}.\n  → {self.remedy}"


def summary(ailments: Sequence[Ailment], days: int) -> str:
    """Return how many things look wrong, in a sentence."""
    of_days = f"{days} audited day{'' if days == 1 else 's'}"
    if not ailments:
        return f"{of_days}: nothing looks wrong"
    things = "1 thing looks" if len(ailments) == 1 else f"{len(ailments)} things look"
    return f"{of_days}: {things} wrong"
