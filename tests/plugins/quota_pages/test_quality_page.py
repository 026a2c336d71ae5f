from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expectations.validate.results import RuleResult, TableResult, ValidationReport
from quota_pages.quality_page import COMMANDS, FILES_MAX, quality_page, shown_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import begin_draft, new_run
from tests.builders.published_day import small_warehouse
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, write_rows
from tests.plugins.quota_pages.page_checks import HOSTILE, LONG, Page, place_of


def rule(name: str, **overrides: Any) -> RuleResult:
    holds: dict[str, Any] = {
        "description": f"What {name} says.",
        "severity": "critical",
        "success": True,
        "failed_rows": 0,
        "found": None,
        "sample": (),
        "error": None,
    }
    return RuleResult(rule=name, **{**holds, **overrides})


def broken(name: str, *sample: dict[str, Any], **overrides: Any) -> RuleResult:
    given = {"success": False, "failed_rows": len(sample), "sample": sample}
    return rule(name, **{**given, **overrides})


def validated(
    scope: RunScope, *rules: RuleResult, stage: str = "ingested", table: str = "requests"
) -> None:
    """Write what validation writes of a stage with one table."""
    result = TableResult(table, 1000, "pandas", rules)
    report = ValidationReport(scope.cluster, str(scope.day), stage, (result,))
    report.write(scope.output_dir("data_quality") / f"{stage}.json")


def day(tmp_path: Path, *files: Row) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "files", list(files) or [row("files")])
    return scope


def shown(scope: RunScope) -> Page:
    return Page(quality_page(place_of(scope), scope))


