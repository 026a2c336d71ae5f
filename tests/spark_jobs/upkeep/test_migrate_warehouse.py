"""A warehouse of an earlier version is refused by name, migrated, and then read like any other."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from quota_pages.addresses import Addresses
from quota_pages.answers import Answers
from spark_jobs.apply.applied_changes import applied_rows
from spark_jobs.audit.due_days import due_days
from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile, find_archive
from spark_jobs.ingest.archive_days import days_of_log
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.publish.publish_report import publish_report
from spark_jobs.publish.read_facts import gather
from spark_jobs.replay.day_edges import handed_on
from spark_jobs.replay.mutations_of_day import handed_on_inventory, read_inventory
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.upkeep.migrate_warehouse import OWNER, migrate_days, older_days
from spark_jobs.warehouse.parquet import write_parquet
from spark_jobs.warehouse.read import older_tables, read_table
from spark_jobs.warehouse.scope import APPENDED, RunScope
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS, TABLES
from spark_jobs.warehouse.write import continued_draft, drafted_for
from tests.builders.shifted_capture import from_the_middle_to_midnight, shifted
from tests.builders.tables_builder import row, table_of
from tests.spark_jobs.upkeep.older_warehouse import DAY, KEPT, VERSIONS, older_day

UNCHANGED = sorted(t for t in TABLES if SCHEMA_VERSIONS[t] == 1 and t != "applied_changes")
PLACE = ["broker_id", "connection", "correlation_id", "quota_type", "resource"]


@pytest.fixture(params=VERSIONS)
def day(request: pytest.FixtureRequest, tmp_path: Path) -> RunScope:
    return older_day(request.param, tmp_path)


def migrated(day: RunScope) -> RunScope:
    migrate_days(day.warehouse, older_days(day.warehouse))
    return day


def files_of(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def asked(*arguments: str) -> str:
    ran = CliRunner().invoke(app, list(arguments))
    assert ran.exception is None, ran.output
    return ran.output


@pytest.mark.parametrize(
    "table",
    sorted(t for t, version in SCHEMA_VERSIONS.items() if version > 1 and t not in APPENDED),
)
def test_an_older_table_is_refused_with_the_versions_and_the_command(
    day: RunScope, table: str
) -> None:
    with pytest.raises(
        BadInputError,
        match=rf"table {table} of default 2026-11-21 has version 1 .* reads version 2: run "
        rf"'quota-audit migrate {day.warehouse}'",
    ):
        read_table(day, table)


def test_without_apply_the_days_and_tables_are_told_and_nothing_is_changed(day: RunScope) -> None:
    before = files_of(day.warehouse)
    said = asked("migrate", str(day.warehouse))
    older = "files 1 → 2, brokers 1 → 2, decisions 1 → 2, quota_state 1 → 2"
    assert f"default 2026-11-21: {older}" in said
    assert "Nothing is changed yet" in said
    assert files_of(day.warehouse) == before


def test_migrated_tables_are_read_and_all_others_are_as_they_were(day: RunScope) -> None:
    before = {table: read_table(day, table) for table in UNCHANGED}
    decisions = read_table(day, "decisions", of_any_version=True)
    assert "migrated default 2026-11-21" in asked("migrate", str(day.warehouse), "--apply")
    assert older_tables(day) == {}
    for table in UNCHANGED:
        assert read_table(day, table).equals(before[table]), table
    answered = read_table(day, "decisions")["answered_bytes"]
    assert answered.null_count == decisions.num_rows > 200
    migrated_rows = read_table(day, "decisions").select(decisions.column_names)
    assert migrated_rows.to_pylist() == decisions.to_pylist()
    assert read_table(day, "files")["days"].null_count in (0, 2)
    assert asked("migrate", str(day.warehouse)).startswith("Every table has the schema version")


def test_what_was_handed_on_is_what_the_older_version_would_have(day: RunScope) -> None:
    migrated(day)
    assert read_inventory(day).partitions
    assert handed_on_inventory(day).partitions == read_inventory(day).partitions
    assert len(handed_on(day)) == read_table(day, "quota_state").num_rows > 5


def test_every_reader_reads_a_migrated_day(day: RunScope) -> None:
    migrated(day)
    assert gather(day).verdicts.decided > 200
    assert publish_report(day).stat().st_size > 10_000
    warehouse = ("--warehouse", str(day.warehouse))
    for command in ("summary", "digest"):
        assert asked(command, *warehouse, "--day", str(DAY))
    assert asked("news", *warehouse).startswith("Kafka quotas, default on 2026-11-21")
    assert "producer_byte_rate" in asked(
        "which-quota", *warehouse, "--user", "alice", "--client-id", "orders-app", "--broker", "1"
    )
    assert "Throttle: " in asked(
        "explain", *warehouse, "--user", "alice", "--client-id", "orders-app", "--broker", "1",
        "--at", "23:59:59",
    )  # fmt: skip
    assert "The same log, and every decision is the same." in asked(
        "diff", f"{DAY}:previous", str(DAY), *warehouse
    )
    answers = Answers(day.warehouse, Addresses(""), "quota_audit_daily")
    assert answers.overview(None, None).status_code == 200
    assert answers.audit("default", DAY).status_code == 200


def read_here(logs: list[LogFile]) -> list[dict[dt.date, str]]:
    return [days_of_log(log, LogOptions("UTC", None, {})) for log in logs]


def test_a_day_is_due_while_its_tables_are_older_or_what_it_read_is_not_known(
    day: RunScope, tmp_path: Path
) -> None:
    archive = find_archive(shifted(tmp_path / "archive", from_the_middle_to_midnight()), "default")

    def reasons() -> dict[dt.date, str]:
        return {one.day: one.reason for one in due_days(archive, day.warehouse, read_here)}

    due = reasons()
    assert due[DAY + dt.timedelta(days=1)].startswith("not audited yet")
    assert "made by an older version: brokers 1, decisions 1, files 1 and 2 more" in due[DAY]
    migrated(day)
    is_noted = read_table(day, "files")["day_digest"].null_count == 0
    unknown = "an older version did not note what it read: broker=1/kafka-request.log, "
    assert reasons().get(DAY, unknown).startswith(unknown)
    assert (DAY in reasons()) is not is_noted


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("files", [0, 1, 3])
def test_a_migration_that_is_ended_shows_nothing_and_goes_on_later(
    day: RunScope, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, left = read_table(day, "files", of_any_version=True), iter(range(files))
    write = pq.write_table

    def write_some(*args: Any, **options: Any) -> None:
        if next(left, None) is None:
            raise Killed
        write(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", write_some)
        with pytest.raises(Killed):
            migrated(day)
    older = {"brokers", "decisions", "files", "quota_state", "topic_inventory"}
    assert set(older_tables(day)) == older
    assert read_table(day, "files", of_any_version=True).equals(before)
    with pytest.raises(BadInputError, match="is being audited by 'quota-audit migrate'"):
        continued_draft(day)
    migrated(day)
    assert older_tables(day) == {}
    drafted_for(day, OWNER)


def test_what_an_older_version_applied_is_read_and_migrated_a_file_at_a_time(
    day: RunScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated(day)
    scope = day.on(DAY + dt.timedelta(days=1))
    folder = scope.partition_dir("applied_changes")
    folder.mkdir(parents=True)
    for name in "ab":
        applied = table_of("applied_changes", [row("applied_changes", application_id=name)])
        older = applied.drop(["asked_by", "plan"])
        pq.write_table(older, folder / f"application-{name}.parquet")
    # Applied on that very day, after the upgrade.
    newer = row("applied_changes", application_id="c", asked_by="ada", plan="0123")
    table = table_of("applied_changes", [newer])
    write_parquet(table, "applied_changes", folder / "application-c.parquet")
    rows = applied_rows(scope.warehouse, scope.cluster)
    known = [(one["application_id"], one["asked_by"], one["plan"]) for one in rows]
    assert known == [("a", None, None), ("b", None, None), ("c", "ada", "0123")]
    with pytest.raises(BadInputError, match=r"table applied_changes .* has version 1"):
        read_table(scope, "applied_changes")
    (found,) = older_days(scope.warehouse)
    assert found.sentence() == f"default {scope.day}: applied_changes 1 → 2"
    write, left = pq.write_table, iter([True])

    def write_one(*args: Any, **options: Any) -> None:
        if next(left, None) is None:
            raise Killed
        write(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", write_one)
        with pytest.raises(Killed):
            migrated(day)
    assert older_days(scope.warehouse) == [found]
    migrated(day)
    assert older_days(scope.warehouse) == []
    assert read_table(scope, "applied_changes").to_pylist() == rows


def test_a_day_that_is_being_audited_is_not_migrated(day: RunScope) -> None:
    continued_draft(day)
    with pytest.raises(BadInputError, match="is being audited by single steps on the command line"):
        migrated(day)


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_the_next_day_goes_on_from_a_migrated_one_and_decides_as_the_older_version(
    spark: SparkSession, version: str, tmp_path: Path
) -> None:
    before = migrated(older_day(version, tmp_path))
    archive = find_archive(shifted(tmp_path / "archive", from_the_middle_to_midnight()), "default")
    options, next_day = IngestOptions.of(broker_version="3.7.2"), DAY + dt.timedelta(days=1)
    ingest_requests(spark, archive, before.warehouse, next_day, options)
    scope = RunScope(before.warehouse, "default", next_day)
    resolve_quotas(scope)
    replay_quotas(spark, scope)

    def decided(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {
            tuple(r[c] for c in PLACE): (r["verdict"], r["replayed_throttle_time_ms"]) for r in rows
        }

    now = decided(read_table(scope, "decisions").to_pylist())
    then = decided(pq.read_table(KEPT / version / "next_day.parquet").to_pylist())
    assert now.keys() == then.keys()
    assert len(now) > 400
    wrong = {"under_throttled", "over_throttled", "wrongly_admitted", "wrongly_refused"}
    assert not {place for place in now if now[place][0] in wrong}
    other = [(then[place], now[place]) for place in now if now[place] != then[place]]
    assert len(other) < 0.05 * len(now), other
