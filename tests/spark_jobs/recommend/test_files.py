"""The files that lie beside the report."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyarrow import csv

from spark_jobs.recommend.recommendations import write_files
from spark_jobs.warehouse.tables import RECOMMENDATIONS
from tests.builders.tables_builder import row, table_of

ROWS = [
    row("recommendations", quota_user="o'brien, \"jr\"", previous=5e4),
    row("recommendations", quota_user="bob", previous=None),
    row(
        "recommendations", quota_user=None, quota_client_id="<default>", status="not_enough_data",
        proposed=None, lower=None, upper=None, throttle_time_ms_after=None,
    ),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(table_of("recommendations", ROWS).cast(RECOMMENDATIONS), tmp_path / "report")
    return tmp_path / "report"


def test_the_csv_holds_every_row_as_it_is(folder: Path) -> None:
    table = csv.read_csv(
        folder / "recommendations.csv",
        convert_options=csv.ConvertOptions(
            column_types=RECOMMENDATIONS, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert table.to_pylist() == ROWS


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *((name, f"'{name}") for name in ("=1+1", "+1", "-1", "@SUM(1)", " =1", "\uff1d1")),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("a\n=1", "a\n'=1"),
        ("a;=1", "a;'=1"),
    ],
)
def test_no_name_is_a_formula_to_a_spreadsheet(tmp_path: Path, name: str, shown: str) -> None:
    write_files(table_of("recommendations", [row("recommendations", quota_user=name)]), tmp_path)
    lines = csv.read_csv(
        tmp_path / "recommendations.csv", parse_options=csv.ParseOptions(newlines_in_values=True)
    )
    assert lines["quota_user"].to_pylist() == [shown]


@pytest.mark.parametrize("name", ["apply.sh", "rollback.sh"])
def test_the_scripts_are_executable_and_refuse_to_run_by_accident(folder: Path, name: str) -> None:
    script = folder / name
    assert os.access(script, os.X_OK)
    done = subprocess.run(
        [script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "BOOTSTRAP" in done.stderr
    assert subprocess.run(["bash", "-n", script]).returncode == 0


def test_the_rollback_knows_what_there_was_before(folder: Path) -> None:
    rollback = (folder / "rollback.sh").read_text()
    assert "--entity-name bob --delete-config producer_byte_rate" in rollback
    assert "--add-config producer_byte_rate=50000" in rollback


def test_writing_again_gives_the_same_bytes(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_files(table_of("recommendations", ROWS), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
