"""A check of an archive in a bucket says what it says of the same archive in a folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_jobs.check import check_archive as checking
from spark_jobs.cli.app import app
from spark_jobs.warehouse.storage import storage_path

EXAMPLE = Path(__file__).parents[2] / "examples" / "capture"


def checked(archive: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["check", archive, "--json"])
    assert ran.exit_code == 0, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    return {name: value for name, value in found.items() if name not in ("archive", "clock")}


@pytest.mark.parametrize("sample_bytes", [256 << 20, 600_000])
def test_a_bucket_is_checked_as_a_folder_is(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_bytes: int
) -> None:
    monkeypatch.setattr(checking, "SAMPLE_BYTES", sample_bytes)
    in_bucket = storage_path(f"s3://{bucket}/archive")
    for file in sorted(EXAMPLE.rglob("*")):
        if not file.is_file():
            continue
        name, data = file.relative_to(EXAMPLE).as_posix(), file.read_bytes()
        if name == "broker=1/kafka-request.log.gz":  # plain, so that it is read in pieces
            name, data = name.removesuffix(".gz"), gzip.decompress(data)
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        (in_bucket / name).write_bytes(data)
    of_folder = checked(str(tmp_path))
    assert of_folder["looked_at"]["every_line"] == (sample_bytes > 1 << 20)
    assert checked(f"s3://{bucket}/archive") == of_folder
