"""Rules of ``files``: one file read a row; here lines are conserved."""

from __future__ import annotations

from expectations.suites import rules
from expectations.suites.custom_expectations import (
    ExpectFirstColumnToBeSumOfTheRest,
    ExpectShareOfSumsToBeAtMost,
)

KEY = ("source_file",)

# lines_read is the sum of the others, which a rule of its own says.
_COUNTS = ("bytes_read", "requests", "quarantined", "other", "other_days", "duplicated")


def suite() -> rules.Suite:
    """Return the expectations of ``files``."""
    counts = [
        rules.at_least(f"{name}_not_negative", name, 0, f"{name} counts, so it is not negative.")
        for name in _COUNTS
    ]
    return rules.suite_of(
        "files",
        rules.has_rows("has_files", "At least one file was read."),
        rules.once("one_row_per_file", "A file is read once.", "source_file"),
        rules.not_empty("source_file"),
        *counts,
        rules.rule(
            ExpectFirstColumnToBeSumOfTheRest,
            "lines_are_conserved",
            "Lines read = requests + quarantined + other + lines of other days + lines that count "
            "in another file, in every file.",
            column_list=["lines_read", *_COUNTS[1:]],
        ),
        rules.rule(
            ExpectShareOfSumsToBeAtMost,
            "half_of_the_lines_readable",
            "At most 50 % of all lines are in quarantine; above, these are not request logs.",
            column_list=["quarantined", "lines_read"],
            share_max=0.5,
        ),
        rules.rule(
            ExpectShareOfSumsToBeAtMost,
            "few_lines_in_quarantine",
            "At most 1 % of all lines are in quarantine.",
            severity="warning",
            column_list=["quarantined", "lines_read"],
            share_max=0.01,
        ),
    )
