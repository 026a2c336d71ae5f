"""The files of an archive in a bucket are found and read as those of a folder are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import clusters_of, find_archive
from spark_jobs.ingest.archived_file import read_small_text
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks
from spark_jobs.ingest.read_logs import FileReport, with_changes
from spark_jobs.ingest.read_quota_sources import known_quotas
from spark_jobs.warehouse.storage import storage_path
from tests.object_storage.moto_server import ObjectStorage

LINES = b"".join(b"line %d\n" % number for number in range(200_000))
SNAPSHOT = "Quota configs for user-principal 'alice' are producer_byte_rate=1000.0\n"
PACKED = {
    "": LINES,
    ".gz": gzip.compress(LINES, 1),
    ".zst": zstandard.compress(LINES),
}


@pytest.fixture
def archive(bucket: str, request: pytest.FixtureRequest) -> Path:
    return storage_path(f"s3://{bucket}/{request.node.name}")


@pytest.mark.parametrize("suffix", PACKED)
def test_a_log_is_read_whole_whatever_it_is_packed_with(archive: Path, suffix: str) -> None:
    log = archive / f"kafka-request.log{suffix}"
    log.write_bytes(PACKED[suffix])
    assert b"".join(line_blocks(log)) == LINES


def test_a_log_that_is_cut_is_told_of_behind_its_last_line(archive: Path) -> None:
    log = archive / "kafka-request.log.gz"
    log.write_bytes(PACKED[".gz"][:100_000])
    with pytest.raises(TruncatedFileError):
        list(line_blocks(log))


def test_a_log_of_which_a_part_cannot_be_had_is_not_taken_for_one_that_is_cut(
    storage: ObjectStorage, archive: Path
) -> None:
    log = archive / "kafka-request.log"
    log.write_bytes(LINES * 10)
    blocks = line_blocks(log)
    next(blocks)
    with storage.refusing(), pytest.raises(BadInputError, match=r"read to a part: .* refuses"):
        list(blocks)
    with storage.refusing(), pytest.raises(BadInputError, match=r"cannot be opened: .* refuses"):
        list(line_blocks(log))
    with pytest.raises(BadInputError, match="is gone"):
        list(line_blocks(archive / "other.log"))


def test_the_files_of_a_cluster_are_found(archive: Path) -> None:
    for cluster, broker in (("east", 1), ("east", 2), ("west", 1)):
        folder = archive / f"cluster={cluster}" / f"broker={broker}"
        (folder / "hour=07" / "kafka-request.log.gz").write_bytes(PACKED[".gz"])
        (folder / "server.log").write_bytes(b"x\n")
    (archive / "cluster=east" / "kafka-version.txt").write_bytes(b"4.1.0\n")
    (archive / "cluster=east" / "quota-snapshot.txt").write_bytes(SNAPSHOT.encode())
    assert clusters_of(archive) == ("east", "west")
    found = find_archive(archive, "east")
    assert [log.source_file for log in found.request_logs] == [
        f"cluster=east/broker={broker}/hour=07/kafka-request.log.gz" for broker in (1, 2)
    ]
    assert [log.broker_id for log in found.server_logs] == [1, 2]
    assert {log.size_bytes for log in found.request_logs} == {len(PACKED[".gz"])}
    assert found.kafka_version == "4.1.0"
    assert [read_small_text(snapshot) for snapshot in found.snapshots] == [SNAPSHOT]


def test_a_snapshot_given_as_a_file_is_read_beside_an_archive_in_a_bucket(
    archive: Path, tmp_path: Path
) -> None:
    (archive / "broker=1" / "kafka-request.log").write_bytes(LINES)
    (archive / "quota-snapshot.txt").write_bytes(SNAPSHOT.encode())
    other = tmp_path / "mine.txt"
    other.write_text(SNAPSHOT.replace("alice", "bob"))
    options = IngestOptions.of(snapshots=[other])
    known = known_quotas(find_archive(archive, "default"), options, [], [1], 0)
    assert [(row["quota_user"], row["source_file"]) for row in known.rows] == [
        ("bob", "mine.txt"), ("alice", "quota-snapshot.txt")
    ]  # fmt: skip


def test_a_place_without_logs_is_no_archive(archive: Path) -> None:
    with pytest.raises(BadInputError, match="is not a folder"):
        find_archive(archive, "default")
    (archive / "x.txt").write_bytes(b"")
    with pytest.raises(BadInputError, match="No request log found under s3://"):
        find_archive(archive, "default")


def test_a_log_that_was_replaced_while_it_was_read_is_refused(archive: Path) -> None:
    log = archive / "broker=1" / "kafka-request.log"
    log.write_bytes(LINES)
    (found,) = find_archive(archive, "default").request_logs
    report = FileReport(found.source_file, 1, found.size_bytes)
    assert with_changes(report, found).refused is None
    log.write_bytes(LINES[:100])
    assert "was replaced or rewritten" in (with_changes(report, found).refused or "")
