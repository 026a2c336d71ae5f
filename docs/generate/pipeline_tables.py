"""The tables of docs that list the pipeline's steps, and the pages that they stand in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quota_dags.steps import ASSETS, PUBLISHES
from spark_jobs.warehouse.pipeline import STEPS, WRITES

DOCS = Path(__file__).parents[1]


def architecture_page() -> str:
    """Return the page with its table of what each command writes as it is now."""
    by_tables: dict[tuple[str, ...], list[str]] = {}
    for command, tables in WRITES.items():
        by_tables.setdefault(tables, []).append(command)
    rows = ((_code(commands), _code(tables)) for tables, commands in by_tables.items())
    return _with_table("architecture.md", ("step", "writes"), rows)


def airflow_page() -> str:
    """Return the page with its table of the daily DAG's tasks as it is now."""
    return _with_table(
        "airflow.md",
        ("task", "command", "what it does", "asset it renews"),
        (
            (
                f"`{step.task_id}`",
                f"`quota-audit {' '.join(step.command)}`",
                step.says,
                _code(ASSETS) if step.task_id == PUBLISHES else "",
            )
            for step in STEPS.values()
        ),
    )


def _with_table(page: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a page of docs with new rows in the table that has ``head``."""
    before, found, after = (DOCS / page).read_text("utf-8").partition(_row(head))
    assert found, f"docs/{page} has no table {head}"
    rest = after[after.index("\n\n") :]
    return before + "\n".join([found, "|" + "---|" * len(head), *map(_row, rows)]) + rest


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
