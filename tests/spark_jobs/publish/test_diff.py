from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.publish.diff import Diff, diff_object, diff_of, diff_text
from spark_jobs.publish.follow.changes import Status
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, Row, row, scope_in, write_rows


def decision(line: int, **overrides: Any) -> Row:
    return row("decisions", **{"source_line": line, "sensor_seq": line} | overrides)


def audit(warehouse: Path, decisions: list[Row], **tables: list[Row]) -> RunScope:
    scope = scope_in(warehouse)
    for table in ("files", "brokers"):
        write_rows(scope, table, tables.get(table, [row(table)]))
    write_rows(scope, "findings", tables.get("findings", []))
    write_rows(scope, "decisions", decisions)
    return scope


def diff(tmp_path: Path, before: list[Row], after: list[Row], **tables: list[Row]) -> Diff:
    return diff_of(audit(tmp_path / "a", before), audit(tmp_path / "b", after, **tables))


def test_two_audits_that_say_the_same_of_one_log_do_not_differ(tmp_path: Path) -> None:
    rows = [decision(n) for n in range(5)]
    found = diff(tmp_path, rows, rows[::-1])
    assert (found.changed, found.examples, found.is_same_log) == ({}, [], True)
    assert "The same log, and every decision is the same." in diff_text(found)


def test_decisions_of_one_log_that_differ_are_counted_by_verdict_and_named(tmp_path: Path) -> None:
    before = [decision(n) for n in range(4)]
    after = [
        decision(0),
        decision(1, verdict="under_throttled", replayed_throttle_time_ms=900),
        decision(2, replayed_throttle_time_ms=3),
        decision(9),
    ]
    found = diff(tmp_path, before, after)
    assert found.changed == {
        ("agree", "under_throttled"): 1,
        ("agree", "agree"): 1,
        ("agree", "no decision"): 1,
        ("no decision", "agree"): 1,
    }
    assert [one.source_line for one in found.examples] == [1, 2, 3, 9]
    text = diff_text(found)
    assert "4 decisions not the same" in text
    assert "as configured → as configured, by another arithmetic" in text
    assert "broker=1/kafka-request.log:1, producer_byte_rate of user 'alice' on broker 1: " in text


def test_several_decisions_of_one_line_are_compared_in_their_order(tmp_path: Path) -> None:
    rows = [decision(1, sensor_seq=n, replayed_throttle_time_ms=n) for n in (7, 8)]
    renumbered = [decision(1, sensor_seq=n, replayed_throttle_time_ms=n - 10) for n in (17, 18)]
    assert diff(tmp_path, rows, renumbered).changed == {}


def test_an_epoch_of_the_numbers_is_no_difference(tmp_path: Path) -> None:
    assert diff(tmp_path, [decision(1)], [decision(1, sensor_epoch=3)]).changed == {}


def test_decisions_of_other_logs_are_not_compared(tmp_path: Path) -> None:
    found = diff(tmp_path, [decision(1)], [decision(2)], files=[row("files", day_digest="f" * 32)])
    assert (found.is_same_log, found.changed_decisions) == (False, 0)
    assert "Not the same log" in diff_text(found)


def test_findings_of_only_one_audit_are_told_of_which(tmp_path: Path) -> None:
    finding = row("findings", decisions=30)
    found = diff(tmp_path, [], [], findings=[finding])
    assert [change.status for change in found.problems] == [Status.NEW]
    assert "only in the second: warning" in diff_text(found)
    other = diff_of(scope_in(tmp_path / "b"), scope_in(tmp_path / "a"))
    assert [change.status for change in other.problems] == [Status.GONE]
    assert "only in the first: warning" in diff_text(other)


verdicts = st.sampled_from(["agree", "indeterminate", "under_throttled"])
logs = st.dictionaries(
    st.integers(0, 12), st.tuples(verdicts, st.sampled_from([None, 0, 5])), max_size=8
)


@settings(max_examples=40)
@given(logs, logs)
def test_what_is_counted_is_what_differs(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[int, tuple[str, int | None]],
    after: dict[int, tuple[str, int | None]],
) -> None:
    def rows(log: dict[int, tuple[str, int | None]]) -> list[Row]:
        return [
            decision(line, verdict=verdict, replayed_throttle_time_ms=ms)
            for line, (verdict, ms) in log.items()
        ]

    found = diff(tmp_path_factory.mktemp("diff"), rows(before), rows(after))
    lines = before.keys() | after.keys()
    assert found.changed_decisions == sum(before.get(n) != after.get(n) for n in lines)


def test_the_command_takes_days_warehouses_and_the_run_before(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    audit(old, [decision(1)])
    audit(new, [decision(1, verdict="indeterminate", reason="lines_missing")])
    runner = CliRunner()
    result = runner.invoke(app, ["diff", f"{old}@{DAY}", str(DAY), "-w", str(new), "--json"])
    found = json.loads(result.output)
    assert found["changed"] == [{"before": "agree", "after": "indeterminate", "decisions": 1}]
    assert found["examples"][0]["after"]["reason"] == "lines_missing"
    named = [f"{old}@{DAY}", f"{new}@{DAY}"]
    assert runner.invoke(app, ["diff", *named]).exit_code == 0
    assert runner.invoke(app, ["diff", *named, "--exit-code"]).exit_code == 1
    assert runner.invoke(app, ["diff", named[0], named[0], "--exit-code"]).exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("yesterday", "'yesterday' names no audit: expected [WAREHOUSE@]DAY[:previous]"),
        (f"{DAY}:previous", "has no run 'previous'"),
        (f"{DAY}:{'0' * 32}", "kept are the published one"),
        ("2020-01-01", "was not audited"),
    ],
)
def test_a_name_of_no_audit_is_refused(tmp_path: Path, name: str, said: str) -> None:
    audit(tmp_path, [])
    result = CliRunner().invoke(app, ["diff", name, str(DAY), "-w", str(tmp_path)])
    assert isinstance(result.exception, BadInputError)
    assert said in str(result.exception)


def test_a_day_without_a_warehouse_is_refused() -> None:
    result = CliRunner().invoke(app, ["diff", str(DAY), str(DAY)])
    assert "says no warehouse" in str(result.exception)


def test_the_object_says_everything_of_the_text(tmp_path: Path) -> None:
    found = diff(tmp_path, [decision(1)], [decision(1)], findings=[row("findings")])
    as_object = diff_object(found)
    assert as_object["problems"][0]["status"] == "new"
    assert as_object["before"]["verdicts"] == {"agree": 1}
    json.dumps(as_object)
