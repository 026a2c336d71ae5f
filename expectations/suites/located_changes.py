"""Rules of ``located_changes``: when a broker held its clients to a changed quota."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("broker_id", "answered_ms")


def suite() -> rules.Suite:
    """Return the expectations of ``located_changes``."""
    return rules.suite_of(
        "located_changes",
        rules.once("one_moment_per_broker", "A change reaches a broker once.", *KEY),
        rules.within_the_day("answered_ms"),
    )
