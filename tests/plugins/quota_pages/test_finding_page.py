from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from quota_pages.addresses import entity_id
from quota_pages.finding_page import HYPOTHESES, SHOWN_MAX, WHAT_TO_DO, finding_page
from spark_jobs.quota.codes import FINDING_KINDS
from spark_jobs.quota.codes import HYPOTHESES as TRIED
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.numbers import iso
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, write_rows
from tests.plugins.quota_pages.page_checks import HOSTILE, LONG, Page, place_of

FINDING_ID = "f-0123456789ab"
EXPLAINED = {
    "kind": "wrong_quota",
    "hypothesis": "previous_quota",
    "hypothesis_share": 0.97,
    "runner_up": "other_level",
    "runner_up_share": 0.41,
    "estimated_bound": 25_000.0,
    "evidence": json.dumps({"configured_share": 0.02, "margin": 0.56}),
}


def wrong(number: int, **overrides: Any) -> Row:
    own = {
        "source_line": number + 1,
        "recorded_at_ms": NOON_MS + number * 100,
        "verdict": "under_throttled",
        "replayed_throttle_time_ms": 1500,
    }
    return row("decisions", **own | overrides)


def day(tmp_path: Path, decisions: list[Row], **finding: Any) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [row("findings", **finding)])
    write_rows(scope, "decisions", decisions)
    return scope


def shown(scope: RunScope, finding_id: str = FINDING_ID) -> Page:
    return Page(finding_page(place_of(scope), scope, finding_id))


def test_a_finding_that_is_not_there_has_no_page(tmp_path: Path) -> None:
    scope = day(tmp_path, [])
    for unknown in ("f-ffffffffffff", "", "../x", "' or 1=1", LONG):
        assert finding_page(place_of(scope), scope, unknown) is None


