"""Rules of ``broker_starts``: one start of a broker a row; its sensors began with nothing then."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import (
    at_least,
    known_values,
    not_empty,
    once,
    suite_of,
    within_the_day,
)

KEY = ("broker_id", "started_ms")

SOURCES = ("server_log", "inferred")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``broker_starts``."""
    return suite_of(
        "broker_starts",
        once("one_row_per_start", "A start is known once.", *KEY),
        within_the_day("started_ms"),
        known_values("known_source", "source", SOURCES),
        not_empty("evidence"),
        at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
