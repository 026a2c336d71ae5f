"""Rules of ``brokers``: the configuration a broker's requests are replayed with."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("broker_id",)

_VERSION_SOURCES = ("option", "archive", "detected", "unknown")
_SIZES = ("samples", "window_ms", "controller_samples", "controller_window_ms")


def suite() -> rules.Suite:
    """Return the expectations of ``brokers``."""
    sizes = [
        rules.at_least(
            f"{name}_positive", name, 1, f"{name} is at least 1, as in the broker's settings."
        )
        for name in _SIZES
    ]
    return rules.suite_of(
        "brokers",
        rules.has_rows("has_brokers", "At least one broker is known."),
        rules.once("one_row_per_broker", "A broker has one configuration.", "broker_id"),
        rules.known_values("known_version_source", "version_source", _VERSION_SOURCES),
        rules.known_values("known_rate_profile", "rate_profile", rules.RATE_PROFILES),
        *sizes,
        rules.has_value(
            "version_is_known",
            "version",
            "The broker's Kafka version is known, so its rate profile is not a guess.",
            severity="warning",
        ),
    )
