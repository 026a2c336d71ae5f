"""Printing a day's proposals as the file of a tool that applies them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import typer

from spark_jobs.apply.changes.quota_alteration import proposed_alterations
from spark_jobs.apply.changes.targets.target import RefusedAlteration, Rendered
from spark_jobs.apply.changes.wording import one_line, subject
from spark_jobs.apply.render import render
from spark_jobs.errors import BadInputError
from spark_jobs.recommend.weigh.configured_values import end_of_day_ms, values_in_cluster
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, recommended_day

RECOMMENDATIONS = "recommendations"


def print_render(
    target: str, warehouse: Path, cluster: str, day: dt.date | None, *, is_rollback: bool
) -> None:
    """Print what applies the proposals of a day (or takes them back), and to stderr the refused.

    Without ``day`` it is the newest with recommendations. Raises BadInputError for an unknown
    target, a day without recommendations, and where every proposal was refused.
    """
    scope = recommended_day(warehouse, cluster, day)
    rendered, proposals = render_day(target, scope)
    for refusal in rendered.refusals:
        typer.echo(refusal_line(refusal), err=True)
    if proposals and len(rendered.refusals) == proposals:
        raise BadInputError(
            f"--target {target} can express none of the {proposals} proposals of {scope.day}; the "
            "reasons are above, each with what to use instead."
        )
    typer.echo(rendered.rollback if is_rollback else rendered.text, nl=False)


def render_day(target: str, scope: RunScope) -> tuple[Rendered, int]:
    """Return the proposals of a day as ``target`` has them, and how many they are."""
    alterations = proposed_alterations(read_table(scope, RECOMMENDATIONS).to_pylist())
    end_ms = end_of_day_ms(day_number(scope.day) * DAY_MS)
    in_force = values_in_cluster(read_table(scope, "quota_changes").to_pylist(), end_ms)
    return render(target, alterations, in_force), len(alterations)


def refusal_line(refusal: RefusedAlteration) -> str:
    """Return a refusal in one line."""
    return one_line(f"refused: {subject(refusal.alteration)}: {refusal.reason}")
