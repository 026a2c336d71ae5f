"""Rules of ``quarantine``: one line that could not be read a row. Empty is the good case."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("source_file", "source_line")


def suite() -> rules.Suite:
    """Return the expectations of ``quarantine``."""
    return rules.suite_of(
        "quarantine",
        rules.rows_as_counted(
            "quarantined_in_files",
            "As many rows as files says were set aside: no line was dropped silently.",
        ),
        rules.once("one_row_per_line", "A line is set aside once.", "source_file", "source_line"),
        rules.within_the_day("log_time_ms"),
        rules.not_empty("source_file"),
        rules.not_empty("reason"),
        rules.at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
