"""The stretch of a log that one replay decides, and how far it reads beyond it."""

from __future__ import annotations

from dataclasses import dataclass

HANDOVER_MS = 600_000
"""Requests that took longer than this, from their record to their line, may come too late for the
state that is handed on. A day hands on how its sensors were so long before its end."""
AHEAD_MS = 900_000
"""The last tries of a day are told by what follows: within ten minutes, and a few windows more."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Lines from ``from_ms`` on and before ``until_ms``; what is decided of others is not kept."""

    from_ms: int
    until_ms: int
    handover_ms: int = HANDOVER_MS  # before its end
    ahead_ms: int = AHEAD_MS  # after its end

    @property
    def hands_over_ms(self) -> int:
        """Return the moment whose states are handed on: all rows before it are there for sure."""
        return max(self.until_ms - self.handover_ms, self.from_ms)

    @property
    def ahead_until_us(self) -> int:
        """Return up to when requests after the end tell of those before it."""
        return (self.until_ms + self.ahead_ms) * 1000
