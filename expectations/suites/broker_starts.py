"""Rules of ``broker_starts``: one start of a broker a row; its sensors began with nothing then."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("broker_id", "started_ms")

SOURCES = ("server_log", "inferred")


def suite() -> rules.Suite:
    """Return the expectations of ``broker_starts``."""
    return rules.suite_of(
        "broker_starts",
        rules.once("one_row_per_start", "A start is known once.", *KEY),
        rules.within_the_day("started_ms"),
        rules.known_values("known_source", "source", SOURCES),
        rules.not_empty("evidence"),
        rules.at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
