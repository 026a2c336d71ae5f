from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from spark_jobs.anonymize.anonymize_archive import names_in_copy


def copies(*paths: str, broker_id: int | None = 1) -> dict[str, str]:
    found = names_in_copy(dict.fromkeys(map(PurePosixPath, paths), broker_id))
    return {str(path): str(copy) for path, copy in found.items()}


@pytest.mark.parametrize(
    "path",
    [
        "broker=1/kafka-request.log",
        "broker=1/2026-11-21/kafka-request.log.2026-11-21-03.gz",
        "2026/11/21/broker=1/server.log.2026-11-21-03.zst",
        "broker=1/kafka-request.log.12",
        "20261121/03/broker=1/kafka-request.log.2026-11-21.log",
        "broker=1/kafka-request.log-20261121.gz",
        "broker=1/kafka-request.log.2026-11-21T03:00:00Z.1.zst",
        "broker=1/server.properties",
        "quota-snapshot-1795219200000.txt",
        "quota-snapshot.json",
        "quota_changes.txt",
    ],
)
def test_a_path_of_kafkas_words_and_of_numbers_stays(path: str) -> None:
    assert copies(path) == {path: path}


@pytest.mark.parametrize(
    ("path", "copy"),
    [
        ("east/broker=1/kafka-request.log", "broker=1/000000/kafka-request.log"),
        ("broker=1/host-7/kafka-request.log.1.gz", "broker=1/000000/kafka-request.log.gz"),
        ("broker=1/kafka-request.log.host-7.zst", "broker=1/000000/kafka-request.log.zst"),
        ("10.0.0.7/broker=1/kafka-request.log", "broker=1/000000/kafka-request.log"),
        ("10-0-0-7/broker=1/kafka-request.log", "broker=1/000000/kafka-request.log"),
        ("broker=1/kafka-request.log.10.0.0.7.gz", "broker=1/000000/kafka-request.log.gz"),
        ("broker=1/server.log-7-acme", "broker=1/000000/server.log"),
    ],
)
def test_a_path_with_a_word_of_its_own_is_a_number(path: str, copy: str) -> None:
    assert copies(path) == {path: copy}


def test_a_snapshot_keeps_its_moment() -> None:
    found = copies("quota-snapshot-acme-1795219200000.json", broker_id=None)
    assert set(found.values()) == {"000000/quota-snapshot-1795219200000.json"}


def test_files_of_a_broker_keep_their_order() -> None:
    paths = [
        "broker=1/2026-11-21/kafka-request.log", "broker=1/kafka-request.log",
        "broker=1/zoo/kafka-request.log", "broker=1/ape/kafka-request.log",
        "broker=1/ape.b/kafka-request.log", "broker=1/kafka-request.log.1",
    ]  # fmt: skip
    found = copies(*paths)
    assert len(set(found.values())) == len(paths)
    assert [found[path] for path in sorted(paths)] == sorted(found.values())


def test_a_broker_whose_paths_tell_nothing_keeps_them_beside_one_whose_do() -> None:
    names = {
        PurePosixPath("broker=1/kafka-request.log"): 1,
        PurePosixPath("broker=2/acme/kafka-request.log"): 2,
    }
    assert [str(copy) for copy in names_in_copy(names).values()] == [
        "broker=1/kafka-request.log",
        "broker=2/000000/kafka-request.log",
    ]
