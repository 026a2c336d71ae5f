from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import choose_cluster, clusters_of, find_archive
from spark_jobs.ingest.ingest_options import listener_brokers
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks


def touch(path: Path, data: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_request_logs_are_found_at_any_depth_below_their_broker(tmp_path: Path) -> None:
    touch(tmp_path / "broker=1" / "kafka-request.log")
    touch(tmp_path / "broker=2" / "2026" / "kafka-request.log.2026-11-21-03.gz")
    touch(tmp_path / "broker=2" / "server.log.1")
    touch(tmp_path / "broker=2" / "server.properties")
    found = find_archive(tmp_path, "default")
    assert [(f.source_file, f.broker_id) for f in found.request_logs] == [
        ("broker=1/kafka-request.log", 1),
        ("broker=2/2026/kafka-request.log.2026-11-21-03.gz", 2),
    ]
    assert [f.broker_id for f in found.server_logs] == [2]
    assert list(found.properties) == [2]


def test_a_file_outside_a_broker_folder_has_no_broker(tmp_path: Path) -> None:
    touch(tmp_path / "pod-a" / "kafka-request.log")
    assert [f.broker_id for f in find_archive(tmp_path, "default").request_logs] == [None]


def test_clusters_are_kept_apart(tmp_path: Path) -> None:
    touch(tmp_path / "cluster=east" / "broker=1" / "kafka-request.log")
    touch(tmp_path / "cluster=west" / "broker=1" / "kafka-request.log")
    assert clusters_of(tmp_path) == ("east", "west")
    assert len(find_archive(tmp_path, "east").request_logs) == 1
    with pytest.raises(BadInputError, match="choose one with --cluster"):
        choose_cluster(tmp_path, None)
    with pytest.raises(BadInputError, match="but not 'north'"):
        find_archive(tmp_path, "north")


def test_the_only_cluster_of_an_archive_is_chosen(tmp_path: Path) -> None:
    touch(tmp_path / "cluster=east" / "broker=1" / "kafka-request.log")
    assert choose_cluster(tmp_path, None) == "east"
    assert choose_cluster(tmp_path, "west") == "west"


def test_an_archive_without_logs_is_an_error_that_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"expected files named\s+broker=<id>/…/kafka-request"):
        find_archive(tmp_path, "default")
    with pytest.raises(BadInputError, match="is not a folder"):
        find_archive(tmp_path / "missing", "default")


def test_listener_options_map_addresses_to_brokers() -> None:
    assert listener_brokers(["10.0.0.5:9092=3", "[::1]:9092=4"]) == {
        "10.0.0.5:9092": 3,
        "[::1]:9092": 4,
    }


@pytest.mark.parametrize("option", ["", "10.0.0.5=3", "10.0.0.5:9092", "10.0.0.5:9092=x"])
def test_a_listener_option_that_does_not_read_so_is_named(option: str) -> None:
    with pytest.raises(BadInputError, match="host:port=<broker id>"):
        listener_brokers([option])


@given(
    lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ")), max_size=30),
    block_bytes=st.integers(1, 50),
    final_newline=st.booleans(),
)
def test_blocks_hold_whole_lines_and_every_byte_once(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    block_bytes: int,
    final_newline: bool,
) -> None:
    data = b"\n".join(lines) + (b"\n" if final_newline else b"")
    path = touch(tmp_path_factory.mktemp("log") / "kafka-request.log", data)
    blocks = list(line_blocks(path, block_bytes))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_read_as_their_content(tmp_path: Path, suffix: str) -> None:
    data = b"one\ntwo\n" * 1000
    packed = gzip.compress(data) if suffix == ".gz" else zstandard.compress(data)
    path = touch(tmp_path / f"kafka-request.log{suffix}", packed)
    assert b"".join(line_blocks(path)) == data


def test_a_cut_gzip_file_gives_its_whole_lines_and_then_says_so(tmp_path: Path) -> None:
    lines = b"".join(b"%d a line of the log that compresses a little\n" % i for i in range(9000))
    packed = gzip.compress(lines)
    path = touch(tmp_path / "kafka-request.log.gz", packed[: len(packed) // 2])
    blocks: list[bytes] = []
    with pytest.raises(TruncatedFileError):
        blocks.extend(line_blocks(path, 4096))
    read = b"".join(blocks)
    assert lines.startswith(read)
    assert len(read) > 1000
