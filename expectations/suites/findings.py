"""Rules of ``findings``: one thing a person should act on a row."""

from __future__ import annotations

import great_expectations.expectations as gxe

from expectations.suites import rules
from spark_jobs.quota.codes import FINDING_KINDS, HYPOTHESES, SEVERITIES

KEY = ("finding_id",)


def suite() -> rules.Suite:
    """Return the expectations of ``findings``."""
    return rules.suite_of(
        "findings",
        rules.once("one_row_per_finding", "finding_id names one finding.", "finding_id"),
        rules.not_empty("finding_id"),
        rules.known_quota_type(),
        rules.known_values("known_kind", "kind", FINDING_KINDS),
        rules.known_values("known_severity", "severity", SEVERITIES),
        rules.not_empty("explanation"),
        rules.rule(
            gxe.ExpectColumnValuesToBeJsonParseable,
            "evidence_is_json",
            "The numbers behind a finding are JSON.",
            column="evidence",
        ),
        rules.not_after(
            "interval_in_order",
            "from_ms",
            "until_ms",
            "A finding's interval does not end before it begins.",
        ),
        rules.at_least(
            "has_decisions", "decisions", 1, "A finding rests on at least one decision."
        ),
        rules.known_values("known_hypothesis", "hypothesis", HYPOTHESES),
        rules.known_values("known_runner_up", "runner_up", HYPOTHESES),
        _share("hypothesis_share"),
        _share("runner_up_share"),
        rules.rule(
            gxe.ExpectColumnValuesToBeBetween,
            "estimated_bound_above_zero",
            "A broker cannot have gone by no bound, or by a negative one.",
            column="estimated_bound",
            min_value=0.0,
            strict_min=True,
        ),
    )


def _share(column: str) -> rules.Rule:
    return rules.rule(
        gxe.ExpectColumnValuesToBeBetween,
        f"{column}_is_a_share",
        f"{column} is a share of the decisions: from 0 to 1.",
        column=column,
        min_value=0.0,
        max_value=1.0,
    )
