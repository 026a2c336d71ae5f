"""A bucket that is not there, credentials that are refused, a service that does not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli.ending import said_of
from spark_jobs.errors import BadInputError
from spark_jobs.spark.on_workers import Needs
from spark_jobs.warehouse.storage import storage_path, usable_storage_path
from tests.object_storage.moto_server import KEY, SECRET, ObjectStorage

NOT_THERE = "There is no bucket nobody-s-bucket at http://127.0.0.1:"
REFUSED = "refuses these credentials"


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the service be where nobody listens."""
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{once.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return endpoint


def test_a_bucket_that_is_there_can_be_used(bucket: str) -> None:
    assert str(usable_storage_path(f"s3://{bucket}/key/")) == f"s3://{bucket}/key"
    assert usable_storage_path(f"s3a://{bucket}") == storage_path(f"s3://{bucket}")


def test_a_bucket_that_is_missing_is_named(bucket: str) -> None:
    with pytest.raises(BadInputError, match=NOT_THERE):
        usable_storage_path("s3://nobody-s-bucket/key")


def test_refused_credentials_are_said_to_be(storage: ObjectStorage, bucket: str) -> None:
    with storage.refusing(), pytest.raises(BadInputError, match=REFUSED):
        usable_storage_path(f"s3://{bucket}/key")


def test_a_service_that_does_not_answer_is_named(bucket: str, closed_port: str) -> None:
    with pytest.raises(BadInputError, match=f"storage at {closed_port} does not answer"):
        usable_storage_path(f"s3://{bucket}/key")


@pytest.mark.parametrize("text", ["hdfs://host/x", "gs://bucket/x", "file:///x", "s3://", "://x"])
def test_another_scheme_is_no_folder_s_name(text: str) -> None:
    with pytest.raises(BadInputError, match=r"expected a folder, or s3://bucket/key"):
        storage_path(text)


def test_a_worker_without_credentials_says_so(storage: ObjectStorage, bucket: str) -> None:
    needs = Needs(Path.cwd(), storage_path(f"s3://{bucket}/staged"))
    assert needs.refusal() is None
    with storage.refusing():
        assert REFUSED in (needs.refusal() or "")


@pytest.mark.parametrize(
    "look",
    [
        Path.is_dir, Path.is_file, Path.exists, Path.stat, Path.read_bytes, Path.unlink,
        lambda key: list(key.iterdir()), lambda key: list(key.parent.glob("*.json")),
        lambda key: key.write_bytes(b"2"), lambda key: key.rename(key.with_name("other")),
    ],
)  # fmt: skip
def test_what_cannot_be_looked_at_is_not_taken_for_missing(
    storage: ObjectStorage, bucket: str, look: Callable[[Any], object]
) -> None:
    key = storage_path(f"s3://{bucket}/looked/at.json")
    key.write_bytes(b"1")
    by_name = getattr(type(key), getattr(look, "__name__", ""), look)
    with storage.refusing(), pytest.raises(OSError, match="AWS Error") as raised:
        by_name(key)
    assert not isinstance(raised.value, FileNotFoundError)
    said = said_of(raised.value)
    assert said is not None
    assert REFUSED in said
    assert said.endswith("Mend that and run again.")
    assert key.read_bytes() == b"1"


class Py4JJavaError(Exception):
    """What Spark raises, as far as it matters."""

    __module__ = "py4j.protocol"


def test_of_a_worker_s_traceback_the_service_s_words_are_said() -> None:
    said = said_of(
        Py4JJavaError(
            "Traceback (most recent call last):\n  File x\nOSError: When reading information for "
            "key 'k' in bucket 'b': AWS Error SLOW_DOWN during GetObject operation: Please reduce "
            "your request rate. (Request ID: 7)\n\tat java.base/java.lang.Thread.run"
        )
    )
    assert said is not None
    assert "gave up (slow_down: Please reduce your request rate.). Check" in said
    assert "Thread" not in said


def test_an_error_while_spark_writes_is_said_too() -> None:
    missing = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem"
    said = said_of(Py4JJavaError(f"An error occurred\n: {missing} not found"))
    assert said is not None
    assert "Spark has no hadoop-aws" in said


def test_an_apply_needs_a_lock_and_says_so(bucket: str) -> None:
    from spark_jobs.apply.applied_changes import only_one_run

    with (
        pytest.raises(BadInputError, match="apply and rollback need a warehouse on a file system"),
        only_one_run(storage_path(f"s3://{bucket}/w"), "default"),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "expected"), [("nobody-s-bucket", NOT_THERE), ("", "expected a folder")]
)
def test_a_command_ends_with_a_sentence_and_no_secret(
    bucket: str, name: str, expected: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.cli", "digest", "--warehouse", f"s3://{name}"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    for secret in (KEY, SECRET, "Traceback"):
        assert secret not in done.stdout + done.stderr
