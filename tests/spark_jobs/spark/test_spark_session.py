from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from spark_jobs.settings import SparkSettings
from spark_jobs.spark.spark_session import master_of, python_of_workers

SUBMITTED = {"PYSPARK_GATEWAY_PORT": "40123"}
ELSEWHERE = {"PYSPARK_PYTHON": "/opt/audit/bin/python"}


@pytest.mark.parametrize(
    ("setting", "environ", "master"),
    [
        ("", {}, "local[*]"),
        ("", SUBMITTED, None),
        ("local[2]", SUBMITTED, "local[2]"),
        ("spark://m:7077", {}, "spark://m:7077"),
        ("spark://m:7077", SUBMITTED, "spark://m:7077"),
    ],
)
def test_the_setting_names_the_master_then_spark_submit_then_this_machine_is_it(
    setting: str, environ: Mapping[str, str], master: str | None
) -> None:
    assert master_of(SparkSettings(master=setting), environ) == master


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", None])
def test_workers_of_a_cluster_run_the_python_that_is_named_for_them(master: str | None) -> None:
    assert python_of_workers(master, ELSEWHERE) == "/opt/audit/bin/python"
    assert python_of_workers(master, {}) == sys.executable


def test_workers_of_this_machine_run_this_python() -> None:
    assert python_of_workers("local[2]", ELSEWHERE) == sys.executable
