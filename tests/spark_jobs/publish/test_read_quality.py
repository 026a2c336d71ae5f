from __future__ import annotations

import json
from pathlib import Path

from spark_jobs.publish.facts.quality import total_lines
from spark_jobs.publish.read_facts import lines_of_files, quarantine_reasons, stages_of
from tests.builders.tables_builder import row, scope_in, write_rows

RULE = {
    "rule": "one_row_per_line",
    "description": "A line is one request.",
    "severity": "critical",
    "success": False,
    "failed_rows": 3,
    "found": None,
    "sample": [{"source_line": 7}],
    "error": None,
}


def write_stage(tmp_path: Path, text: str) -> None:
    folder = scope_in(tmp_path).output_dir("data_quality")
    folder.mkdir(parents=True)
    (folder / "ingested.json").write_text(text)


def test_a_stage_nobody_validated_is_said(tmp_path: Path) -> None:
    outcomes = [stage.outcome for stage in stages_of(scope_in(tmp_path))]
    assert outcomes == ["not validated"] * 3


def test_rules_that_do_not_hold_are_told_from_those_that_broke(tmp_path: Path) -> None:
    rules = [RULE, RULE | {"success": True}, RULE | {"success": True, "error": "no such column"}]
    table = {"table": "requests", "rows": 99, "engine": "pandas", "rules": rules}
    document = {"outcome": "broken", "cluster": "c", "stage": "ingested", "tables": [table]}
    write_stage(tmp_path, json.dumps(document))
    stage = stages_of(scope_in(tmp_path))[0]
    assert (stage.outcome, stage.tables[0].holding) == ("broken", 1)
    assert [rule.error for _, rule in stage.broken_rules] == [None, "no such column"]


def test_a_result_that_cannot_be_read_does_not_take_the_report_away(tmp_path: Path) -> None:
    write_stage(tmp_path, '{"outcome": ')
    assert stages_of(scope_in(tmp_path))[0].outcome == "not readable: ingested.json"


def test_lines_are_summed_and_lost_ones_counted(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    rows = [
        row("files", source_file="a", lines_read=10, requests=8, other=1),
        row("files", source_file="b", lines_read=5, requests=5, other=0),
    ]
    write_rows(scope, "files", rows)
    files = lines_of_files(scope)
    assert [file.lost for file in files] == [1, 0]
    assert (total_lines(files).lines_read, total_lines(files).lost) == (15, 1)


def test_unreadable_lines_are_counted_by_reason_with_the_first_three(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    cut = [row("quarantine", source_line=n, text=f"line {n}") for n in (9, 3, 7, 1)]
    write_rows(scope, "quarantine", [*cut, row("quarantine", reason="interleaved")])
    first, second = quarantine_reasons(scope)
    assert (first.reason, first.lines, second.reason, second.lines) == (
        "cut_line",
        4,
        "interleaved",
        1,
    )
    assert [line for _, line, _ in first.samples] == [1, 3, 7]
