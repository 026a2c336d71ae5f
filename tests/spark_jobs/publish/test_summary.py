from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from spark_jobs.publish.publish_report import publish_report
from spark_jobs.publish.summary import LINES_MAX, print_summary
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import busy_day, empty_day, quiet_day
from tests.builders.tables_builder import row, write_rows


def printed(scope: RunScope) -> list[str]:
    out = io.StringIO()
    print_summary(scope, Console(file=out, width=80))
    return out.getvalue().splitlines()


def crowded_day(tmp_path: Path) -> RunScope:
    scope = busy_day(tmp_path, clients=30)
    findings = [row("findings", finding_id=f"f-{n}", explanation="x" * 900) for n in range(20)]
    write_rows(scope, "findings", findings)
    proposals = [row("recommendations", quota_user=f"u{n}") for n in range(20)]
    write_rows(scope, "recommendations", proposals)
    return scope


def test_a_crowded_day_fits_one_screen_and_says_how_much_it_leaves_out(tmp_path: Path) -> None:
    lines = printed(crowded_day(tmp_path))
    assert len(lines) <= LINES_MAX
    assert "Findings, 4 of 20:" in lines
    assert "Throttled most, 4 of 30:" in lines
    assert "Recommended, 3 of 20:" in lines
    assert max(len(line) for line in lines[:-1]) < 330


def test_the_summary_says_what_was_audited_and_found(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    report = publish_report(scope)
    assert printed(scope) == [
        "default on 2026-11-10, 12:00:00 to 12:00:00 UTC: 1 request of 1 broker",
        "! Enforced as configured, except in 1 case",
        "2 decisions: 2 as configured (100 %), 0 wrong (0 %); 0 cannot be decided",
        "Findings:",
        "  warning  Broker 1 throttled user 'alice' too little.",
        "Throttled most:",
        "  user 'alice' by producer_byte_rate on broker 1: 2 requests, 2 s of delay",
        "Recommended:",
        "  user 'alice': producer_byte_rate 50 kB/s → 100 kB/s (+100 %), confidence high",
        f"Report: {report}",
    ]


def test_a_quiet_day_is_short(tmp_path: Path) -> None:
    assert printed(quiet_day(tmp_path))[3:] == [
        "Findings: none",
        "Throttled: nobody",
        "Recommended: no change",
        "Report: not published yet",
    ]


def test_a_day_of_which_nothing_is_known_can_be_summed_up(tmp_path: Path) -> None:
    assert "? Nothing to judge: the log holds no requests" in printed(empty_day(tmp_path))


def test_a_name_that_looks_like_markup_is_printed_as_it_is(tmp_path: Path) -> None:
    assert any(
        "user '[red]x[/red]'" in line for line in printed(busy_day(tmp_path, "[red]x[/red]"))
    )


def test_a_name_cannot_send_codes_to_the_terminal(tmp_path: Path) -> None:
    assert not any("\x1b]" in line for line in printed(busy_day(tmp_path, "\x1b]0;x\x07")))
