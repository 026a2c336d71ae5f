"""What is written, and what is not: the whole copy of an archive, or nothing."""

from __future__ import annotations

import gzip
import shutil
import stat
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from spark_jobs.anonymize.anonymize_archive import CopyOptions, anonymize_archive, anonymize_key
from spark_jobs.anonymize.pseudonyms import Pseudonyms
from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import clusters_of, find_archive
from spark_jobs.ingest.log_stream import TruncatedFileError, log_lines
from tests.builders.log_lines import log_line, message

KEY = b"the key of the tests, 32 bytes.."
LINE = log_line(message()) + b"\n"


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_ANONYMIZE_PROCESSES", "1")
    monkeypatch.delenv("QUOTA_AUDIT_ANONYMIZE_KEY", raising=False)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive" / "broker=1"
    folder.mkdir(parents=True)
    (folder / "kafka-request.log").write_bytes(LINE * 3)
    (folder / "kafka-request.log.1.gz").write_bytes(gzip.compress(LINE * 2))
    (folder / "kafka-request.log.2.zst").write_bytes(zstandard.compress(LINE * 2))
    (folder / "server.log").write_text("[2026-11-21 03:26:45,230] INFO hello\n")
    (folder.parent / "kafka-version.txt").write_text("4.1.0-acme\n")
    (folder.parent / "notes of mine.txt").write_text("secret")
    return folder.parent


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def copied(archive: Path, out: Path, key: bytes = KEY, **options: object) -> dict[str, bytes]:
    anonymize_archive(archive, out, key, CopyOptions(**options))  # type: ignore[arg-type]
    return files_of(out)


def test_files_stay_packed_as_they_were_and_no_others_are_copied(archive: Path) -> None:
    out = archive.with_name("copy")
    found = copied(archive, out)
    assert list(found) == [
        "broker=1/kafka-request.log", "broker=1/kafka-request.log.1.gz",
        "broker=1/kafka-request.log.2.zst", "broker=1/server.log", "kafka-version.txt",
    ]  # fmt: skip
    lines = [list(log_lines(log.path)) for log in find_archive(out, "default").request_logs]
    assert [len(each) for each in lines] == [3, 2, 2]
    assert len({line for each in lines for line in each}) == 1
    assert found["kafka-version.txt"] == b"4.1.0\n"


def test_the_same_key_writes_the_same_bytes_and_another_key_others(archive: Path) -> None:
    first = copied(archive, archive.with_name("first"))
    assert copied(archive, archive.with_name("again")) == first
    other = copied(archive, archive.with_name("other"), b"another key of the tests, 32 byt")
    name = "broker=1/kafka-request.log"
    assert len(other[name]) == len(first[name])
    assert other[name] != first[name]


