"""Rules of ``quarantine``: one line that could not be read a row. Empty is the good case."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import (
    at_least,
    not_empty,
    once,
    rows_as_counted,
    suite_of,
    within_the_day,
)

KEY = ("source_file", "source_line")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``quarantine``."""
    return suite_of(
        "quarantine",
        rows_as_counted(
            "quarantined_in_files",
            "As many rows as files says were set aside: no line was dropped silently.",
        ),
        once("one_row_per_line", "A line is set aside once.", "source_file", "source_line"),
        within_the_day("log_time_ms"),
        not_empty("source_file"),
        not_empty("reason"),
        at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
