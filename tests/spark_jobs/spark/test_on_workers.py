"""A worker that lacks what the driver has says so, and does nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from spark_jobs.errors import BadInputError
from spark_jobs.spark.code_digest import code_digest
from spark_jobs.spark.on_workers import Needs, on_workers, python_fault


def test_a_worker_with_folders_and_code_of_the_driver_has_all_it_needs(tmp_path: Path) -> None:
    assert Needs(tmp_path, tmp_path, code_digest()).refusal() is None


def test_a_folder_that_a_worker_does_not_see_is_named_with_the_worker(tmp_path: Path) -> None:
    for needs in (Needs(tmp_path / "own"), Needs(tmp_path, tmp_path / "own")):
        said = str(needs.refusal())
        assert said.startswith(f"{tmp_path / 'own'} is not there on the worker {os.uname()[1]}.")
        assert "on storage that they share: mount it there" in said


def test_a_folder_that_a_worker_may_not_write_is_named_with_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "yarn")
    monkeypatch.setattr("os.access", lambda folder, mode: folder != tmp_path)
    assert Needs(tmp_path).refusal() is None
    assert "by its user yarn: workers have to run as the driver's" in str(
        Needs(tmp_path, tmp_path).refusal()
    )


def test_a_worker_with_other_code_decides_nothing(tmp_path: Path) -> None:
    assert "The package on the worker" in str(Needs(tmp_path, code="0" * 64).refusal())


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("…\nModuleNotFoundError: No module named 'spark_jobs'\n…", "lacks the module spark_jobs:"),
        (
            "…[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11.\n…",
            "than that in driver: 3.11. Set PYSPARK_PYTHON to where",
        ),
        ('Cannot run program "/opt/python": error=2', "have no program /opt/python: set PYSPARK"),
    ],
)
def test_what_is_wrong_with_the_workers_python_is_a_sentence(said: str, sentence: str) -> None:
    assert sentence in str(python_fault(said))


@pytest.mark.spark
def test_each_item_is_run_and_the_results_have_their_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = on_workers(spark, [3, 1, 2], lambda item: item * 10, read=tmp_path, written=tmp_path)
    assert found == [30, 10, 20]


@pytest.mark.spark
def test_nothing_is_run_where_a_folder_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    ran, own = tmp_path / "ran", tmp_path / "own"
    with pytest.raises(BadInputError, match=rf"^{own} is not there on the worker .*\nSee docs/"):
        on_workers(spark, [1, 2], lambda _: ran.touch(), read=tmp_path, written=own)
    assert not ran.exists()


@pytest.mark.spark
def test_an_error_of_the_function_is_no_fault_of_the_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PythonException, match="ZeroDivisionError"):
        on_workers(spark, [0], lambda item: 1 // item, read=tmp_path)
