"""Limit of the replay: Spark reads the same rows and writes as many columns, and does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.tables import DECISIONS, REQUESTS

SCALARS = [f.name for f in REQUESTS if f.type.num_fields == 0]


def main(warehouse: Path, out: Path) -> None:
    with spark_session("copy") as spark:
        rows = spark.read.parquet(f"{warehouse}/requests").select(SCALARS[: len(DECISIONS)])
        rows.write.parquet(str(out))
        print(spark.read.parquet(str(out)).count())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
