"""Rules of ``brokers``: the configuration a broker's requests are replayed with."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe

from expectations.suites.rules import RATE_PROFILES, at_least, known_values, once, rule, suite_of

KEY = ("broker_id",)

_VERSION_SOURCES = ("option", "archive", "detected", "unknown")
_SIZES = ("samples", "window_ms", "controller_samples", "controller_window_ms")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``brokers``."""
    sizes = [
        at_least(f"{name}_positive", name, 1, f"{name} is at least 1, as in the broker's settings.")
        for name in _SIZES
    ]
    return suite_of(
        "brokers",
        rule(
            gxe.ExpectTableRowCountToBeBetween,
            "has_brokers",
            "At least one broker is known.",
            min_value=1,
        ),
        once("one_row_per_broker", "A broker has one configuration.", "broker_id"),
        known_values("known_version_source", "version_source", _VERSION_SOURCES),
        known_values("known_rate_profile", "rate_profile", RATE_PROFILES),
        *sizes,
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "version_is_known",
            "The broker's Kafka version is known, so its rate profile is not a guess.",
            severity="warning",
            column="version",
        ),
    )
