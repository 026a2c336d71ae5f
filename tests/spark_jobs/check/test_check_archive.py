"""What `quota-audit check` says of archives as people have them, good ones and poor ones."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_jobs.check import check_archive as checking
from spark_jobs.cli.app import app
from spark_jobs.cli.keep import NOTHING_TO_AUDIT
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.archive_days import day_options
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.line_mutations import bent_lines, real_lines
from tests.builders.log_lines import log_line, message, text_line

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "capture"
GOLDEN = ROOT / "tests" / "golden"
SNAPSHOT = "Quota configs for user-principal 'alice' are producer_byte_rate=1000.0\n"


def put(archive: Path, name: str, data: bytes) -> Path:
    file = archive / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def lines_of(broker: int, capture: Path = EXAMPLE) -> bytes:
    return gzip.decompress((capture / f"broker={broker}/kafka-request.log.gz").read_bytes())


def checked(archive: Path, *options: str) -> tuple[dict[str, Any], int]:
    """Return the check as JSON, and the exit code."""
    ran = CliRunner().invoke(app, ["check", str(archive), "--json", *options])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return json.loads(ran.stdout), ran.exit_code


def page(archive: Path, *options: str) -> str:
    return CliRunner().invoke(app, ["check", str(archive), *options]).stdout


def said(check: dict[str, Any], weight: str = "") -> str:
    """Return what is missing, of one weight or of all."""
    found = [m for m in check["missing"] if weight in ("", m["weight"])]
    return "\n".join(f"{m['what']} → {m['do']}" for m in found)


@pytest.mark.spark
@pytest.mark.parametrize(
    "capture", [EXAMPLE, GOLDEN / "captures/kafka-3.3.2", GOLDEN / "captures/kafka-3.7.2"]
)
def test_a_check_counts_what_an_ingest_counts(
    spark: SparkSession, tmp_path: Path, capture: Path
) -> None:
    check, code = checked(capture)
    report = ingest_requests(
        spark, find_archive(capture, "default"), tmp_path, None, IngestOptions.of()
    )
    assert code == 0
    assert check["looked_at"]["every_line"]
    assert check["looked_at"]["lines"] == report.lines_read
    assert check["looked_at"]["requests"] == report.requests
    assert sum(check["looked_at"]["quarantined"].values()) == report.quarantined
    assert check["audit"]["days"] == len(report.days)
    scope = RunScope(tmp_path, "default", report.days[0])
    files = {f["source_file"]: f["requests"] for f in read_table(scope, "files").to_pylist()}
    assert {f["source_file"]: f["requests"] for f in check["request_logs"]} == files
    rows = read_table(scope, "requests").to_pylist()
    apis = {api for of in check["listeners"] for api in of["requests"]}
    assert apis == {row["api_name"] for row in rows}
    assert sum(sum(of["requests"].values()) for of in check["listeners"]) == len(rows)
    sources = [row["source"] for row in read_table(scope, "quota_events").to_pylist()]
    assert check["beside"]["quota_events"] == {s: sources.count(s) for s in set(sources)}
    lost: dict[str, int] = {}
    for gap in read_table(scope, "log_gaps").to_pylist():
        lost[gap["cause"]] = lost.get(gap["cause"], 0) + gap["missing"]
    assert check["lost_requests"] == lost
    throttles = read_table(scope, "throttle_records").num_rows
    assert check["beside"]["throttle_records"] == throttles


@pytest.mark.spark
def test_a_check_of_broken_lines_counts_what_an_ingest_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, chance = tmp_path / "archive", random.Random(7)
    bent = []
    for number, line in enumerate(lines_of(1).splitlines()):
        if number % 50 == 0:
            line = line[: chance.randrange(len(line))]
        bent.append(line)
    bent[10:10] = [b"\xff\x00", b"", b"java.lang.Exception: x", b"\tat kafka.X"]
    put(archive, "broker=1/kafka-request.log", b"\n".join(bent))
    put(archive, "broker=1/copy/kafka-request.log.1", b"\n".join(bent))
    packed = gzip.compress(lines_of(2))
    put(archive, "broker=2/kafka-request.log.gz", packed[: len(packed) // 2])
    put(archive, "broker=3/kafka-request.log.zst", zstandard.compress(lines_of(2)[:-300]))
    put(archive, "broker=4/kafka-request.log", b"")
    report = ingest_requests(
        spark, find_archive(archive, "default"), tmp_path / "w", None, IngestOptions.of()
    )
    check, code = checked(archive)
    assert code == 0
    scope = RunScope(tmp_path / "w", "default", report.days[0])
    reasons = read_table(scope, "quarantine")["reason"].to_pylist()
    assert check["looked_at"]["quarantined"] == {r: reasons.count(r) for r in sorted(set(reasons))}
    assert check["looked_at"]["requests"] == report.requests
    copied = sum(f["duplicated"] for f in read_table(scope, "files").to_pylist())
    assert check["looked_at"]["lines"] == report.lines_read - copied
    assert "1 file with the lines of another" in said(check, "note")
    assert "1 file cut off: broker=2/kafka-request.log.gz" in said(check, "limits")
    assert "1 empty file: broker=4/kafka-request.log" in said(check, "note")


def test_the_example_can_be_audited_and_needs_a_snapshot() -> None:
    check, code = checked(EXAMPLE)
    assert (check["can_be_audited"], code) == (True, 0)
    assert said(check, "blocks") == ""
    assert "no snapshot of quotas" in said(check, "limits")
    assert check["clock"]["state"] == "not_told"
    listeners = {of["listener"]: of for of in check["listeners"]}
    assert listeners["CONTROLLER"]["is_controllers"]
    assert listeners["SASL_PLAINTEXT"]["security_protocols"] == ["SASL_PLAINTEXT"]
    assert check["beside"]["ignored_files"] == ["scenario.txt"]
    quotas = {q["quota_type"]: q for q in check["quotas"]}
    assert quotas["producer_byte_rate"]["auditable"] == quotas["producer_byte_rate"]["requests"]


def test_the_page_fits_a_terminal_and_begins_with_the_answer() -> None:
    lines = page(EXAMPLE).splitlines()
    assert lines[0].endswith("cluster default: can be audited")
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 55


def test_a_name_that_a_terminal_would_obey_is_shown_as_text_on_the_page(tmp_path: Path) -> None:
    hostile = "\x1b[31mRED\x1b[0m\u202e" + "x" * 500
    line = log_line(message(listener=hostile, principal=f"User:{hostile}"))
    put(tmp_path, "broker=1/kafka-request.log", line + b"\n")
    put(tmp_path, "\x1b[31mname", b"x")
    shown = page(tmp_path)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[31mRED" in shown
    assert len(shown) < 5_000


def test_a_check_needs_no_spark_and_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", lines_of(1))
    before = sorted(tmp_path.rglob("*"))
    code = (
        "import sys\nfrom pathlib import Path\nfrom spark_jobs.cli.keep import check\n"
        f"check(Path({str(tmp_path)!r}))\n"
        "assert not {'pyspark', 'airflow', 'great_expectations'} & set(sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_request_log_nothing_can_be_audited(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/server.log", b"[2026-11-21 07:42:18,248] INFO x (y)\n")
    put(tmp_path, "broker=1/requests.log", lines_of(1)[:5000])
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "other files are broker=1/requests.log" in said(check, "blocks")
    assert "cannot be audited" in " ".join(page(tmp_path).split())


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_jobs.cli", "check", str(tmp_path / "none")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 2
    assert "is not a folder" in ran.stderr


def test_files_of_no_broker_name_the_addresses_to_map(tmp_path: Path) -> None:
    put(tmp_path, "pod-a/kafka-request.log", log_line(message()) + b"\n")
    put(tmp_path, "quota-snapshot.txt", SNAPSHOT.encode())
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "--listener 127.0.0.1:9092=<id>" in said(check, "blocks")
    mapped, code = checked(tmp_path, "--listener", "127.0.0.1:9092=4")
    assert (code, mapped["looked_at"]["requests"]) == (0, 1)


def test_a_log_at_info_holds_only_deprecated_requests(tmp_path: Path) -> None:
    line = log_line(message()).replace(b"DEBUG", b"INFO")
    put(tmp_path, "broker=1/kafka-request.log", (line + b"\n") * 3)
    put(tmp_path, "quota-snapshot.txt", SNAPSHOT.encode())
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "logged at INFO" in said(check, "blocks")
    put(tmp_path, "broker=1/kafka-request.log.1", log_line(message()) + b"\n")
    assert checked(tmp_path)[1] == 0


def test_a_log_of_other_loggers_asks_for_the_request_logger(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", b"[2026-11-21 07:42:18,248] INFO x (kafka.y)\n")
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "the logger stands above DEBUG" in said(check, "blocks")


@pytest.mark.parametrize("seed", range(4))
def test_bent_lines_are_counted_as_an_ingest_counts_them(tmp_path: Path, seed: int) -> None:
    bent = [one.line for one in bent_lines(random.Random(seed), 400, real_lines())]
    put(tmp_path, "archive/broker=1/kafka-request.log", b"\n".join(bent))
    archive = find_archive(tmp_path / "archive", "default")
    (tmp_path / "parts").mkdir()
    task = ReadTask(day_options(archive, "UTC", None), tmp_path / "parts", None)
    report = read_log_file(archive.request_logs[0], task)
    check, _ = checked(tmp_path / "archive")
    assert check["looked_at"]["lines"] == report.lines_read
    assert check["looked_at"]["other"] == report.other
    counts: dict[str, int] = {}
    for count in report.counts:
        name = count.reason or "requests"
        counts[name] = counts.get(name, 0) + count.rows
    assert check["looked_at"]["requests"] == counts.pop("requests", 0)
    assert check["looked_at"]["quarantined"] == counts
    assert page(tmp_path / "archive")


def test_a_damaged_stamp_makes_no_map_of_centuries(tmp_path: Path) -> None:
    put(tmp_path, "quota-snapshot.txt", SNAPSHOT.encode())
    stamps = ["2026-11-21 02:40:47,903", "1982-11-21 02:40:47,903", "2026-11-21 04:40:47,903"]
    lines = b"\n".join(log_line(message(), stamp) for stamp in stamps)
    put(tmp_path, "broker=1/kafka-request.log", lines)
    check, code = checked(tmp_path)
    assert code == 0
    assert len(check["hours"][0]["seen"]) == 2
    assert "1 request a year or more from most others" in said(check, "limits")
    assert "broker 1   #.#\n" in page(tmp_path)


def test_a_listener_that_is_configured_and_silent_is_told(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", log_line(message()) + b"\n")
    listeners = b"listeners=PLAINTEXT://:9092,internal://:9093\n"
    put(tmp_path, "broker=1/server.properties", listeners)
    check, _ = checked(tmp_path)
    assert "a listener that is configured: INTERNAL of broker 1" in said(check, "note")


def test_garbage_is_told_and_never_raises(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", random.Random(1).randbytes(100_000))
    put(tmp_path, "broker=1/kafka-request.log.gz", b"this is no gzip")
    put(tmp_path, "broker=1/kafka-request.log.zst", b"")
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "no line of a Kafka log (foreign)" in said(check)
    assert "1 file cut off: broker=1/kafka-request.log.gz" in said(check)


def test_a_quota_of_nobody_cannot_be_audited(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", log_line(message()) + b"\n")
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "no quota value" in said(check, "blocks")
    snapshot = put(tmp_path, "quotas.txt", SNAPSHOT.encode())
    assert checked(tmp_path, "--snapshot", str(snapshot))[1] == 0


def test_text_logs_at_debug_have_no_produce_sizes(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", text_line() + b"\n")
    put(
        tmp_path,
        "quota-snapshot.txt",
        SNAPSHOT.replace("are", "are request_percentage=9.0,").encode(),
    )
    check, code = checked(tmp_path)
    assert code == 0  # its request time can be
    assert "set kafka.request.logger to TRACE" in said(check, "limits")
    assert check["request_logs"][0]["formats"] == {"text": 1}


def test_what_an_ingest_refuses_cannot_be_audited_as_it_is(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", lines_of(1))
    put(tmp_path, "quota-snapshot.txt", b"nonsense\n")
    put(tmp_path, "broker=1/server.properties", b"client.quota.callback.class=com.example.Own\n")
    check, code = checked(tmp_path)
    assert code == NOTHING_TO_AUDIT
    assert "quota-snapshot.txt" in said(check, "blocks")
    assert "com.example.Own" in said(check, "blocks")
    assert check["beside"]["quota_events"]["log"] > 0


def test_missing_hours_show_in_the_map(tmp_path: Path) -> None:
    for hour in (3, 4, 5):
        lines = lines_of(1)[:20_000].replace(b"[2026-11-21 07:", b"[2026-11-21 %02d:" % hour)
        put(tmp_path, f"broker=1/kafka-request.log.{hour}", lines)
        if hour != 4:
            put(tmp_path, f"broker=2/kafka-request.log.{hour}", lines)
    check, _ = checked(tmp_path)
    assert "broker 2: no line of 1 hour" in said(check, "limits")
    assert check["hours"][1]["missing"] == [
        ["2026-11-21T04:00:00.000Z", "2026-11-21T05:00:00.000Z"]
    ]
    shown = page(tmp_path)
    assert "broker 1   ###\n" in shown
    assert "broker 2   #.#\n" in shown


def test_the_zone_moves_hours_and_days(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", lines_of(1))
    check, _ = checked(tmp_path, "--timezone", "Pacific/Kiritimati")
    assert check["looked_at"]["first"].startswith("2026-11-20T17:")


def test_brokers_of_different_zones_are_told(tmp_path: Path) -> None:
    late = lines_of(1).replace(b"[2026-11-21 07:", b"[2026-11-21 09:")
    put(tmp_path, "broker=1/kafka-request.log", late)
    put(tmp_path, "broker=2/kafka-request.log", lines_of(2))
    check, _ = checked(tmp_path)
    assert check["clock"]["state"] == "mixed"
    assert "different zones do not fit into one audit" in said(check, "limits")


def test_files_written_with_their_last_line_tell_the_zone(tmp_path: Path) -> None:
    for hour in (3, 4, 5):
        lines = lines_of(1).replace(b"[2026-11-21 07:", b"[2026-11-21 %02d:" % hour)
        file = put(tmp_path, f"broker=1/kafka-request.log.{hour}", lines)
        # The last line is of 07:43:20.454 in the example.
        os.utime(
            file, (1_795_247_000 - (7 - hour) * 3600 - 3600, 1_795_247_000 - (8 - hour) * 3600)
        )
    check, _ = checked(tmp_path)
    assert check["clock"]["ahead_minutes"] == [{"broker_id": 1, "minutes": 60}]
    assert "such as Europe/Berlin" in said(check, "limits")
    assert checked(tmp_path, "--timezone", "Europe/Berlin")[0]["clock"]["state"] == "agrees"


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SAMPLE_BYTES", 600_000)


@pytest.mark.usefixtures("small_samples")
def test_of_a_large_archive_parts_are_read_and_the_page_says_which(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", lines_of(1))
    put(tmp_path, "broker=2/kafka-request.log.gz", gzip.compress(lines_of(2)))
    put(tmp_path, "broker=2/kafka-request.log.1", b"\n".join(lines_of(2).split(b"\n", 3)[:3]))
    whole, _ = checked(tmp_path, "--all")
    check, code = checked(tmp_path)
    assert code == 0
    assert not check["looked_at"]["every_line"]
    assert check["looked_at"]["unpacked_bytes"] < 800_000
    assert check["looked_at"]["quarantined"] == {}
    assert check["lost_requests"] is None
    assert check["audit"]["requests"] == pytest.approx(whole["audit"]["requests"], rel=0.25)
    assert check["audit"]["unpacked_bytes"] == pytest.approx(
        whole["audit"]["unpacked_bytes"], rel=0.25
    )
    shown = " ".join(page(tmp_path).split())
    assert (
        "of 3 request logs all of 1, beginning, middle and end of 1, only the beginning of 1 "
        "(packed)" in shown
    )


@pytest.mark.usefixtures("small_samples")
def test_the_pieces_of_a_file_are_whole_lines_of_its_begin_and_end(tmp_path: Path) -> None:
    put(tmp_path, "broker=1/kafka-request.log", lines_of(1))
    check, _ = checked(tmp_path)
    whole, _ = checked(tmp_path, "--all")
    assert check["looked_at"]["first"] == whole["looked_at"]["first"]
    assert check["looked_at"]["last"] == whole["looked_at"]["last"]
    assert check["looked_at"]["requests"] == check["looked_at"]["lines"]


def test_of_very_many_files_some_are_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "FILES_MAX", 3)
    lines = lines_of(1)
    for hour in range(10):
        at = lines[:50_000].replace(b"[2026-11-21 07:", b"[2026-11-21 %02d:" % hour)
        put(tmp_path, f"broker=1/kafka-request.log.{hour}", at)
    check, _ = checked(tmp_path)
    assert check["looked_at"]["files_passed_by"] == 7
    assert check["hours"][0]["missing"] == []
    assert "nothing of 7" in " ".join(page(tmp_path).split())
