"""The files beside the report: recommendations as CSV, and the scripts that carry them out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from spark_jobs.apply.changes.quota_alteration import proposed_alterations
from spark_jobs.apply.changes.render import render

CSV_FILE, APPLY_FILE, ROLLBACK_FILE = "recommendations.csv", "apply.sh", "rollback.sh"


def write_files(recommendations: pa.Table, folder: Path) -> tuple[Path, ...]:
    """Write recommendations.csv, apply.sh and rollback.sh into ``folder``; return their paths.

    The scripts are executable and do nothing without BOOTSTRAP. In the CSV an empty field is null,
    and a text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table, apply, rollback = (folder / n for n in (CSV_FILE, APPLY_FILE, ROLLBACK_FILE))
    with table.open("wb") as file:
        csv.write_csv(_without_formulas(recommendations), file)
    # One call of the tool sets one value: what else is in force does not matter.
    scripts = render("kafka-configs", proposed_alterations(recommendations.to_pylist()), ())
    _write_script(apply, scripts.text)
    _write_script(rollback, scripts.rollback)
    return table, apply, rollback


def _without_formulas(rows: pa.Table) -> pa.Table:
    # Users and client ids are chosen by strangers; quoting does not keep a formula from running.
    for i, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            text = pc.replace_substring_regex(rows[field.name], r"\A([=+\-@\t\r])", r"'\1")
            rows = rows.set_column(i, field, text)
    return rows


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
