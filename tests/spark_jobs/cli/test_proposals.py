from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_jobs.apply.changes.change_key import parse_selection
from spark_jobs.cli.app import app
from spark_jobs.cli.print_changes import print_proposals, proposal_objects
from spark_jobs.errors import BadInputError
from tests.builders.tables_builder import DAY, Row, row, scope_in, write_rows

STRANGE = "a/b:c\u202e\n"


def recommended(**overrides: Any) -> Row:
    return row("recommendations", **overrides)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    scope = scope_in(tmp_path)
    write_rows(replace(scope, day=DAY.replace(day=9)), "recommendations", [])
    rows = [
        recommended(quota_user="bob", throttle_time_ms_before=None, proposed=None, kind="reclaim"),
        recommended(previous=None, backtest_trials=4, backtest_kept=3),
        recommended(
            quota_user=None,
            quota_client_id=STRANGE,
            quota_type="controller_mutation_rate",
            reason=f"{STRANGE} is throttled.",
            throttle_time_ms_before=90_000,
        ),
        recommended(quota_user="carol", status="keep", kind=None, proposed=None),
        recommended(quota_user="dave", status="withheld", proposed=None),
    ]
    write_rows(scope, "recommendations", rows)
    return tmp_path


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["proposals", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_proposed_is_one_json_object_on_one_line(warehouse: Path) -> None:
    (line,) = printed("--warehouse", str(warehouse), "--json").splitlines()
    found = json.loads(line)
    assert (found["cluster"], found["day"]) == ("default", str(DAY))
    assert found["recommendations"] == {"keep": 1, "proposed": 3, "withheld": 1}
    assert [p["change"] for p in found["proposals"]] == [
        "clients/a%2Fb%3Ac%E2%80%AE%0A:controller_mutation_rate",
        "users/alice:producer_byte_rate",
        "users/bob:producer_byte_rate",
    ]
    alice = found["proposals"][1]
    assert (alice["before"], alice["after"], alice["current"]) == (None, 100_000.0, 50_000.0)
    assert (alice["backtest_kept"], alice["backtest_trials"]) == (3, 4)
    assert found["proposals"][2]["after"] is None


def test_a_proposal_has_the_name_by_which_apply_selects_it(warehouse: Path) -> None:
    for proposal in json.loads(printed("--warehouse", str(warehouse), "--json"))["proposals"]:
        selection = parse_selection(proposal["change"])
        assert (selection.user, selection.client_id) == (proposal["user"], proposal["client_id"])
        assert selection.quota_type == proposal["quota_type"]


def test_for_people_a_proposal_is_a_line_and_no_name_breaks_it(warehouse: Path) -> None:
    head, titles, *lines, counts = printed("--warehouse", str(warehouse)).splitlines()
    assert head == f"proposals for the cluster default, {DAY} UTC"
    assert titles.split() == [
        *["change", "now", "proposed", "throttled", "with", "it", "earlier", "days", "sure", "why"],
    ]
    assert [line.split()[0] for line in lines] == [
        "clients/a%2Fb%3Ac%E2%80%AE%0A:controller_mutation_rate",
        "users/alice:producer_byte_rate",
        "users/bob:producer_byte_rate",
    ]
    assert r"a/b:c\u202e\n is throttled." in lines[0]
    assert re.split(r" {2,}", lines[1])[1:7] == [
        *["no value", "100,000 B/s", "40 s", "0 ms", "3 of 4", "high"],
    ]
    assert counts == "1 keep, 3 proposed, 1 withheld"


def test_a_day_without_proposals_is_none_and_no_error(warehouse: Path) -> None:
    before = str(DAY.replace(day=9))
    found = json.loads(printed("--warehouse", str(warehouse), "--day", before, "--json"))
    assert (found["day"], found["proposals"], found["recommendations"]) == (before, [], {})
    assert printed("--warehouse", str(warehouse), "--day", before).splitlines() == [
        f"proposals for the cluster default, {before} UTC",
        "no recommendations",
    ]


def test_a_day_that_was_not_audited_is_told_with_those_that_were(warehouse: Path) -> None:
    with pytest.raises(
        BadInputError, match=r"'default' for 2026-11-11; .*: 2026-11-09, 2026-11-10"
    ):
        print_proposals(warehouse, "default", DAY.replace(day=11), as_json=True)
    with pytest.raises(BadInputError, match=r"the cluster 'west'; the days there are: none\."):
        print_proposals(warehouse, "west", None, as_json=True)


def test_proposals_of_equal_weight_keep_one_order_however_they_are_stored() -> None:
    rows = [recommended(quota_user=user) for user in ("c", "a", "b")]
    expected = proposal_objects(rows)
    assert [p["user"] for p in expected] == ["a", "b", "c"]
    assert proposal_objects(rows[::-1]) == expected
