"""Processor seconds of a whole audit of JSON request logs, first byte to report, step by step.

A small archive is audited before the one asked for: what starting costs is taken out by the
difference, which gives seconds a gigabyte. Beside it DuckDB only sums bytes in 10 s windows for
each client, from the same logs; it is an error if these are not those of what was written. The
logs are sound brokers', so what the replay decided is kept too: all should agree.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

# A script has its own folder on the path, not the one it was started from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.dataset as ds
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.kept_results import add_to_history, keep
from benchmarks.made_logs import MadeLogs, write_logs
from benchmarks.process_tree import Taken, run

GB, SMALL_GB = 5.0, 0.1
STEPS = {
    "ingest": "ingested ",
    "validate ingested": "validated ingested",
    "resolve": "resolved ",
    "replay": "replayed ",
    "validate replayed": "validated replayed",
    "judge": "findings: ",
    "recommend": "recommendations: ",
    "validate judged": "validated judged",
    "publish": "report: ",
}
"""What the last line of each step begins with."""
TABLES = ("requests", "decisions", "rates")


def measured(gigabytes: float) -> dict[str, Any]:
    """Return what the audit and DuckDB took over so many gigabytes of logs."""
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        made = write_logs(folder / "logs", gigabytes * 1000)
        warehouse = folder / "warehouse"
        arguments = ["run", str(folder / "logs"), "--warehouse", str(warehouse)]
        audit = run("spark_jobs.cli", arguments, STEPS)
        sums = run(
            "benchmarks.peers.duckdb_sums", [str(folder / "logs"), str(folder / "sums.parquet")]
        )
        _check_sums(made, sums)
        tables_mb = {table: _megabytes(warehouse.glob(f"runs/*/*/{table}")) for table in TABLES}
        return {
            "gb": round(made.log_bytes / 1e9, 3),
            "requests": made.requests,
            **_taken(audit),
            "step_cpu_s": {name or "end": round(s, 1) for name, s in audit.step_cpu_s.items()},
            "decided": _decided(warehouse),
            "warehouse_mb": _megabytes([warehouse]),
            "tables_mb": tables_mb,
            "duckdb": _taken(sums),
        }
    finally:
        shutil.rmtree(folder)


def _decided(warehouse: Path) -> dict[str, int]:
    """Return how many decisions have each verdict."""
    folders = sorted(warehouse.glob("runs/*/*/decisions"))
    verdicts = ds.dataset(folders[0], format="parquet").to_table(columns=["verdict"])
    counted = verdicts.group_by("verdict").aggregate([([], "count_all")])
    return dict(zip(*(counted[name].to_pylist() for name in counted.column_names), strict=True))


def _taken(taken: Taken) -> dict[str, Any]:
    peak_mb = {"worker": taken.worker_mb()} | {
        name: taken.peak_mb[name] for name in ("driver", "java") if name in taken.peak_mb
    }
    return {"cpu_s": round(taken.cpu_s, 1), "wall_s": round(taken.wall_s, 1), "peak_mb": peak_mb}


def _check_sums(made: MadeLogs, sums: Taken) -> None:
    if float(sums.said) != made.record_bytes:
        raise ValueError(f"DuckDB sums {sums.said} bytes of {made.record_bytes}")


def _megabytes(folders: Any) -> float:
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files if not path.is_symlink())
    return float(round(size / 1e6, 1))


def per_gigabyte(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """Return what each gigabyte beyond the small archive's takes."""
    more = large["gb"] - small["gb"]

    def each(of: dict[str, Any], name: str) -> float:
        return float(of[name])

    steps = {
        name: round((each(large["step_cpu_s"], name) - each(small["step_cpu_s"], name)) / more, 2)
        for name in large["step_cpu_s"]
    }
    return {
        "cpu_s": round((large["cpu_s"] - small["cpu_s"]) / more, 1),
        "step_cpu_s": steps,
        "requests": round((large["requests"] - small["requests"]) / more),
        "warehouse_mb": round((large["warehouse_mb"] - small["warehouse_mb"]) / more, 1),
        "duckdb_cpu_s": round((large["duckdb"]["cpu_s"] - small["duckdb"]["cpu_s"]) / more, 1),
    }


def main(gigabytes: Annotated[float, typer.Argument(min=2 * SMALL_GB)] = GB) -> None:
    small, large = (measured(size) for size in (SMALL_GB, gigabytes))
    each_gb = per_gigabyte(small, large)
    found = {
        "small": small,
        "large": large,
        "per_gb": each_gb,
        "ratio": round(large["duckdb"]["cpu_s"] / large["cpu_s"], 3),
        "peer": "DuckDB, sums of bytes in 10 s windows for each client",
        "unit": "processor seconds of the peer / of the whole audit",
    }
    keep("whole_audit", found)
    add_to_history("whole_audit", found)
    show(small, large, each_gb)


def show(small: dict[str, Any], large: dict[str, Any], each_gb: dict[str, Any]) -> None:
    table = Table("CPU s", f"{small['gb']} GB", f"{large['gb']} GB", "each GB more")
    for name in large["step_cpu_s"]:
        cells = (of["step_cpu_s"][name] for of in (small, large, each_gb))
        table.add_row(name, *(f"{cell:.1f}" for cell in cells), end_section=name == "end")
    table.add_row("whole audit", *(f"{of['cpu_s']:.1f}" for of in (small, large, each_gb)))
    duckdb = small["duckdb"]["cpu_s"], large["duckdb"]["cpu_s"], each_gb["duckdb_cpu_s"]
    table.add_row("DuckDB, sums only", *(f"{cell:.1f}" for cell in duckdb))
    table.add_row("wall s", f"{small['wall_s']:.0f}", f"{large['wall_s']:.0f}", "")
    warehouse = (of["warehouse_mb"] for of in (small, large, each_gb))
    table.add_row("warehouse, MB", *(f"{mb:.0f}" for mb in warehouse))
    for name in ("driver", "worker", "java"):
        table.add_row(f"{name}, MB", *(f"{of['peak_mb'][name]:,}" for of in (small, large)), "")
    for column in table.columns[1:]:
        column.justify = "right"
    Console(width=100).print(f"{large['requests']:,} requests, {large['decided']}", table)


if __name__ == "__main__":
    typer.run(main)