def test_a_day_of_which_nothing_is_known_has_no_page(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    assert quality_page(place_of(scope), scope) is None


def test_a_day_that_was_not_validated_says_so(tmp_path: Path) -> None:
    page = shown(day(tmp_path))
    assert [cells[:4] for cells in page.table(0)[1:]] == [
        ["ingested", "not validated", "–", "–"],
        ["replayed", "not validated", "–", "–"],
        ["judged", "not validated", "–", "–"],
    ]


def test_a_report_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    scope = day(tmp_path)
    path = scope.output_dir("data_quality") / "judged.json"
    path.parent.mkdir(parents=True)
    path.write_text("{cut")
    assert shown(scope).table(0)[3][1] == "not readable: judged.json"


def test_other_stages_are_there_when_they_were_validated(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, rule("known_mode"), stage="whatif", table="whatif")
    assert [cells[0] for cells in shown(scope).table(0)[1:]] == [
        "ingested",
        "replayed",
        "judged",
        "whatif",
    ]


def test_a_broken_check_is_told_before_critical_rules_and_those_before_warnings(
    tmp_path: Path,
) -> None:
    scope = day(tmp_path)
    validated(
        scope,
        broken("a_warning", {"source_line": 1}, severity="warning"),
        broken("b_info", {"source_line": 1}, severity="info"),
        broken("c_critical", {"source_line": 1}),
        broken("d_check", severity="info", error="missing column bound"),
        rule("e_holds"),
    )
    page = shown(scope)
    assert page.table(0)[1][:4] == ["ingested", "broken", "1 of 5", "4"]
    places = [page.text.index(f": {name}") for name in ("d_check", "c_critical", "a_warning")]
    assert places == sorted(places)
    assert page.text.index(": a_warning") < page.text.index(": b_info")
    assert "It could not be evaluated: missing column bound" in page.text
    assert "check broke" in page.text


def test_rows_that_break_a_rule_are_a_table_of_their_columns(tmp_path: Path) -> None:
    scope = day(tmp_path)
    sample = (
        {"source_file": "a.log", "source_line": 7, "recorded_at_ms": NOON_MS, "bound": None},
        {"source_file": "a.log", "source_line": 8, "quota_user": "", "rate": "nan"},
    )
    validated(scope, broken("rows_in_order", *sample, failed_rows=25))
    page = shown(scope)
    assert page.table(1) == [
        ["source_file", "source_line", "recorded_at_ms", "bound", "quota_user", "rate"],
        ["a.log", "7", "2026-11-10T12:00:00.000Z", "–", "–", "–"],
        ["a.log", "8", "–", "–", '""', "nan"],
    ]
    assert "The first 2 of 25 rows" in page.text
    assert "25 of 1,000 rows break it." in page.text
    assert "What rows_in_order says." in page.text


def test_a_rule_on_the_whole_table_says_what_it_saw(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, broken("has_requests", found="0 rows, expected at least 1"))
    page = shown(scope)
    assert "Found: 0 rows, expected at least 1." in page.text
    assert page.count("table") == 2


@pytest.mark.parametrize(
    ("stage", "given", "said"),
    [
        ("ingested", {}, "Nothing is published until it holds: run quota-audit ingest again."),
        ("replayed", {}, "run quota-audit resolve and quota-audit replay again."),
        ("judged", {"error": "x"}, "write it again (quota-audit judge, quota-audit recommend)"),
        ("ingested", {"severity": "warning"}, "The run went on."),
    ],
)
def test_what_to_do_follows_from_stage_and_severity(
    tmp_path: Path, stage: str, given: dict[str, Any], said: str
) -> None:
    scope = day(tmp_path)
    validated(scope, broken("a_rule", {"source_line": 1}, **given), stage=stage)
    assert said in shown(scope).text


def test_rules_that_hold_are_folded_away_and_say_what_they_tolerate(tmp_path: Path) -> None:
    scope = day(tmp_path)
    tolerated = rule("most_sizes_known", failed_rows=2, sample=({"source_line": 9},))
    validated(scope, rule("has_requests"), tolerated, broken("x", {"source_line": 1}))
    page = shown(scope)
    assert "<summary><code>requests</code>: 2 of 3 rules, 1,000 rows</summary>" in page.source
    assert "It allows for some: 2 rows break it." in page.text
    assert ["9"] in page.table(3)


def test_where_no_rule_holds_none_is_said_to(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, broken("x", {"source_line": 1}))
    assert 'id="holding"' not in shown(scope).source


def test_data_docs_are_linked_to_where_they_exist(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, broken("x", {"source_line": 1}))
    assert not any("data_docs" in link for link in shown(scope).links)
    folder = scope.output_dir("data_docs") / "ingested"
    folder.mkdir(parents=True)
    for name in ("index.html", "requests.html"):
        (folder / name).write_text("<!doctype html>")
    base = "/quota-audit/data_docs/cluster=default/date=2026-11-10/ingested"
    links = [link for link in shown(scope).links if "data_docs" in link]
    assert links == [f"{base}/index.html", f"{base}/requests.html"]


def test_files_whose_lines_do_not_add_up_come_first(tmp_path: Path) -> None:
    scope = day(
        tmp_path,
        row("files", source_file="a.log"),
        row("files", source_file="b.log", lines_read=105),
        row("files", source_file="c.log", lines_read=98),
    )
    page = shown(scope)
    assert [(cells[0], cells[-1]) for cells in page.table(1)[1:]] == [
        ("b.log", "no: 5 missing"),
        ("c.log", "no: 2 too many"),
        ("a.log", "yes"),
    ]
    assert "Of 2 files the lines do not add up." in page.text
    assert "Every line is accounted for." in shown(day(tmp_path)).text


def test_files_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    files = [row("files", source_file=f"{n:04}.log") for n in range(FILES_MAX + 3)]
    page = shown(day(tmp_path, *files))
    assert len(page.table(1)) == 1 + FILES_MAX
    assert f"The first {FILES_MAX} of {FILES_MAX + 3} are shown" in page.text


def test_lines_that_could_not_be_read_are_counted_by_reason_with_the_first(tmp_path: Path) -> None:
    scope = day(tmp_path)
    cut = [row("quarantine", reason="cut", source_line=n, text=f"line {n}") for n in range(1, 6)]
    write_rows(scope, "quarantine", [*cut, row("quarantine", reason="foreign")])
    page = shown(scope)
    assert "5: the line ends early" in page.text
    assert "1: no line of a Kafka log" in page.text
    assert "The first 3 of 5 are shown" in page.text
    assert "Lines that could not be read 6" in page.text


@pytest.mark.parametrize("name", [HOSTILE, LONG, HOSTILE + 65_000 * "x"])
def test_text_of_strangers_changes_nothing_but_the_text(tmp_path: Path, name: str) -> None:
    scope = day(tmp_path, row("files", source_file=name))
    write_rows(scope, "quarantine", [row("quarantine", reason=name, text=name, source_file=name)])
    validated(
        scope,
        broken("rows_in_order", {name: name, "topics": [name]}, description=name),
        broken("whole", found=name, severity=name),
        broken("check", error=name),
        rule("holds", description=name),
    )
    page = shown(scope)
    assert len(page.source) < 60_000
    assert "{{ 7*7 }}" in page.text or "7*7" not in name


def test_every_stage_has_the_commands_that_write_its_tables() -> None:
    assert COMMANDS == {
        "ingested": ("ingest",),
        "replayed": ("resolve", "replay"),
        "judged": ("judge", "recommend"),
        "whatif": ("whatif",),
        "applied": ("apply", "rollback"),
    }


def test_a_moment_that_no_calendar_has_is_a_number(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, broken("in_the_day", {"log_time_ms": 2**62, "until_ms": 1500, "is_x": True}))
    assert shown(scope).table(1)[1] == [str(2**62), "1500", "true"]


def test_the_report_of_validation_is_what_the_page_reads(tmp_path: Path) -> None:
    scope = day(tmp_path)
    validated(scope, broken("x", {"source_line": 1}))
    written = json.loads((scope.output_dir("data_quality") / "ingested.json").read_text("utf-8"))
    assert written["outcome"] == "failed"
    assert shown(scope).table(0)[1][1] == "failed"


def test_a_run_that_goes_on_changes_nothing_and_one_that_failed_is_shown(tmp_path: Path) -> None:
    scope = small_warehouse(tmp_path)
    before = shown(shown_run(scope)).text
    draft = begin_draft(scope, new_run())
    assert shown(shown_run(scope)).text == before
    write_rows(draft, "files", [row("files")])
    validated(draft, rule("x"))
    assert shown(shown_run(scope)).text == before
    validated(draft, broken("x", {"source_line": 1}))
    failed = shown(shown_run(scope)).text
    assert "Of a later run, which is not published." in failed
    assert "Of a later run" not in before
