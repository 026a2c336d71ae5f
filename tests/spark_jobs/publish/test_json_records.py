from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from docs.generate.json_schemas import finding_schema
from spark_jobs.publish.json_records import finding_lines
from spark_jobs.publish.read_facts import news_of
from spark_jobs.warehouse.scope import RunScope
from tests.builders.followed_days import MENDED_ON, SPREADS_ON, write_days
from tests.builders.tables_builder import row, scope_in, write_rows


@pytest.fixture(scope="module")
def ten_days(tmp_path_factory: pytest.TempPathFactory) -> list[RunScope]:
    return write_days(tmp_path_factory.mktemp("days"))


def records(scope: RunScope) -> list[dict[str, Any]]:
    return [json.loads(line) for line in finding_lines(scope, news_of(scope)).splitlines()]


def of_user(scope: RunScope, user: str) -> dict[str, Any]:
    (one,) = [record for record in records(scope) if record["quota_user"] == user]
    return one


def test_every_line_is_as_the_published_schema_says(ten_days: list[RunScope]) -> None:
    published = Path(__file__).parents[3] / "docs" / "reference" / "finding.schema.json"
    schema = json.loads(published.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    lines = [record for scope in ten_days for record in records(scope)]
    assert len(lines) == 35
    assert [error.message for line in lines for error in validator.iter_errors(line)] == []


def test_the_schema_refuses_what_is_no_finding() -> None:
    validator = Draft202012Validator(finding_schema())
    assert not validator.is_valid({})
    assert not validator.is_valid({"status": "new"})


def test_a_line_says_what_became_of_it_who_knows_and_whose_it_is(
    ten_days: list[RunScope],
) -> None:
    known = of_user(ten_days[3], "known")
    assert known["acknowledged"] == {
        "owner": "Ada",
        "reason": "its broker is replaced next week",
        "since": "2026-11-12",
        "until": "2026-11-16",
        "acknowledged_by": "",
    }
    growing = of_user(ten_days[SPREADS_ON], "growing")
    assert (growing["status"], growing["since"]) == ("worse", "2026-11-10")
    assert growing["owner"] == {"team": "Orders", "contact": "#orders"}
    assert (growing["acknowledged"], growing["evidence"]) == (None, {"decisions_checked": 40})


def test_what_is_gone_has_a_line_once(ten_days: list[RunScope]) -> None:
    gone = of_user(ten_days[MENDED_ON], "mended")
    assert (gone["status"], gone["decisions"]) == ("gone", 500)
    users = {record["quota_user"] for record in records(ten_days[MENDED_ON + 1])}
    assert "mended" not in users


def test_each_interval_of_a_problem_has_a_line(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    rows = [row("findings", finding_id=name, from_ms=place) for place, name in enumerate("ab")]
    write_rows(scope, "findings", rows)
    found = records(scope)
    assert {one["finding_id"] for one in found} == {"a", "b"}
    assert len({one["problem_id"] for one in found}) == 1


def test_names_of_strangers_stay_on_their_line(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    hostile = 'a"\n{}\u2028\x00'
    write_rows(scope, "findings", [row("findings", quota_user=hostile, evidence="[1]")])
    text = finding_lines(scope, news_of(scope))
    assert text.count("\n") == 1
    assert json.loads(text)["quota_user"] == hostile


def test_half_a_character_in_a_name_loses_no_line(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    evidence = json.dumps({"file": "\ud800"})
    write_rows(scope, "findings", [row("findings", evidence=evidence)])
    (one,) = records(scope)
    assert one["evidence"] == {"file": "?"}
