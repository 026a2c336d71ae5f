"""`quota-audit explain`: which request is meant, and what becomes of a bad question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from tests.builders.tables_builder import DAY, row, scope_in, write_rows
from tests.spark_jobs.recommend.day import produces, steady

BUSY = produces(steady(80_000.0, 40), 50_000.0, waits=True)
THROTTLED = next(r for r in BUSY if r["replayed_throttle_time_ms"])
LINE = f"{THROTTLED['source_file']}:{THROTTLED['source_line']}"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    scope = scope_in(tmp_path)
    write_rows(scope, "decisions", BUSY)
    write_rows(scope, "brokers", [row("brokers", broker_id=1)])
    proposed = row("recommendations", proposed=100_000.0, reason="Throttled.")
    write_rows(scope, "recommendations", [proposed, row("recommendations", quota_user="bob")])
    return tmp_path


def explain(warehouse: Path, *options: str) -> str:
    found = CliRunner().invoke(
        app, ["explain", "-w", str(warehouse), *options], catch_exceptions=False
    )
    assert found.exit_code == 0, found.output
    return found.output


def test_a_line_of_the_log_is_explained_with_what_is_recommended(warehouse: Path) -> None:
    said = explain(warehouse, "--line", LINE)
    assert f"line {THROTTLED['source_line']:,}; connection" in said
    assert f"The log has a throttle of {THROTTLED['logged_throttle_time_ms']:,} ms: " in said
    assert said.count("the audit proposes") == 1
    assert "100,000 B/s for user 'alice'" in said


def test_a_client_s_last_request_at_a_moment_is_meant(warehouse: Path) -> None:
    first, second, last = BUSY[0], BUSY[1], BUSY[-1]
    assert second["recorded_at_ms"] - first["recorded_at_ms"] == 100
    for at in ("12:00:00.099", f"{DAY}T12:00:00.099", f"{DAY}T13:00:00.099+01:00"):
        assert f"line {first['source_line']};" in explain(warehouse, "--user", "alice", "--at", at)
    said = explain(warehouse, "--client-id", "app", "--broker", "1")
    assert f"line {last['source_line']};" in said


def test_as_json_every_number_is_there(warehouse: Path) -> None:
    found = json.loads(explain(warehouse, "--line", LINE, "--json"))
    (section,) = found["sections"]
    steps: dict[str, Any] = section["steps"]
    assert steps["throttle_time_ms"] == THROTTLED["replayed_throttle_time_ms"]
    assert sum(sample["value"] for sample in steps["samples"]) == steps["total"]
    assert section["lines"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Give --line, or --user or --client-id"),
        (("--line", "12"), "as in broker=1/kafka-request.log:120"),
        (("--line", "broker=1/other.log:1"), "about line 1 of broker=1/other.log"),
        (("--user", "zoe"), "about user 'zoe'"),
        (("--user", "alice", "--at", "11:00"), "up to 2026-11-10 11:00:00.000 UTC is about user"),
        (("--user", "alice", "--at", "noon"), "is not a moment"),
        (("--user", "alice", "--day", "2026-11-09"), "the days there are: 2026-11-10"),
        (("--user", "alice", "--cluster", "other"), "the days there are: none"),
    ],
)
def test_a_question_that_has_no_answer_says_what_to_ask(
    warehouse: Path, options: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BadInputError, match=words.replace("(", r"\(")):
        explain(warehouse, *options)