def test_a_day_without_tables_has_no_finding(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    assert finding_page(place_of(scope), scope, FINDING_ID) is None


def test_the_sentence_the_severity_and_what_to_do_are_said(tmp_path: Path) -> None:
    page = shown(day(tmp_path, [], severity="critical", explanation="Broker 1 let alice run."))
    assert "Broker 1 let alice run." in page.text
    assert "critical" in page.text
    assert WHAT_TO_DO["under_throttled"] in page.text
    assert "producer_byte_rate throttled too little on broker 1" in page.text


def test_the_client_is_linked_to_with_the_interval_and_a_margin_around_it(tmp_path: Path) -> None:
    page = shown(day(tmp_path, [], from_ms=NOON_MS, until_ms=NOON_MS + 1_000_000))
    address = next(link for link in page.links if f"/entities/{entity_id('alice', '')}" in link)
    assert parse_qs(urlsplit(address).query) == {
        "quota_type": ["producer_byte_rate"],
        "from": [iso(NOON_MS - 100_000)],
        "until": [iso(NOON_MS + 1_100_000)],
        "broker": ["1"],
    }


def test_a_finding_of_no_one_broker_is_about_every_broker(tmp_path: Path) -> None:
    scope = day(tmp_path, [wrong(1, broker_id=1), wrong(2, broker_id=2)], broker_id=None)
    page = shown(scope)
    assert "every broker" in page.text
    assert "broker=" not in next(link for link in page.links if "/entities/" in link)
    assert len(page.table(0)) == 1 + 2


def test_the_explanations_are_compared_and_the_configured_value_is_one(tmp_path: Path) -> None:
    page = shown(day(tmp_path, [], **EXPLAINED))
    head, best, following, configured = page.table(0)
    assert head == ["Explanation", "What the broker then did", "Explains"]
    assert best == ["an earlier value best", HYPOTHESES["previous_quota"][1], "97.0 %"]
    assert following[0] == "the value of another level next best"
    assert following[2] == "41 %"
    assert configured[0] == "the configured value what is configured"
    assert configured[2] == "2.0 %"
    assert "60 %" in page.text
    assert "30 points" in page.text
    assert "25 kB/s" in page.text


def test_a_runner_up_that_is_the_configured_value_is_told_once(tmp_path: Path) -> None:
    given = EXPLAINED | {"runner_up": "configured_quota", "runner_up_share": 0.0}
    rows = shown(day(tmp_path, [], **given)).table(0)
    assert [cells[0] for cells in rows[1:]] == [
        "an earlier value best",
        "the configured value next best",
    ]


def test_evidence_that_is_no_json_is_shown_as_it_is(tmp_path: Path) -> None:
    page = shown(day(tmp_path, [], **EXPLAINED | {"evidence": "{cut"}))
    assert "{cut" in page.text
    assert len(page.table(0)) == 1 + 2


def test_single_wrong_decisions_have_no_explanation_in_common(tmp_path: Path) -> None:
    page = shown(day(tmp_path, []))
    assert page.count("table") == 0
    assert "No one cause was found" in page.text


def test_wrong_decisions_of_its_interval_and_sensor_are_listed_with_links(tmp_path: Path) -> None:
    others = [
        wrong(1, broker_id=2),
        wrong(2, quota_user="bob"),
        wrong(3, quota_client_id="x"),
        wrong(4, quota_type="consumer_byte_rate"),
        wrong(5, verdict="agree"),
        wrong(6, verdict="over_throttled"),
        wrong(7, recorded_at_ms=NOON_MS - 1),
        wrong(8, recorded_at_ms=NOON_MS + 60_000),
    ]
    page = shown(day(tmp_path, [wrong(0), *others], until_ms=NOON_MS + 60_000))
    head, *rows = page.table(0)
    assert head[:5] == ["Time", "Request", "Amount", "Quota", "Rate"]
    assert rows == [
        [
            "12:00:00.000",
            "PRODUCE app",
            "100 kB",
            "50 kB/s",
            "10 kB/s",
            "0 ms",
            "1.5 s",
            "throttled too little",
            "explain the request of 12:00:00.000",
        ]
    ]
    (explain,) = [link for link in page.links if "/explain?" in link and "line=" in link]
    assert parse_qs(urlsplit(explain).query) == {
        "cluster": ["default"],
        "day": ["2026-11-10"],
        "line": ["broker=1/kafka-request.log:1"],
    }


def test_a_common_cause_also_has_the_decisions_that_timing_could_explain(tmp_path: Path) -> None:
    timing = {"verdict": "indeterminate", "reason": "sample_timing"}
    decisions = [
        wrong(0),
        wrong(1, **timing),
        wrong(2, **timing, replayed_throttle_time_ms=2),
        wrong(3, **timing, replayed_throttle_time_ms=None),
    ]
    assert len(shown(day(tmp_path, decisions, **EXPLAINED)).table(1)) == 1 + 2
    assert len(shown(day(tmp_path, decisions)).table(0)) == 1 + 1


@pytest.mark.parametrize(
    ("kind", "verdict", "reason", "is_listed"),
    [
        ("over_throttled", "no_quota", "throttled_without_quota", True),
        ("under_throttled", "no_quota", "throttled_without_quota", False),
        ("not_enforced", "wrongly_admitted", None, True),
        ("not_enforced", "no_quota", None, False),
        ("lines_missing", "indeterminate", "lines_missing", True),
        ("lines_missing", "indeterminate", "state_unknown", False),
        ("wrongly_refused", "wrongly_refused", None, True),
        ("wrongly_refused", "wrongly_admitted", None, False),
    ],
)
def test_a_kind_lists_the_verdicts_that_it_counts(
    tmp_path: Path, kind: str, verdict: str, reason: str | None, *, is_listed: bool
) -> None:
    page = shown(day(tmp_path, [wrong(0, verdict=verdict, reason=reason)], kind=kind))
    assert page.count("table") == is_listed


def test_the_first_are_listed_and_the_rest_are_counted(tmp_path: Path) -> None:
    scope = day(tmp_path, [wrong(n) for n in range(SHOWN_MAX + 7)])
    page = shown(scope)
    assert len(page.table(0)) == 1 + SHOWN_MAX
    assert f"the first {SHOWN_MAX} of {SHOWN_MAX + 7}" in page.text
    assert "7 more are in the table" in page.text
    assert "more are in the table" not in shown(day(tmp_path, [wrong(1)] * SHOWN_MAX)).text


def test_mutations_show_tokens_and_what_was_refused(tmp_path: Path) -> None:
    mutation = {"quota_type": "controller_mutation_rate"}
    decision = wrong(
        0,
        **mutation,
        verdict="wrongly_admitted",
        amount=3.0,
        bound=2.0,
        rate=None,
        tokens=-2.5,
        resource="orders",
        replayed_admitted=False,
    )
    page = shown(day(tmp_path, [decision], **mutation, kind="wrongly_admitted"))
    head, cells = page.table(0)
    assert head[4] == "Tokens left"
    assert cells[1:8] == [
        "PRODUCE orders app",
        "3 partitions",
        "2 partitions/s",
        "−2.5",
        "0 ms",
        "refused, 1.5 s",
        "wrongly admitted",
    ]


def test_numbers_that_the_log_does_not_have_are_no_zeros(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("amount", "bound", "rate", "client_id", "replayed_admitted"))
    cells = shown(day(tmp_path, [wrong(0, **unknown)])).table(0)[1]
    assert cells[1:5] == ["PRODUCE", "–", "–", "–"]


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_names_of_strangers_change_nothing_but_the_text(tmp_path: Path, name: str) -> None:
    of = {"quota_user": name, "quota_client_id": name}
    decision = wrong(0, **of, client_id=name, api_name=name[:50], source_file=f"{name}/a.log")
    evidence = json.dumps({name: name})
    page = shown(day(tmp_path, [decision], **of, explanation=f"User {name}.", evidence=evidence))
    assert "49" not in page.text
    assert name not in page.text
    line = next(link for link in page.links if "line=" in link)
    assert parse_qs(urlsplit(line).query)["line"] == [f"{name}/a.log:1"]
    assert f"/entities/{entity_id(name, name)}" in page.source


def test_every_hypothesis_and_every_kind_has_words() -> None:
    assert set(HYPOTHESES) == set(TRIED)
    assert set(WHAT_TO_DO) == set(FINDING_KINDS)
