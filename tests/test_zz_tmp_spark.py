from __future__ import annotations
import sys
import pytest
@pytest.mark.spark
def test_it(spark):
    import pyarrow as pa
    def f(it):
        for b in it:
            yield pa.RecordBatch.from_pydict({"p": [sys.executable] * b.num_rows})
    rows = spark.range(4).mapInArrow(f, "p string").collect()
    assert {r.p for r in rows} == {sys.executable}
    assert spark.sparkContext.master == "local[2]"
