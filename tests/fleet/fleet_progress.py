"""What has become of a fleet's runs so far, and what both fleets are asked alike."""

from __future__ import annotations

import argparse
import datetime as dt

from rich.console import Console

from tests.fleet.fleet_table import OVER_LIMITS, FailedRun, print_fleet
from tests.fleet.run_score import RunScore


class FleetProgress:
    """The scores of runs and the runs that failed; each is told as it ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.scores: list[RunScore] = []
        self.failed: list[FailedRun] = []
        self.broken_audits = 0

    def say(self, text: str) -> None:
        """Print a line with the time of day."""
        now = dt.datetime.now(dt.UTC)
        self.console.print(f"{now:%H:%M:%S} {text}", markup=False, highlight=False, soft_wrap=True)

    def print(self, *, findings_only: bool = False) -> int:
        """Print the tables; return the exit code. An audit that broke is no less than a finding."""
        code = print_fleet(self.console, self.scores, self.failed, findings_only=findings_only)
        return max(code, OVER_LIMITS) if self.broken_audits else code


def seed_of(asked: int | None) -> int:
    """Return the seed that was asked for, or one of the time of day."""
    return int(f"{dt.datetime.now(dt.UTC):%y%m%d%H%M}") if asked is None else asked


def count(text: str) -> int:
    """Return a number of 1 or more, as an argument has it.

    Raises ArgumentTypeError for any other number.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}, expected 1 or more")
    return number
