"""In the logs of real brokers and clients nothing is missing but what was taken out."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest import log_gaps
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import IngestReport, ingest_requests
from spark_jobs.ingest.log_gaps import ClientLoss, loss_sentences
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of

CAPTURE = Path(__file__).parents[2] / "golden" / "captures" / "kafka-3.7.2"


def with_lines_lost(folder: Path, share: float) -> Counter[tuple[str, str]]:
    """Copy the capture without a share of its produces and fetches; return how many, by client.

    Those that leave no gap, as no line of their client follows, stay.
    """
    chance, lost = random.Random(5), Counter[tuple[str, str]]()
    last: dict[tuple[str, str], int] = {}
    files = {}
    for log in sorted(CAPTURE.glob("broker=*/kafka-request.log.gz")):
        files[log.parent.name] = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        for line in files[log.parent.name]:
            client, number, _ = _request(line)
            last[client] = max(last.get(client, 0), number)
    for name, lines in files.items():
        kept = []
        for line in lines:
            client, number, api = _request(line)
            is_inner = api in ("PRODUCE", "FETCH") and 5 < number < last[client] - 5
            is_inner &= b'"CONTROLLER"' not in line
            if is_inner and chance.random() < share:
                lost[client] += 1
            else:
                kept.append(line)
        (folder / name).mkdir(parents=True)
        (folder / name / "kafka-request.log").write_bytes(b"".join(kept))
    return lost


def _request(line: bytes) -> tuple[tuple[str, str], int, str]:
    body = json.loads(line[line.index(b"{") : line.rindex(b"}") + 1])
    header = body["requestHeader"]
    client = (body["principal"].partition(":")[2], header["clientId"])
    return client, header["correlationId"], header["requestApiKeyName"]


def ingest(spark: SparkSession, archive: Path, warehouse: Path) -> IngestReport:
    options = IngestOptions.of(broker_version="3.7.2")
    return ingest_requests(spark, find_archive(archive, "default"), warehouse, None, options)


def gaps(warehouse: Path) -> list[dict[str, Any]]:
    (day,) = days_of(warehouse, "default")
    return read_table(RunScope(warehouse, "default", day), "log_gaps").to_pylist()


@pytest.mark.spark
def test_from_an_untouched_log_nothing_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    report = ingest(spark, CAPTURE, tmp_path)
    # Clients that were throttled when they went away had sent some more.
    assert {g["cause"] for g in gaps(tmp_path)} <= {"never_read"}
    assert "missing from the log" not in report.sentence()


@pytest.mark.spark
def test_what_was_lost_of_each_client_is_found(spark: SparkSession, tmp_path: Path) -> None:
    lost = with_lines_lost(tmp_path / "archive", 0.05)
    assert sum(lost.values()) > 30
    report = ingest(spark, tmp_path / "archive", tmp_path / "wh")
    found = Counter[tuple[str, str]]()
    for gap in gaps(tmp_path / "wh"):
        if gap["cause"] == "lost_lines":
            found[gap["user"], gap["client_id"]] += gap["missing"]
        assert gap["after_ms"] == min(p["after_ms"] for p in gap["places"])
        assert gap["before_ms"] == max(p["before_ms"] for p in gap["places"])
        assert gap["connection"] is None or gap["broker_id"] is not None
    assert found == lost
    assert f"{sum(lost.values())} requests (" in report.sentence()


@pytest.mark.spark
def test_a_connection_that_must_have_carried_it_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    with_lines_lost(tmp_path / "archive", 0.05)
    ingest(spark, tmp_path / "archive", tmp_path / "wh")
    replicas = [g for g in gaps(tmp_path / "wh") if g["client_id"] == "broker-1-fetcher-0"]
    assert replicas, "no fetch of a follower was lost"
    (day,) = days_of(tmp_path / "wh", "default")
    requests = read_table(RunScope(tmp_path / "wh", "default", day), "requests")
    (connection,) = {
        r["connection"] for r in requests.to_pylist() if r["client_id"] == "broker-1-fetcher-0"
    }
    assert {(g["broker_id"], g["connection"]) for g in replicas} == {(2, connection)}


@pytest.mark.spark
def test_a_client_with_very_many_lines_is_looked_at_by_address(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = with_lines_lost(tmp_path / "archive", 0.05)
    monkeypatch.setattr(log_gaps, "LINES_AT_ONCE_MAX", 100)
    ingest(spark, tmp_path / "archive", tmp_path / "wh")
    found = [g["missing"] for g in gaps(tmp_path / "wh") if g["cause"] == "lost_lines"]
    assert sum(found) == sum(lost.values())


def test_a_person_reads_how_much_is_missing_and_of_whom() -> None:
    losses = [
        ClientLoss("alice", "app", "lost_lines", 30),
        ClientLoss("bob", None, "lost_lines", 20),
        ClientLoss("carol", "x", "other_broker", 900),
    ]
    lost, elsewhere = loss_sentences(losses, requests=950)
    assert lost.startswith(
        "50 requests (5.00%) of 2 clients (alice/app 30, bob/ 20) are missing from the log"
    )
    assert "carol/x 900" in elsewhere
    assert loss_sentences([], requests=950) == []
