"""Rules of ``located_changes``: when a broker held its clients to a changed quota."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import once, suite_of, within_the_day

KEY = ("broker_id", "answered_ms")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``located_changes``."""
    return suite_of(
        "located_changes",
        once("one_moment_per_broker", "A change reaches a broker once.", *KEY),
        within_the_day("answered_ms"),
    )
