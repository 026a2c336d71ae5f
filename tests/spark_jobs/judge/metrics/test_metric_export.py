from __future__ import annotations

import json

import numpy as np
import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.judge.metrics.quota_metrics import read_export

LABELS = {"__name__": "kafka_server_quota_byte_rate", "resource": "Produce"}


def export(*values: tuple[float, str], kind: str = "matrix") -> str:
    result = [{"metric": LABELS, "values": list(values)}]
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


def test_seconds_become_the_whole_milliseconds_that_prometheus_keeps() -> None:
    (series,) = read_export(export((1795386916.014, "1"), (1795386916.9, "2.5")), "it")
    assert series.at_ms.tolist() == [1795386916014, 1795386916900]
    assert series.values.tolist() == [1.0, 2.5]
    assert series.name == "kafka_server_quota_byte_rate"


def test_what_is_no_number_to_prometheus_is_none_here() -> None:
    (series,) = read_export(export((1.5, "NaN"), (2.5, "+Inf"), (3.5, "-Inf")), "it")
    assert np.isnan(series.values[0])
    assert np.isinf(series.values[1:]).all()


@pytest.mark.parametrize(("second", "is_resampled"), [(15.0, True), (15.25, False)])
def test_samples_on_whole_seconds_are_of_a_range_query(second: float, is_resampled: bool) -> None:
    (series,) = read_export(export((0.0, "1"), (second, "1")), "it")
    assert series.is_resampled is is_resampled


def test_warnings_and_infos_of_prometheus_are_no_matter() -> None:
    answer = json.loads(export((1.5, "1")))
    assert read_export(json.dumps({**answer, "warnings": ["partial"], "infos": []}), "it")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<html>", "it: JSON is malformed"),
        ('{"status":"success"}', "it holds a 'nothing', not a 'matrix'"),
        (export(kind="scalar"), "it holds a 'scalar', not a 'matrix'"),
        ('{"status":"error","error":"parse error"}', "it is an error of Prometheus, 'parse error'"),
        (export((1.5, "many")), "it: could not convert"),
        ('{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}',
         "it holds a 'vector'"),
    ],
)  # fmt: skip
def test_another_text_is_refused_with_what_was_found(text: str, says: str) -> None:
    with pytest.raises(BadInputError) as refused:
        read_export(text, "it")
    assert str(refused.value).startswith(says)
