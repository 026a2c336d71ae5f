"""The whole audit over the bundled capture, once, and what must hold of its tables."""

from __future__ import annotations

import collections
import gzip
import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_jobs.cli.app import app, main
from spark_jobs.cli.print_profiles import print_profiles
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import TABLES

pytestmark = pytest.mark.spark
EXAMPLE = Path(__file__).parents[3] / "examples" / "capture"
REPLAYED_TABLES = ("decisions", "rates", "quota_state", "findings", "requests", "quota_changes")


def audit(spark: SparkSession, archive: Path, warehouse: Path) -> RunScope:
    """Run the Spark steps of an audit and return its (only) day."""
    report = ingest_requests(
        spark, find_archive(archive, "default"), warehouse, None, IngestOptions.of()
    )
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    judge_decisions(lambda: spark, scope)
    return scope


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    return audit(spark, EXAMPLE, tmp_path_factory.mktemp("warehouse"))


def logged_lines() -> list[tuple[int, dict]]:
    lines = []
    for path in sorted(EXAMPLE.glob("broker=*/kafka-request.log*")):
        with gzip.open(path, "rt") as stream:
            for line in stream:
                start = line.index("{")
                body = json.loads(line[start : line.rindex("}") + 1])
                lines.append((int(path.parent.name.partition("=")[2]), body))
    return lines


def test_every_line_of_the_capture_is_a_request(audited: RunScope) -> None:
    files = read_table(audited, "files").to_pylist()
    lines = collections.Counter(broker for broker, _ in logged_lines())
    assert {f["broker_id"]: f["requests"] for f in files} == lines
    assert sum(f["quarantined"] for f in files) == 0


