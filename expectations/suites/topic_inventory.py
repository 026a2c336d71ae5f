"""Rules of ``topic_inventory``: a topic's partitions at the end of the day, and handed on."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import at_least, not_empty, once, suite_of

KEY = ("topic",)


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``topic_inventory``."""
    return suite_of(
        "topic_inventory",
        once("one_row_per_topic", "A topic is there once.", "topic"),
        not_empty("topic"),
        at_least("partitions_positive", "partitions", 1, "A topic has at least one partition."),
        at_least(
            "partitions_handed_on_positive",
            "partitions_handed_on",
            1,
            "A topic that is handed on has at least one partition.",
        ),
    )
