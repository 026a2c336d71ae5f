"""Rules of ``topic_inventory``: a topic's partitions at the end of the day, and handed on."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("topic",)


def suite() -> rules.Suite:
    """Return the expectations of ``topic_inventory``."""
    return rules.suite_of(
        "topic_inventory",
        rules.once("one_row_per_topic", "A topic is there once.", "topic"),
        rules.not_empty("topic"),
        rules.at_least(
            "partitions_positive", "partitions", 1, "A topic has at least one partition."
        ),
        rules.at_least(
            "partitions_handed_on_positive",
            "partitions_handed_on",
            1,
            "A topic that is handed on has at least one partition.",
        ),
    )
