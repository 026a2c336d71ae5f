"""Errors that nobody's input made end in a sentence: what, where, and that nothing is lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PythonException

from spark_jobs.cli.ending import ending, said_of
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.parquet import parquet_file

PUBLISHED = "Nothing of this run was published: what readers see is as it was."


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EFBIG])
def test_an_error_of_the_disk_names_the_file_and_what_it_is(code: int) -> None:
    said = said_of(OSError(code, os.strerror(code), "warehouse/runs"))
    assert said == f"warehouse/runs: {os.strerror(code)}. {PUBLISHED} Mend that and run again."


def test_a_jvm_that_was_killed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, ending():
        raise ConnectionRefusedError(111, "Connection refused")
    assert ended.value.code == 1
    assert "error: Spark's JVM does not answer any more: it was killed" in capsys.readouterr().err


def test_what_a_worker_raised_is_said_without_its_traceback() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times\n"
        "Traceback (most recent call last):\n"
        '  File "read_logs.py", line 66, in read_log_file\n'
        "OSError: [Errno 28] No space left on device\n"
        "\tat org.apache.spark.api.python.BasePythonRunner"
    )
    expected = f"Spark gave up: OSError: [Errno 28] No space left on device. {PUBLISHED}"
    assert (said_of(PythonException(text)) or "").startswith(expected)
    assert (said_of(Py4JError("no answer")) or "").startswith("Spark gave up: no answer. ")


def test_a_table_s_file_that_was_cut_is_named(tmp_path: Path) -> None:
    whole = tmp_path / "part.parquet"
    pq.write_table(pa.table({"a": list(range(10_000))}), whole)
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(BadInputError, match=r"part\.parquet is damaged: .* Ingest its day again"):
        parquet_file(whole)
    with pytest.raises(pa.ArrowInvalid) as raised:
        ds.dataset(whole, format="parquet").to_table()
    assert "part.parquet" in (said_of(raised.value) or "")


def test_what_the_jvm_raised_first_is_said() -> None:
    text = (
        "An error occurred while calling o104.getResult.\n"
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
        "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)\n"
        "Caused by: java.io.IOException: File too large\n"
        "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
    )
    said = said_of(Py4JError(text)) or ""
    assert said.startswith(f"Spark gave up: IOException: File too large. {PUBLISHED}")


@pytest.mark.parametrize("error", [ValueError("a"), FileNotFoundError(2, "none"), KeyError("b")])
def test_a_mistake_of_ours_keeps_its_traceback(error: Exception) -> None:
    assert said_of(error) is None
    with pytest.raises(type(error)), ending():
        raise error
