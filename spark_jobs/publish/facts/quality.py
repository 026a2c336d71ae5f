"""Whether the tables can be trusted: what validation found, and where every line went."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

WORST_LAST = ("passed", "warnings", "not validated", "failed", "broken")


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule of a table and whether it holds; ``error``: it could not be evaluated.

    ``sample`` are the first of the rows that break it, by column; their number is ``failed_rows``.
    """

    rule: str
    description: str = ""
    severity: str = "info"
    success: bool = False
    failed_rows: int = 0
    found: str | None = None
    error: str | None = None
    sample: tuple[dict[str, Any], ...] = ()

    @property
    def holds(self) -> bool:
        """Return True if the rule was evaluated and holds."""
        return self.success and self.error is None


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The rules of one table."""

    table: str
    rows: int = 0
    rules: tuple[RuleResult, ...] = ()

    @property
    def holding(self) -> int:
        """Return the number of rules that hold."""
        return sum(rule.holds for rule in self.rules)


@dataclass(frozen=True, slots=True)
class StageQuality:
    """What validation wrote of one stage; ``outcome`` is ``not validated`` where it did not."""

    stage: str
    outcome: str = "not validated"
    tables: tuple[CheckedTable, ...] = ()

    @property
    def broken_rules(self) -> tuple[tuple[CheckedTable, RuleResult], ...]:
        """Return the rules that do not hold or could not be evaluated, with their table."""
        return tuple((t, rule) for t in self.tables for rule in t.rules if not rule.holds)


@dataclass(frozen=True, slots=True)
class LinesOfFile:
    """Where the lines of one file went."""

    source_file: str
    broker_id: int | None
    bytes_read: int
    lines_read: int
    requests: int
    quarantined: int
    other: int
    other_days: int
    duplicated: int
    duplicate_of: str | None = None

    @property
    def lost(self) -> int:
        """Return the number of lines that are unaccounted for; 0 in a sound run."""
        accounted = self.requests + self.quarantined + self.other + self.other_days
        return self.lines_read - accounted - self.duplicated


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    """Lines that could not be read for one reason, and the first of them."""

    reason: str
    lines: int
    samples: tuple[tuple[str, int, str], ...]  # file, line, text


def worst_quality(stages: tuple[StageQuality, ...]) -> str:
    """Return the worst outcome of the stages; what cannot be read is ``broken``."""
    known = [s.outcome if s.outcome in WORST_LAST else WORST_LAST[-1] for s in stages]
    return max(known, key=WORST_LAST.index, default="not validated")


def total_lines(files: tuple[LinesOfFile, ...]) -> LinesOfFile:
    """Return the sum over ``files``."""
    names = [f.name for f in fields(LinesOfFile) if f.type == "int"]
    return LinesOfFile("all files", None, *(sum(getattr(f, n) for f in files) for n in names))
