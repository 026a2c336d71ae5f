"""The step ``replay`` over a made warehouse."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.made_requests import CLUSTER
from benchmarks.made_traffic import DAY
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.scope import RunScope


def main(warehouse: Path) -> None:
    with spark_session("replay") as spark:
        print(replay_quotas(spark, RunScope(warehouse, CLUSTER, DAY)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
