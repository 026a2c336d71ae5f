"""Warehouses that earlier versions wrote, copied for a test."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from spark_jobs.warehouse.scope import RunScope

KEPT = Path(__file__).parents[2] / "warehouses"
VERSIONS = sorted(folder.name for folder in KEPT.iterdir() if folder.is_dir())
DAY = dt.date(2026, 11, 21)


def older_day(version: str, folder: Path) -> RunScope:
    """Copy what a version left of DAY below ``folder`` and return the day."""
    shutil.copytree(KEPT / version / "runs", folder / "warehouse" / "runs")
    return RunScope(folder / "warehouse", "default", DAY)