def test_several_processes_write_what_one_writes(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = copied(archive, archive.with_name("one"))
    monkeypatch.setenv("QUOTA_AUDIT_ANONYMIZE_PROCESSES", "2")
    assert copied(archive, archive.with_name("two")) == one


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_that_is_cut_off_stays_one_with_the_same_lines(archive: Path, suffix: str) -> None:
    path = archive / "broker=1" / f"kafka-request.log.3{suffix}"
    data = b"".join(LINE.replace(b"orders", b"%06d" % n) for n in range(20_000))
    packed = gzip.compress(data) if suffix == ".gz" else zstandard.compress(data)
    path.write_bytes(packed[: len(packed) // 2])

    def read(path: Path) -> int:
        lines: list[bytes] = []
        with pytest.raises(TruncatedFileError):
            lines.extend(log_lines(path))
        return len(lines)

    copied(archive, archive.with_name("copy"))
    copy = archive.with_name("copy") / path.relative_to(archive)
    assert read(copy) == read(path) > 0


def test_clusters_have_pseudonyms_that_are_names_of_clusters(archive: Path) -> None:
    several = archive.with_name("several")
    for name in ("east-1", "w"):
        shutil.copytree(archive, several / f"cluster={name}")
    out = archive.with_name("copy")
    copied(several, out)
    names = Pseudonyms(KEY)
    assert set(clusters_of(out)) == {names.cluster("east-1"), names.cluster("w")}
    assert "east" not in str(files_of(out).keys())
    copied(several, archive.with_name("one"), cluster="w")
    assert clusters_of(archive.with_name("one")) == (names.cluster("w"),)


def test_snapshots_beside_the_archive_lie_in_the_copy(archive: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "acme-1795219200000.txt"
    snapshot.write_text("Quota configs for user-principal 'alice' are producer_byte_rate=1.0\n")
    found = copied(archive, archive.with_name("copy"), snapshots=(snapshot,))
    (path,) = (path for path in found if "quota-snapshot" in path)
    assert path == "option-000000/quota-snapshot-1795219200000.txt"
    assert b"alice" not in found[path]
    assert len(find_archive(archive.with_name("copy"), "default").snapshots) == 1


@pytest.mark.parametrize("out", ["copy", "archive", "archive/broker=1/copy", "."])
def test_a_copy_lies_apart_from_the_archive_in_an_empty_folder(archive: Path, out: str) -> None:
    folder = archive.parent / out
    if out == "copy":
        folder.mkdir()
        (folder / "something").touch()
    before = files_of(archive.parent)
    with pytest.raises(BadInputError, match=r"one within the other|no empty folder"):
        anonymize_archive(archive, folder, KEY, CopyOptions())
    assert files_of(archive.parent) == before


def test_an_empty_folder_may_be_the_copys(archive: Path) -> None:
    archive.with_name("copy").mkdir()
    assert copied(archive, archive.with_name("copy"))


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_file_that_cannot_be_used_leaves_nothing_of_the_copy(
    archive: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_ANONYMIZE_PROCESSES", processes)
    (archive / "quota-snapshot.txt").write_text("Quota configs for nobody\n")
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(BadInputError, match="quota-snapshot"):
        anonymize_archive(archive, archive.with_name("copy"), KEY, CopyOptions())
    assert sorted(archive.parent.rglob("*")) == before


def test_a_disk_that_is_full_leaves_nothing_of_the_copy(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spark_jobs.anonymize.anonymize_archive.copy_file", full)
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(BadInputError, match=r"No space left"):
        anonymize_archive(archive, archive.with_name("copy"), KEY, CopyOptions())
    assert sorted(archive.parent.rglob("*")) == before


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = anonymize_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert anonymize_key(path) == made
    assert len(made) >= 32


def test_a_key_of_the_environment_counts_where_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anonymize_key(None) != anonymize_key(None)
    monkeypatch.setenv("QUOTA_AUDIT_ANONYMIZE_KEY", KEY.decode())
    assert anonymize_key(None) == KEY
    assert anonymize_key(tmp_path / "key") != KEY


def test_a_key_that_can_be_guessed_is_refused_and_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("hunter2\n")
    monkeypatch.setenv("QUOTA_AUDIT_ANONYMIZE_KEY", "hunter2")
    for key_file in (tmp_path / "key", None):
        with pytest.raises(BadInputError) as refused:
            anonymize_key(key_file)
        assert "hunter2" not in str(refused.value)
        assert "16" in str(refused.value)


def test_the_command_says_what_it_did_and_never_the_key(archive: Path) -> None:
    out, key = archive.with_name("copy"), archive.with_name("key")
    (archive / "broker=1" / "kafka-request.log").write_bytes(LINE + b"a strange line\n")
    done = CliRunner().invoke(
        app,
        [
            "anonymize", str(archive), str(out), "--key-file", str(key),
            "--listener", "10.0.0.5:9092=1", "--timezone", "Europe/Berlin",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for said in ("4 files", "client ids", "lines that do not read: foreign", "1  files that no"):
        assert said in done.output
    names = Pseudonyms(key.read_bytes().strip())
    options = f"--timezone Europe/Berlin --listener {names.listener_address('10.0.0.5:9092')}=1"
    assert f"audit it with: {options}" in done.output
    assert key.read_text().strip() not in done.output
    assert key.read_bytes().strip() not in b"".join(files_of(out).values())


def test_a_key_file_in_the_copy_is_refused(archive: Path) -> None:
    out = archive.with_name("copy")
    done = CliRunner().invoke(app, ["anonymize", str(archive), str(out), "--key-file", f"{out}/k"])
    assert isinstance(done.exception, BadInputError)
    assert not out.exists()
