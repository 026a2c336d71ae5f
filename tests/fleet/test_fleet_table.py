from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec
from rich.console import Console

from tests.fleet.fleet_table import KEPT, MANY_FAILED, OVER_LIMITS, WIDTH, FailedRun, print_fleet
from tests.fleet.run_score import Run, RunScore
from tests.fleet.test_fleet_figures import ACCUSATION, FINDING, GOOD, changed

FAILED = FailedRun("5", "4.1.0", "a broker did not come up")


def printed(
    scores: Sequence[RunScore],
    failed: Sequence[FailedRun] = (),
    runs_shown: int = 9,
    *,
    findings_only: bool = False,
) -> tuple[int, str]:
    text = io.StringIO()
    console = Console(width=WIDTH, file=text)
    code = print_fleet(console, scores, failed, runs_shown, findings_only=findings_only)
    return code, text.getvalue()


def test_a_fleet_that_keeps_all_limits_ends_with_0_and_says_its_rate() -> None:
    code, text = printed([GOOD, GOOD])
    assert code == KEPT
    assert "0 of 2,020 judged decisions called wrong: 0.00 per million, at most 1481.94" in text
    assert "20 more were not judged" in text


def test_an_accusation_ends_with_1_and_tells_where_its_line_is() -> None:
    code, text = printed([changed(accusations=(ACCUSATION,))])
    assert code == OVER_LIMITS
    assert "broker=1/kafka-request.log.gz:7" in text
    assert "logged 0 ms, replayed 90 ms" in text


def test_a_finding_ends_with_1_though_no_decision_of_it_is_wrong() -> None:
    code, text = printed([changed(findings=(FINDING,))])
    assert code == OVER_LIMITS
    assert "warning state_lost (state_lost) on broker 1" in text
    assert "0 wrong decisions" in text


def test_of_few_runs_findings_alone_end_with_1() -> None:
    assert printed([changed(accusations=(ACCUSATION,))], findings_only=True)[0] == KEPT
    assert printed([changed(findings=(FINDING,))], findings_only=True)[0] == OVER_LIMITS


def test_each_failed_run_is_told_with_its_reason_and_too_many_end_with_3() -> None:
    code, text = printed([GOOD, GOOD], [FAILED])
    assert code == KEPT
    assert "failed: 5 on 4.1.0: a broker did not come up" in text
    assert "1 runs failed" in text
    assert printed([GOOD], [FAILED, FAILED])[0] == MANY_FAILED


def test_versions_are_in_their_order_and_each_has_its_rows() -> None:
    other = changed(run=Run("2", "3.10.0"))
    _, text = printed([GOOD, msgspec.structs.replace(GOOD, run=Run("3", "3.9.1")), other])
    rows = text[text.index("Versions") :]
    assert rows.index("3.9.1") < rows.index("3.10.0") < rows.index("4.1.0")


def test_of_very_many_runs_only_those_that_accuse_are_listed() -> None:
    accusing = changed(run=Run("guilty", "4.1.0"), accusations=(ACCUSATION,))
    fine = changed(run=Run("innocent", "4.1.0"))
    _, text = printed([fine] * 3 + [accusing], runs_shown=3)
    assert "guilty" in text
    assert "innocent" not in text


def test_what_is_undecided_is_told_by_reason() -> None:
    _, text = printed([GOOD])
    (row,) = [line for line in text.splitlines() if "sample_timing" in line]
    assert "0.0100" in row
