"""A broker that was restarted, with and without a server log that says so."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.broker_log import read_broker_log, read_starts
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

pytestmark = pytest.mark.spark

CAPTURE = Path(__file__).parents[2] / "golden" / "captures" / "kafka-3.7.2"
STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
LATER = dt.timedelta(minutes=5)
STAMP_FORMAT = "%Y-%m-%d %H:%M:%S,%f"


def later(lines: bytes) -> bytes:
    """Return a broker's lines as those of a second life, with connections of its own."""

    def move(found: re.Match[bytes]) -> bytes:
        moment = dt.datetime.strptime(found[1].decode(), STAMP_FORMAT) + LATER
        return f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}]".encode()

    return STAMP.sub(move, lines).replace(b"-127.0.0.1:", b"-127.0.0.2:")


def lived_twice(folder: Path) -> tuple[Path, str]:
    """Write the archive of two lives; return it and when broker 1 logs that its second began."""
    begin = ""
    for log in sorted(CAPTURE.glob("broker=*/kafka-request.log.gz")):
        target = folder / log.parent.name
        target.mkdir(parents=True)
        lines = gzip.decompress(log.read_bytes())
        (target / "kafka-request.log.1").write_bytes(lines)
        (target / "kafka-request.log").write_bytes(later(lines))
        if target.name == "broker=1":
            first = STAMP.search(lines)
            assert first is not None
            moment = dt.datetime.strptime(first[1].decode(), STAMP_FORMAT) + LATER / 2
            begin = f"{moment:%Y-%m-%d %H:%M:%S},000"
            server_log = gzip.decompress((log.parent / "server.log.gz").read_bytes()).decode()
            started = f"[{begin}] INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)\n"
            (target / "server.log").write_text(server_log + started)
    return folder, begin


@pytest.fixture(scope="module")
def restarted(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunScope, int]:
    archive, begin = lived_twice(tmp_path_factory.mktemp("lived-twice"))
    warehouse = tmp_path_factory.mktemp("warehouse")
    options = IngestOptions.of(broker_version="3.7.2")
    report = ingest_requests(spark, find_archive(archive, "default"), warehouse, None, options)
    (day,) = report.days
    scope = RunScope(warehouse, "default", day)
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    moment = dt.datetime.strptime(begin, STAMP_FORMAT).replace(tzinfo=dt.UTC)
    return scope, round(moment.timestamp() * 1000)


def test_one_broker_logs_its_start_and_the_other_shows_it(
    restarted: tuple[RunScope, int],
) -> None:
    scope, logged_ms = restarted
    starts = sorted(read_starts(scope), key=lambda row: (row["broker_id"], row["started_ms"]))
    logged, first, inferred = starts
    assert (logged["broker_id"], logged["source"]) == (1, "server_log")
    assert logged["started_ms"] == logged_ms
    assert logged["evidence"].startswith("INFO [KafkaServer id=1] starting")
    assert (inferred["broker_id"], inferred["source"]) == (2, "inferred")
    # What its first life began with is in the log, too.
    assert (first["broker_id"], first["source"]) == (2, "inferred")
    assert json.loads(first["evidence"])["is_first_of_log"]
    first_ms = min(
        row["recorded_earliest_ms"]
        for row in read_table(scope, "requests").to_pylist()
        if row["broker_id"] == 2 and "-127.0.0.2:" in row["connection"]
    )
    assert inferred["started_ms"] == first_ms
    assert "-127.0.0.2:" in json.loads(inferred["evidence"])["numbered_anew"]


def test_every_sensor_begins_its_second_epoch_with_the_second_life(
    restarted: tuple[RunScope, int],
) -> None:
    epochs: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in read_table(restarted[0], "decisions").to_pylist():
        sensor = (row["broker_id"], row["quota_type"], row["quota_user"], row["quota_client_id"])
        is_second = "-127.0.0.2:" in row["connection"]
        epochs[sensor][row["sensor_epoch"]].append(row | {"is_second": is_second})
    lived_on = [by_epoch for by_epoch in epochs.values() if len(by_epoch) == 2]
    assert {row["broker_id"] for by in lived_on for row in by[1]} == {1, 2}
    for by_epoch in epochs.values():
        for rows in by_epoch.values():
            assert len({row["is_second"] for row in rows}) == 1
            assert sorted(row["sensor_seq"] for row in rows) == list(range(len(rows)))


def test_throttled_requests_of_the_broker_with_a_server_log_have_its_own_millisecond(
    restarted: tuple[RunScope, int],
) -> None:
    scope, _ = restarted
    records = read_table(scope, "throttle_records")
    assert set(records["broker_id"].to_pylist()) == {1}
    expected = gzip.decompress((CAPTURE / "broker=1" / "server.log.gz").read_bytes())
    assert records.num_rows == expected.count(b"Quota violated for sensor (") > 0
    held = read_broker_log(scope).records
    assert sum(len(stamps) for stamps, _ in held.values()) == records.num_rows
    assert pc.min(records["throttle_time_ms"]).as_py() > 0
