"""Links, pipes and odd names in an archive: nothing outside of it is read, nothing read twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import choose_cluster, find_archive
from spark_jobs.ingest.archived_file import TEXT_BYTES_MAX, read_small_text
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.read_quota_sources import known_quotas


def touch(path: Path, data: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def link(path: Path, target: Path | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def found(archive: Path, cluster: str = "default") -> list[tuple[str, int | None]]:
    logs = find_archive(archive, cluster).request_logs
    assert all(log.path.is_file() for log in logs)
    return [(log.source_file, log.broker_id) for log in logs]


def test_an_archive_may_itself_be_a_link_and_be_named_from_above(tmp_path: Path) -> None:
    touch(tmp_path / "store" / "broker=1" / "kafka-request.log")
    link(tmp_path / "logs", tmp_path / "store")
    expected = [("broker=1/kafka-request.log", 1)]
    assert found(tmp_path / "logs") == expected
    assert found(tmp_path / "logs" / ".." / "store") == expected


@pytest.mark.parametrize("where", ["../data/03", "/data/03"])
def test_linked_folders_and_files_within_the_archive_are_read_once(
    tmp_path: Path, where: str
) -> None:
    archive = tmp_path / "archive"
    touch(archive / "data" / "03" / "kafka-request.log")
    touch(archive / "data" / "blob-7")
    touch(archive / "broker=2" / "kafka-request.log.1")
    target = str(archive) + where if where.startswith("/") else where
    link(archive / "broker=1" / "03", target)
    link(archive / "broker=1" / "kafka-request.log.2", archive / "data" / "blob-7")
    link(archive / "broker=2" / "kafka-request.log", "kafka-request.log.1")
    link(archive / "again", archive)
    assert found(archive) == [
        ("broker=1/03/kafka-request.log", 1),
        ("broker=1/kafka-request.log.2", 1),
        ("broker=2/kafka-request.log.1", 2),
    ]


def test_a_cluster_may_be_a_link_within_the_archive(tmp_path: Path) -> None:
    touch(tmp_path / "store" / "broker=1" / "kafka-request.log")
    link(tmp_path / "cluster=east", tmp_path / "store")
    assert found(tmp_path, "east") == [("cluster=east/broker=1/kafka-request.log", 1)]


@pytest.mark.parametrize(
    "name",
    [
        "kafka-request.log", "kafka-request.log.1.gz", "server.log", "server.properties",
        "kafka-version.txt", "quota-snapshot-1.txt", "quota_changes.txt",
    ],
)  # fmt: skip
def test_a_file_that_leads_out_of_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    archive, secret = tmp_path / "archive", touch(tmp_path / "archive-secret")
    touch(archive / "broker=1" / "kafka-request.log.0")
    link(archive / "broker=1" / name, secret)
    with pytest.raises(BadInputError, match=rf"{name} leads out of the archive, to {secret}"):
        find_archive(archive, "default")


@pytest.mark.parametrize("target", ["/", "..", "../..", "/etc", "../archive-2"])
def test_a_folder_that_leads_out_of_the_archive_is_refused(tmp_path: Path, target: str) -> None:
    archive = tmp_path / "archive"
    touch(archive / "kafka-request.log")
    (tmp_path / "archive-2").mkdir()
    link(archive / "broker=1", target)
    with pytest.raises(BadInputError, match="broker=1 leads out of the archive"):
        find_archive(archive, "default")


def test_a_link_to_a_link_out_of_the_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    link(archive / "notes", touch(tmp_path / "secret"))
    link(archive / "broker=1" / "kafka-request.log", "../notes")
    with pytest.raises(BadInputError, match="leads out of the archive"):
        find_archive(archive, "default")


def test_links_of_other_files_are_no_matter_of_the_archives(tmp_path: Path) -> None:
    touch(tmp_path / "archive" / "broker=1" / "kafka-request.log")
    link(tmp_path / "archive" / "README", touch(tmp_path / "outside"))
    link(tmp_path / "archive" / "gone", "nowhere")
    os.mkfifo(tmp_path / "archive" / "pipe")
    assert found(tmp_path / "archive") == [("broker=1/kafka-request.log", 1)]


def test_a_log_that_leads_nowhere_or_in_a_circle_is_refused(tmp_path: Path) -> None:
    link(tmp_path / "a" / "broker=1" / "kafka-request.log", "rotated")
    with pytest.raises(BadInputError, match="which is not there"):
        find_archive(tmp_path / "a", "default")
    link(tmp_path / "b" / "broker=1" / "kafka-request.log", "kafka-request.log")
    with pytest.raises(BadInputError, match=r"in a circle|not there"):
        find_archive(tmp_path / "b", "default")


def test_folders_that_lead_to_each_other_end(tmp_path: Path) -> None:
    touch(tmp_path / "broker=1" / "kafka-request.log")
    for i in range(20):
        for j in range(20):
            link(tmp_path / "broker=1" / f"d{i}" / f"l{j}", tmp_path / "broker=1" / f"d{j}")
    assert found(tmp_path) == [("broker=1/kafka-request.log", 1)]


@pytest.mark.parametrize("name", ["kafka-request.log", "server.log", "server.properties"])
def test_a_pipe_in_place_of_a_log_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    touch(tmp_path / "broker=1" / "kafka-request.log.1")
    os.mkfifo(tmp_path / "broker=1" / name)
    with pytest.raises(BadInputError, match=f"{name} is no regular file but a pipe"):
        find_archive(tmp_path, "default")


def test_odd_names_of_files_are_texts_that_a_table_holds(tmp_path: Path) -> None:
    names = [
        b"kafka-request.log.\xff\xfe",
        b"kafka-request.log.$(touch x)",
        b"kafka-request.log.\n",
    ]
    for name in names:
        touch(tmp_path / "broker=1" / os.fsdecode(name))
    files = [name for name, _ in found(tmp_path)]
    assert "broker=1/kafka-request.log.\\xff\\xfe" in files
    assert all(name.encode("utf-8") for name in files)
    assert len(files) == 3


@pytest.mark.parametrize("folder", ["broker=2147483648", "broker=" + "9" * 200])
def test_a_broker_id_that_no_broker_has_is_refused(tmp_path: Path, folder: str) -> None:
    touch(tmp_path / folder / "kafka-request.log")
    with pytest.raises(BadInputError, match="is no broker's folder"):
        find_archive(tmp_path, "default")


@pytest.mark.parametrize("folder", ["broker=-1", "broker=1;2", "broker=١", "broker=1 "])
def test_a_folder_that_names_no_broker_is_as_any_other(tmp_path: Path, folder: str) -> None:
    touch(tmp_path / folder / "kafka-request.log")
    assert found(tmp_path) == [(f"{folder}/kafka-request.log", None)]


@pytest.mark.parametrize(
    "name",
    [
        "../../x", "..", ".", "", "/etc", "a/b", "a\\b", "$(touch x)", "'; DROP TABLE x", "*",
        "a\nb", "<script>", "x" * 101, "{a,b}", "-rf", "a b", "!!python/object:x", "\x00", "é",
    ],
)  # fmt: skip
def test_a_name_that_is_no_clusters_is_refused_before_anything_is_read(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadInputError, match="is no name of a cluster"):
        choose_cluster(tmp_path, name)


def test_the_archives_own_folders_must_be_names_of_clusters_too(tmp_path: Path) -> None:
    touch(tmp_path / "cluster=$(touch x)" / "broker=1" / "kafka-request.log")
    with pytest.raises(BadInputError, match="rename the archive's folder"):
        choose_cluster(tmp_path, None)


def test_small_texts_are_small_and_utf_8(tmp_path: Path) -> None:
    path = touch(tmp_path / "quota-snapshot.txt", b"\xef\xbb\xbfQuota configs")
    assert read_small_text(path) == "Quota configs"
    path.write_bytes(b"Quota \xff configs")
    assert read_small_text(path, "replace") == "Quota \ufffd configs"
    with pytest.raises(BadInputError, match=r"no UTF-8: found b'\\xff co' at byte 6"):
        read_small_text(path)
    os.truncate(path, TEXT_BYTES_MAX + 1)
    with pytest.raises(BadInputError, match="more than 67,108,864 bytes"):
        read_small_text(path)


@pytest.mark.parametrize("name", ["quota-snapshot-1.txt", "quota_changes.txt"])
def test_a_snapshot_or_journal_of_other_bytes_is_bad_input(tmp_path: Path, name: str) -> None:
    touch(tmp_path / "broker=1" / "kafka-request.log")
    touch(tmp_path / name, "Größe".encode("utf-16"))
    archive = find_archive(tmp_path, "default")
    with pytest.raises(BadInputError, match=f"{name} is no UTF-8"):
        known_quotas(archive, IngestOptions.of(), [], [1], 0)
