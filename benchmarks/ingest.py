"""Megabytes of JSON request log that a core-second turns into the table ``requests``.

Each peer reads the same files and writes the same columns as zstd Parquet, in a process tree of its
own. Counted are the CPU seconds of the whole tree, and only those by which a large archive costs
more than a small one, once all is warm: what starting costs cancels out. Each is the best of
ROUNDS, for others who use the machine only ever add to it.

- ``ingest``: files to published tables ``requests`` and ``quarantine``, in Spark.
- ``one process``: the same reader and writer, file after file, without Spark.
- ``from_json``: Spark's own JSON functions with a schema of exactly what the columns need. It
  leaves out what it cannot tell (sizes on the wire, quarantine, waits for replicas).
- ``from_json, narrow``: ten columns only.

``python benchmarks/ingest.py`` prints the table; :func:`ratios` returns what ``make bench`` keeps.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.busy_log import write_archive  # noqa: E402
from benchmarks.cpu_seconds import tree_seconds  # noqa: E402
from benchmarks.from_json import few_columns, requests_table  # noqa: E402
from spark_jobs.ingest.archive import find_archive  # noqa: E402
from spark_jobs.ingest.ingest_options import IngestOptions  # noqa: E402
from spark_jobs.ingest.ingest_requests import read_archive  # noqa: E402
from spark_jobs.ingest.lines.chunk import LogOptions  # noqa: E402
from spark_jobs.ingest.read_logs import ReadTask, read_log_file  # noqa: E402
from spark_jobs.spark.spark_session import spark_session  # noqa: E402

SMALL_MB, LARGE_MB, ROUNDS = 40, 240, 3
UNIT = "marginal MB per core-second"


def ingest(spark: SparkSession | None, archive: Path, out: Path) -> None:
    """Read the archive as the daily audit does."""
    assert spark is not None
    read_archive(spark, find_archive(archive, "default"), out, None, IngestOptions.of())


def one_process(_: SparkSession | None, archive: Path, out: Path) -> None:
    """Read and write file after file."""
    task = ReadTask(LogOptions("UTC", None, {}), out, None)
    for log in find_archive(archive, "default").request_logs:
        read_log_file(log, task)


def from_json(spark: SparkSession | None, archive: Path, out: Path) -> None:
    """Write the columns that Spark's JSON functions give."""
    assert spark is not None
    requests_table(spark, archive).write.parquet(str(out / "requests"))


def from_json_narrow(spark: SparkSession | None, archive: Path, out: Path) -> None:
    """Write ten columns."""
    assert spark is not None
    few_columns(spark, archive).write.parquet(str(out / "requests"))


PEERS: dict[str, Callable[[SparkSession | None, Path, Path], None]] = {
    "ingest": ingest,
    "one process": one_process,
    "from_json": from_json,
    "from_json, narrow": from_json_narrow,
}
WITHOUT_SPARK = {"one process"}


def rates() -> dict[str, float]:
    """Return the marginal megabytes per core-second of each peer."""
    with tempfile.TemporaryDirectory(prefix="quota-audit-bench-") as name:
        folder = Path(name)
        small, large = (
            write_archive(folder / str(size), size) / 1e6 for size in (SMALL_MB, LARGE_MB)
        )
        return {peer: (large - small) / _marginal_seconds(peer, folder) for peer in PEERS}


def ratios() -> dict[str, dict[str, object]]:
    """Return by how much the ingest does better than each peer, measured now."""
    rate = rates()
    return {
        name: {
            "ratio": round(rate["ingest"] / rate[peer], 3),
            "peer": what,
            "unit": UNIT,
            "ours": round(rate["ingest"], 1),
            "theirs": round(rate[peer], 1),
        }
        for name, peer, what in (
            ("ingest_vs_from_json", "from_json", "Spark from_json to Parquet, the same columns"),
            ("ingest_vs_one_process", "one process", "the same reader and writer without Spark"),
        )
    }


def _marginal_seconds(peer: str, folder: Path) -> float:
    command = [sys.executable, __file__, peer, str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def _measured(peer: str, folder: Path) -> float:
    """Return by how many CPU seconds the large archive costs more, the best of ROUNDS of each."""
    with nullcontext() if peer in WITHOUT_SPARK else spark_session("bench") as spark:
        _seconds(peer, spark, folder / str(SMALL_MB))
        found = [
            [_seconds(peer, spark, folder / str(size)) for size in (SMALL_MB, LARGE_MB)]
            for _ in range(ROUNDS)
        ]
    small, large = (min(seconds) for seconds in zip(*found, strict=True))
    return large - small


def _seconds(peer: str, spark: SparkSession | None, archive: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="quota-audit-bench-") as out:
        before = tree_seconds()
        PEERS[peer](spark, archive, Path(out))
        return tree_seconds() - before


def main() -> None:
    if len(sys.argv) == 3:  # one peer, in a process tree of its own
        print(_measured(sys.argv[1], Path(sys.argv[2])))
        return
    rate = rates()
    print(f"{'':22}{UNIT:>28}{'ingest is':>12}")
    for peer, each in rate.items():
        print(f"{peer:22}{each:28.1f}{rate['ingest'] / each:11.2f}×")


if __name__ == "__main__":
    main()
