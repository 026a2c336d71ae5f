from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.anonymize.anonymize_archive import anonymize_key
from spark_jobs.apply.client_properties import read_client_properties
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.secret_files import check_kept_from_others


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that everybody may enter: a test's own one is its user's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def file_of(folder: Path, mode: int) -> Path:
    path = folder / "admin.properties"
    path.write_text("sasl.mechanism=PLAIN\n" * 3)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640, 0o660])
def test_a_file_of_its_owner_and_group_is_read(folder: Path, mode: int) -> None:
    check_kept_from_others(file_of(folder, mode), "--command-config")


@pytest.mark.parametrize(
    ("mode", "done"), [(0o444, "read"), (0o644, "read"), (0o604, "read"), (0o602, "written")]
)
def test_a_file_that_everybody_may_read_or_write_is_refused_with_what_to_do(
    folder: Path, mode: int, done: str
) -> None:
    path = file_of(folder, mode)
    link = folder / "link"
    link.symlink_to(path)
    for given in (path, link):
        with pytest.raises(BadInputError) as refused:
            read_client_properties(given)
        said = str(refused.value)
        assert f"--command-config: {given} can be {done} by every user" in said
        assert f"mode {mode:04o}" in said
        assert f"chmod 600 {given}" in said
        assert "PLAIN" not in said
    with pytest.raises(BadInputError, match=f"--key-file: {path} can be {done} by every user"):
        anonymize_key(path)


def test_a_file_in_a_folder_that_others_cannot_enter_is_kept_from_them(folder: Path) -> None:
    inner = folder / "secrets"
    inner.mkdir(mode=0o700)
    check_kept_from_others(file_of(inner, 0o444), "--command-config")


def test_what_a_container_runtime_mounts_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.warehouse.secret_files._MOUNTED", folder)
    check_kept_from_others(file_of(folder, 0o444), "--command-config")


def test_a_pipe_of_the_shell_s_is_read() -> None:
    end, start = os.pipe()
    os.write(start, b"sasl.mechanism=PLAIN\n")
    os.close(start)
    found = read_client_properties(Path(f"/dev/fd/{end}"))
    os.close(end)
    assert found.properties["sasl.mechanism"].value == "PLAIN"


def test_a_key_file_that_is_made_is_kept_from_others(folder: Path) -> None:
    before = os.umask(0)
    try:
        key = anonymize_key(folder / "key")
    finally:
        os.umask(before)
    check_kept_from_others(folder / "key", "--key-file")
    assert anonymize_key(folder / "key") == key
