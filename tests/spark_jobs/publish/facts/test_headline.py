from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.publish.facts.audit_facts import Headline, headline
from spark_jobs.publish.publish_report import REPORT_NAME, report_pages
from spark_jobs.publish.read_facts import gather
from spark_jobs.settings import ReportSettings
from tests.builders.day_builder import busy_day, decision, empty_day, quiet_day, throttled
from tests.builders.tables_builder import Row, row, write_rows


def headline_of(tmp_path: Path, decisions: list[Row], findings: list[Row]) -> Headline:
    scope = quiet_day(tmp_path)
    write_rows(scope, "decisions", decisions)
    write_rows(scope, "findings", findings)
    return headline(gather(scope))


def finding(severity: str, kind: str = "under_throttled", **overrides: Any) -> Row:
    return row("findings", severity=severity, kind=kind, **overrides)


@pytest.mark.parametrize(
    ("findings", "mood", "title"),
    [
        ([], "good", "Every quota was enforced as configured"),
        ([finding("warning")], "warning", "Enforced as configured, except in 1 case"),
        ([finding("critical", "not_enforced")], "critical", "1 quota was not enforced"),
        ([finding("critical"), finding("warning")], "critical", "1 critical finding"),
    ],
)
def test_the_worst_finding_is_the_title(
    tmp_path: Path, findings: list[Row], mood: str, title: str
) -> None:
    answer = headline_of(tmp_path, [decision(n) for n in range(5)], findings)
    assert (answer.mood, answer.title) == (mood, title)


def test_a_change_that_did_not_do_what_was_predicted_is_said_first(tmp_path: Path) -> None:
    scope = quiet_day(tmp_path)
    write_rows(scope, "decisions", [decision(n) for n in range(5)])
    explanation = "From 50,000 B/s to 60,000 B/s: throttled for 40.0 s, where 0.0 s were predicted."
    kept = row("change_results", quota_user="bob")
    failed = row("change_results", result="not_as_predicted", explanation=explanation)
    write_rows(scope, "change_results", [kept])
    assert headline(gather(scope)).mood == "good"
    write_rows(scope, "change_results", [kept, failed])
    answer = headline(gather(scope))
    assert answer.mood == "warning"
    assert answer.sentences[0] == (
        "1 of 2 applied changes did not do what was predicted: user 'alice', producer_byte_rate. "
        + explanation
    )
    page = dict(report_pages(gather(scope), ReportSettings(), scope.output_dir("reports")))[
        REPORT_NAME
    ]
    assert page.index("not as predicted</strong>. From 50,000") < page.index("user &#39;bob&#39;")


def test_a_few_wrong_decisions_are_not_called_perfect(tmp_path: Path) -> None:
    rows = [decision(n) for n in range(5)] + [decision(5, verdict="over_throttled")]
    answer = headline_of(tmp_path, rows, [finding("info")])
    assert answer.title == "Enforced as configured, with differences too few to act on"


def test_a_log_that_decides_nearly_all_does_not_claim_all(tmp_path: Path) -> None:
    undecided = decision(9, verdict="indeterminate", reason="sample_timing")
    answer = headline_of(tmp_path, [*(decision(n) for n in range(9)), undecided], [])
    assert (answer.mood, answer.title) == (
        "good",
        "Every quota was enforced as configured, as far as the log tells",
    )


def test_what_cannot_be_decided_is_beside_the_percentage_and_not_in_it(tmp_path: Path) -> None:
    rows = [decision(n) for n in range(6)]
    rows += [decision(n, reason="likely_request_time") for n in range(6, 9)]
    rows += [decision(9, verdict="over_throttled")]
    rows += [decision(n, verdict="indeterminate", reason="sample_timing") for n in range(10, 15)]
    assert headline_of(tmp_path, rows, []).sentences[0] == (
        "15 decisions of the brokers were replayed; 5 cannot be decided from this log. Of the 10 "
        "others, 9 (90 %) are as configured, 3 of these by what is likely, and 1 (10 %) is wrong."
    )


def test_a_log_that_decides_nothing_has_no_percentage(tmp_path: Path) -> None:
    rows = [decision(n, verdict="indeterminate", reason="sample_timing") for n in range(4)]
    assert headline_of(tmp_path, rows, []).sentences[0] == (
        "4 decisions of the brokers were replayed, and none can be decided from this log."
    )


def test_a_log_that_decides_little_claims_nothing(tmp_path: Path) -> None:
    undecided = {"verdict": "indeterminate", "reason": "request_quota_interval"}
    rows = [decision(0)] + [decision(n, **undecided) for n in range(1, 5)]
    answer = headline_of(tmp_path, rows, [])
    assert (answer.mood, answer.title) == (
        "unknown",
        "This log cannot decide most of the decisions",
    )


def test_the_sentences_say_verdicts_throttles_and_what_to_do(tmp_path: Path) -> None:
    answer = headline(gather(busy_day(tmp_path, clients=3)))
    assert answer.sentences == (
        "6 decisions of the brokers were replayed: 6 (100 %) are as configured and none is wrong.",
        "3 clients were throttled: 6 requests, 6 s of delay in total; most of all user 'alice' by "
        "producer_byte_rate on broker 1 (2 s).",
        "1 finding needs a look, and 1 quota is proposed to change.",
    )


def test_a_quiet_day_reads_well(tmp_path: Path) -> None:
    answer = headline(gather(quiet_day(tmp_path)))
    assert answer.sentences[1:] == (
        "Nobody was throttled.",
        "Nothing needs a look, and no change of a quota is proposed.",
    )


def test_a_log_without_requests_is_said(tmp_path: Path) -> None:
    assert headline(gather(empty_day(tmp_path))).title.endswith("the log holds no requests")


def test_a_log_without_quotas_asks_for_a_snapshot(tmp_path: Path) -> None:
    free = {"bound": None, "verdict": "no_quota"}
    answer = headline_of(tmp_path, [decision(0, **free)], [])
    assert answer.title == "Nothing to judge: no quota was in force"
    assert "--snapshot" in answer.sentences[-1]


def test_throttles_without_any_known_quota_are_a_warning(tmp_path: Path) -> None:
    unbound = {"bound": None, "verdict": "no_quota", "reason": "throttled_without_quota"}
    answer = headline_of(tmp_path, [throttled(0, 100, **unbound)], [])
    assert (answer.mood, answer.title) == (
        "warning",
        "Requests were throttled, but no quota is known",
    )
