"""The suite of the stage ``whatif``: clients under other policies."""

from __future__ import annotations

from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from spark_jobs.warehouse.tables import WHATIF_KINDS, WHATIF_MODES

_KEY = ("label", "mode", "broker_id", "user", "client_id", "kind")
_PARTS_OF_REQUESTS = (
    "unsized_requests",
    "delayed_requests",
    "refused_requests",
    "harmed_requests",
)
_PARTS_OF_ASKED = ("admitted", "delayed", "refused", "taken_back")


def whatif() -> rules.TableSuite:
    """Return the suite of ``whatif``: what one client would have got under one policy, a row."""
    return rules.suite_of(
        "whatif",
        _KEY,
        rules.once("one_row_per_client_and_policy", "A client has one row of a kind.", *_KEY),
        rules.not_empty("policy"),
        rules.not_empty("label"),
        rules.known_values("known_mode", "mode", WHATIF_MODES),
        rules.known_values("known_kind", "kind", WHATIF_KINDS),
        rules.between(
            "has_requests",
            "requests",
            "Where arrivals are fixed, a row is about at least one request.",
            min_value=1,
            row_condition=Column("mode") == "as_logged",
        ),
        *rules.integers_not_negative(*_PARTS_OF_REQUESTS),
        *(rules.part_of(f"{c}_are_requests", c, "requests") for c in _PARTS_OF_REQUESTS),
        *rules.doubles_not_negative("delayed", "taken_back", "lost", "waiting", "worst_burst"),
        *(
            rules.not_after(f"{column}_is_asked", column, "asked", "A part of what was asked for.")
            for column in _PARTS_OF_ASKED
        ),
        rules.not_after("lost_is_refused", "lost", "refused", "Only what was refused can be lost."),
        rules.not_after(
            "burst_is_admitted", "worst_burst", "admitted", "A second's part of them all."
        ),
        rules.not_after(
            "longest_throttle_is_one_of_all",
            "throttle_time_max_ms",
            "throttle_time_ms",
            "The longest delay is one of all.",
        ),
        rules.at_least(
            "longest_not_negative", "throttle_time_max_ms", 0, "A delay is not negative."
        ),
        rules.at_least("harm_not_negative", "harm_time_ms", 0, "A delay is not negative."),
        rules.not_after(
            "harm_is_throttle", "harm_time_ms", "throttle_time_ms", "A part of the delays."
        ),
        rules.between(
            "nothing_waits_as_logged",
            "waiting",
            "Where arrivals are fixed, nobody knows what waits.",
            max_value=0,
            row_condition=Column("mode") == "as_logged",
        ),
        rules.between(
            "only_fetches_are_taken_back",
            "taken_back",
            "Nothing but a fetch can be taken back: what was written is written.",
            max_value=0,
            row_condition=Column("kind") == "produce",
        ),
    )
