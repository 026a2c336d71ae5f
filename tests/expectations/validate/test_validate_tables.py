from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from expectations.validate import results
from expectations.validate.runner import SUITES, validate_tables
from spark_jobs.cli import app as cli
from spark_jobs.errors import BadInputError, CheckBrokenError, DataQualityError
from spark_jobs.settings import ValidateSettings
from spark_jobs.upkeep.doctor import Examination, examine
from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from tests.builders.tables_builder import row, scope_in, table_of, write_rows
from tests.expectations.broken_warehouse import drop_column, write_sound_day, written_report
from tests.spark_jobs.upkeep.made_days import DAYS, audited

pytestmark = pytest.mark.spark


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    return write_sound_day(tmp_path)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_the_builder_has_every_column_of_the_contract_and_no_other() -> None:
    for table, schema in TABLES.items():
        assert set(row(table)) == set(schema.names), table


def test_sound_tables_pass_and_the_sentence_says_so(scope: RunScope) -> None:
    report = validate_tables(scope, "judged")
    assert report.sentence() == (
        "validated judged: 143 rules on 5 tables, all critical ones and warnings hold"
    )
    assert written_report(scope, "judged")["outcome"] == "passed"


def test_a_warning_does_not_stop_and_is_named(scope: RunScope) -> None:
    write_rows(scope, "brokers", [row("brokers", version=None)])
    report = validate_tables(scope, "ingested")
    assert report.sentence().endswith("1 warning: version_is_known of brokers")
    assert written_report(scope, "ingested")["outcome"] == "warnings"


def test_a_critical_failure_names_table_rule_rows_and_their_total(scope: RunScope) -> None:
    bad = [row("findings", finding_id=f"f-{i:02}", kind="odd") for i in range(30)]
    write_rows(scope, "findings", bad)
    with pytest.raises(DataQualityError) as caught:
        validate_tables(scope, "judged")
    message = str(caught.value)
    assert message.startswith("The data is bad (stage judged, cluster default, 2026-11-10): ")
    assert "1 critical rule broken" in message
    assert "findings breaks known_kind" in message
    assert "30 of 30 rows break it: finding_id=f-00, kind=odd; finding_id=f-01" in message
    assert "; and 25 more." in message
    (table,) = (t for t in written_report(scope, "judged")["tables"] if t["table"] == "findings")
    (rule,) = (r for r in table["rules"] if not r["success"])
    assert len(rule["sample"]) == results.ROWS_IN_SAMPLE_MAX
    assert rule["failed_rows"] == 30


def test_what_a_terminal_would_obey_is_quoted_and_long_values_are_cut(scope: RunScope) -> None:
    write_rows(scope, "findings", [row("findings", kind="\x1b[2J" + "k" * 500)])
    with pytest.raises(DataQualityError) as caught:
        validate_tables(scope, "judged")
    assert "\x1b" not in str(caught.value)
    assert "k" * 200 not in str(caught.value)


def test_a_count_that_is_wrong_says_both_numbers(scope: RunScope) -> None:
    write_rows(scope, "files", [row("files", lines_read=12, requests=11, other=1)])
    with pytest.raises(DataQualityError, match=r"requests breaks .* 10 rows, expected 11\."):
        validate_tables(scope, "ingested")


def test_a_missing_column_is_a_broken_check_and_comes_first(scope: RunScope) -> None:
    drop_column(scope, "topic_inventory")
    with pytest.raises(CheckBrokenError) as caught:
        validate_tables(scope, "replayed")
    head, first, *_ = str(caught.value).splitlines()
    assert head.startswith("Data quality is unknown (stage replayed")
    missing = "missing column partitions_handed_on"
    assert first == f"- topic_inventory, rule columns_of_the_contract: {missing}"
    assert written_report(scope, "replayed")["outcome"] == "broken"


def test_a_file_that_is_no_parquet_is_a_broken_check(scope: RunScope) -> None:
    (scope.partition_dir("findings") / "part-0.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(CheckBrokenError, match=r"findings are broken.*cannot be read as Parquet"):
        validate_tables(scope, "judged")


def test_a_column_of_another_type_is_a_broken_check(scope: RunScope) -> None:
    path = scope.partition_dir("topic_inventory") / "part-0.parquet"
    text = table_of("topic_inventory", [row("topic_inventory")])
    pq.write_table(text.set_column(1, "partitions", [["many"]]), path)
    with pytest.raises(CheckBrokenError, match="another type than the contract's"):
        validate_tables(scope, "replayed")


def test_an_exception_in_a_check_is_a_broken_check(
    scope: RunScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_suite() -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setitem(SUITES, "requests", broken_suite)
    with pytest.raises(CheckBrokenError, match=r"requests are broken.*ZeroDivisionError: no such"):
        validate_tables(scope, "ingested")


def test_a_day_that_was_not_ingested_is_a_broken_check(tmp_path: Path) -> None:
    with pytest.raises(CheckBrokenError, match=r"requests are broken.*found none\. Run ingest"):
        validate_tables(scope_in(tmp_path), "ingested")


def test_an_unknown_stage_is_bad_input(scope: RunScope) -> None:
    with pytest.raises(BadInputError, match=r"no stage 'raw'\. Use one of ingested, replayed"):
        validate_tables(scope, "raw")


def test_a_large_table_without_spark_is_a_broken_check(scope: RunScope) -> None:
    with pytest.raises(CheckBrokenError, match=r"10 rows, more than the 9 .* no Spark was given"):
        validate_tables(scope, "judged", settings=ValidateSettings(in_memory_rows_max=9))


def test_validating_twice_writes_the_same_bytes(scope: RunScope) -> None:
    write_rows(scope, "topic_inventory", [row("topic_inventory", topic="a b")])
    folders = ("data_quality", "data_docs")
    validate_tables(scope, "replayed")
    first = [files_below(scope.output_dir(folder)) for folder in folders]
    validate_tables(scope, "replayed")
    assert [files_below(scope.output_dir(folder)) for folder in folders] == first
    assert set(first[0]) == {"replayed.json"}
    pages = {f"replayed/{t}.html" for t in STAGES["replayed"]}
    assert pages <= set(first[1])


def test_validating_a_published_day_keeps_what_it_has_of_all_stages(tmp_path: Path) -> None:
    (day,) = audited(tmp_path, DAYS[:1])
    for stage in ("replayed", "judged"):
        with suppress(DataQualityError):
            validate_tables(day, stage)
    names = {path.name for path in day.output_dir("data_quality").iterdir()}
    assert names == {"judged.json", "replayed.json"}
    assert {"judged", "replayed"} <= {path.name for path in day.output_dir("data_docs").iterdir()}
    # Of files for people the run records nothing: the day is as it was written all the same.
    assert examine(tmp_path) == Examination(1, ())


def test_nothing_is_sent_anywhere(scope: RunScope, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: asked.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: asked.append(address) or [])
    validate_tables(scope, "judged")
    assert asked == []


@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [("under_throttled", 0, "validated judged"), ("odd", 1, "error: The data is bad")],
)
def test_the_command_exits_with_1_where_the_data_is_bad(
    scope: RunScope,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    code: int,
    says: str,
) -> None:
    write_rows(scope, "findings", [row("findings", kind=kind)])
    options = ["--warehouse", str(scope.warehouse), "--day", str(scope.day)]
    monkeypatch.setattr(sys, "argv", ["quota-audit", "validate", "judged", *options])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert (caught.value.code or 0) == code
    assert says in "".join(capsys.readouterr())