def test_every_produce_has_exactly_one_bandwidth_decision_once_quotas_exist(
    audited: RunScope,
) -> None:
    decisions = read_table(audited, "decisions").filter(
        pc.field("quota_type") == "producer_byte_rate"
    )
    keys = collections.Counter(
        zip(
            decisions["broker_id"].to_pylist(),
            decisions["connection"].to_pylist(),
            decisions["correlation_id"].to_pylist(),
            strict=True,
        )
    )
    assert set(keys.values()) == {1}
    first_ms = pc.min(decisions["log_time_ms"]).as_py()
    produces = {
        (broker, j["connection"], j["requestHeader"]["correlationId"])
        for broker, j in logged_lines()
        if j["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    }
    assert set(keys) <= produces
    requests = read_table(audited, "requests").filter(
        (pc.field("api_name") == "PRODUCE") & (pc.field("log_time_ms") > first_ms + 1000)
    )
    assert requests.num_rows > 1000
    later = zip(
        requests["broker_id"].to_pylist(),
        requests["connection"].to_pylist(),
        requests["correlation_id"].to_pylist(),
        strict=True,
    )
    assert set(later) <= set(keys)


def test_the_replay_agrees_with_the_broker(audited: RunScope) -> None:
    decisions = read_table(audited, "decisions").filter(
        (pc.field("quota_type") == "producer_byte_rate")
        & pc.is_valid(pc.field("bound"))
        & (pc.field("reason").is_null() | (pc.field("reason") != "request_quota_interval"))
    )
    logged = decisions["logged_throttle_time_ms"].to_numpy() > 0
    replayed = decisions["replayed_throttle_time_ms"].to_numpy() > 0
    assert logged.sum() > 50
    assert (logged == replayed).mean() >= 0.99


def test_nothing_is_called_wrong_on_an_untouched_capture(audited: RunScope) -> None:
    decisions = read_table(audited, "decisions")
    wrong = decisions.filter(pc.field("verdict").isin(WRONG_VERDICTS))
    assert wrong.num_rows == 0, wrong.slice(0, 5).to_pylist()
    assert read_table(audited, "findings").num_rows == 0


def test_a_refused_mutation_is_refused_by_the_replay_too(audited: RunScope) -> None:
    mutations = read_table(audited, "decisions").filter(
        pc.field("quota_type") == "controller_mutation_rate"
    )
    logged = mutations["logged_admitted"].to_pylist()
    assert logged.count(False) >= 3
    assert logged == mutations["replayed_admitted"].to_pylist()


def test_throttles_follow_from_the_stored_inputs_alone(audited: RunScope) -> None:
    """Anyone can recompute: record and measure each sensor's amounts in sensor_seq order."""
    rows = read_table(audited, "decisions").to_pylist()
    sensors = collections.defaultdict(list)
    for row in rows:
        if row["quota_type"] == "producer_byte_rate":
            key = (row["broker_id"], row["quota_user"], row["quota_client_id"], row["sensor_epoch"])
            sensors[key].append(row)
    checked = 0
    for sensor in sensors.values():
        rate = Rate(RateProfile.RATE_3_8)
        for row in sorted(sensor, key=lambda r: r["sensor_seq"]):
            now_ms = row["recorded_at_ms"]
            rate.record(row["amount"], now_ms)
            measured = rate.measure(now_ms)
            if row["bound"] is not None:
                over = measured > row["bound"]
                expected = (
                    throttle_time_ms(measured, row["bound"], rate.window_size_ms(now_ms))
                    if over
                    else 0
                )
                assert row["replayed_throttle_time_ms"] == expected
                checked += 1
    assert checked > 1000


def test_record_times_lie_within_the_requests_phases(audited: RunScope) -> None:
    requests = read_table(audited, "requests")
    at_ms = pc.divide(requests["recorded_estimate_us"], 1000)
    assert pc.all(pc.less_equal(requests["recorded_earliest_ms"], at_ms)).as_py()
    assert pc.all(pc.less_equal(at_ms, requests["recorded_latest_ms"])).as_py()


def test_a_second_run_gives_the_same_rows_and_leaves_other_days_alone(
    spark: SparkSession, audited: RunScope
) -> None:
    other = audited.plain_dir("decisions").parent / "date=2020-01-01"
    shutil.copytree(audited.partition_dir("decisions"), other)
    before = {t: table_digest(read_table(audited, t)) for t in REPLAYED_TABLES}
    other_before = sorted((p.name, p.read_bytes()) for p in other.iterdir())
    audit(spark, EXAMPLE, audited.warehouse)
    assert {t: table_digest(read_table(audited, t)) for t in REPLAYED_TABLES} == before
    assert sorted((p.name, p.read_bytes()) for p in other.iterdir()) == other_before
    shutil.rmtree(other)


def test_the_rates_add_up_to_the_decisions(audited: RunScope) -> None:
    rates, decisions = read_table(audited, "rates"), read_table(audited, "decisions")
    recorded = decisions.filter(~pc.field("is_unrecorded"))
    assert pc.sum(rates["amount"]).as_py() == pytest.approx(pc.sum(recorded["amount"]).as_py())
    assert (
        pc.sum(rates["throttle_time_ms"]).as_py()
        == pc.sum(decisions["logged_throttle_time_ms"]).as_py()
    )


def test_the_rates_of_a_file_are_in_order_of_sensor_and_time(audited: RunScope) -> None:
    order = ["broker_id", "quota_type", "quota_user", "quota_client_id", "second_ms"]
    files = sorted(audited.partition_dir("rates").glob("*.parquet"))
    assert files
    for file in files:
        rows = pq.read_table(file)
        assert rows.sort_by([(name, "ascending") for name in order]).equals(rows)


def test_every_table_has_the_contracts_columns(audited: RunScope) -> None:
    for table in ("requests", "decisions", "rates", "quota_state", "files", "brokers"):
        rows = read_table(audited, table)
        assert rows.schema.equals(TABLES[table])
        assert rows.num_rows > 0
    assert days_of(audited.warehouse, "default") == [audited.day]


def test_days_prints_the_days_of_an_archive() -> None:
    result = CliRunner().invoke(app, ["days", str(EXAMPLE)])
    assert result.exit_code == 0
    assert result.stdout.split() == sorted(result.stdout.split())
    assert len(result.stdout.split()) == 1


def test_which_quota_answers_for_a_client(audited: RunScope) -> None:
    changes = read_table(audited, "quota_changes").to_pylist()
    named = next(c for c in changes if c["quota_user"] not in (None, "<default>"))
    arguments = ["--warehouse", str(audited.warehouse), "--user", named["quota_user"]]
    arguments += ["--client-id", named["quota_client_id"] or "any", "--broker", "1"]
    result = CliRunner().invoke(app, ["which-quota", *arguments])
    assert result.exit_code == 0, result.output
    assert named["quota_type"] in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no-such-folder", "--warehouse", "w"],
        ["ingest", str(EXAMPLE), "--warehouse", "w", "--timezone", "Mars/Olympus"],
        ["ingest", str(EXAMPLE), "--warehouse", "w", "--broker-version", "four"],
        ["replay", "--warehouse", "w"],
        ["nonsense"],
    ],
)
def test_bad_usage_exits_with_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["quota-audit", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.strip()


def test_an_archive_of_empty_files_is_an_error_not_an_empty_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "archive" / "broker=1" / "kafka-request.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    with pytest.raises(BadInputError, match="No request was read"):
        ingest_requests(
            spark, find_archive(tmp_path / "archive", "default"), tmp_path, None, IngestOptions.of()
        )


def test_broken_lines_are_quarantined_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    source = sorted(EXAMPLE.glob("broker=1/kafka-request.log*"))[0]
    lines = gzip.decompress(source.read_bytes()).decode().splitlines()[:200]
    lines[10] = lines[10][:80]
    lines[20] = "java.lang.IllegalStateException: not a log line"
    lines[30] = lines[30][:100] + lines[31]
    log = tmp_path / "archive" / "broker=1" / "kafka-request.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(lines) + "\n")
    report = ingest_requests(
        spark, find_archive(tmp_path / "archive", "default"), tmp_path / "w", None,
        IngestOptions.of(broker_version="4.1.0"),
    )  # fmt: skip
    assert (report.lines_read, report.requests, report.quarantined) == (200, 197, 3)
    scope = RunScope(tmp_path / "w", "default", report.days[0])
    rows = sorted(read_table(scope, "quarantine").to_pylist(), key=lambda r: r["source_line"])
    assert [r["source_line"] for r in rows] == [11, 21, 31]


def test_a_truncated_file_is_audited_up_to_the_cut_and_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = sorted(EXAMPLE.glob("broker=1/kafka-request.log*"))[0]
    log = tmp_path / "archive" / "broker=1" / "kafka-request.log.gz"
    log.parent.mkdir(parents=True)
    packed = source.read_bytes()
    log.write_bytes(packed[: len(packed) // 2])
    report = ingest_requests(
        spark, find_archive(tmp_path / "archive", "default"), tmp_path / "w", None,
        IngestOptions.of(broker_version="4.1.0"),
    )  # fmt: skip
    assert report.requests > 100
    scope = RunScope(tmp_path / "w", "default", report.days[0])
    assert "unreadable_file" in read_table(scope, "quarantine")["reason"].to_pylist()


def test_an_archive_without_broker_folders_is_read_by_listener_address(
    spark: SparkSession, audited: RunScope, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    listeners = []
    for path in sorted(EXAMPLE.glob("broker=*/kafka-request.log*")):
        broker_id = path.parent.name.partition("=")[2]
        (archive / f"kafka-request.log.{broker_id}.gz").write_bytes(path.read_bytes())
        lines = [j for broker, j in logged_lines() if str(broker) == broker_id]
        addresses = {j["connection"].partition("-")[0] for j in lines}
        listeners += [f"{address}={broker_id}" for address in sorted(addresses)]
    report = ingest_requests(
        spark,
        find_archive(archive, "default"),
        tmp_path / "w",
        None,
        IngestOptions.of(broker_version="4.1.0", listeners=listeners),
    )
    assert report.quarantined == 0
    by_broker = collections.Counter(
        read_table(RunScope(tmp_path / "w", "default", report.days[0]), "requests", ["broker_id"])[
            "broker_id"
        ].to_pylist()
    )
    assert by_broker == collections.Counter(broker for broker, _ in logged_lines())


def test_without_a_version_the_profile_is_found_out_from_the_throttles(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    shutil.copytree(EXAMPLE, archive)
    (archive / "kafka-version.txt").unlink()
    scope = audit(spark, archive, tmp_path / "w")
    brokers = read_table(scope, "brokers").to_pylist()
    assert [(b["rate_profile"], b["version_source"]) for b in brokers] == [
        ("rate_3_8", "detected")
    ] * 2
    print_profiles(spark, scope)
    assert "broker 1 follows rate_3_8, broker 2 follows rate_3_8" in capsys.readouterr().out
