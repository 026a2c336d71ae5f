"""What the commands that change quotas print: proposals, files for tools, what apply did."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.apply.apply_quotas import ChangeReport, ClusterTarget
from spark_jobs.apply.changes.change_key import change_key, change_key_with_values
from spark_jobs.apply.changes.change_plan import PlannedChange
from spark_jobs.apply.changes.quota_alteration import (
    PROPOSED,
    QuotaAlteration,
    proposed_alterations,
    value_text,
)
from spark_jobs.apply.changes.targets.target import RefusedAlteration, Rendered
from spark_jobs.apply.changes.wording import one_line, subject
from spark_jobs.apply.render import render
from spark_jobs.errors import BadInputError
from spark_jobs.recommend.weigh.configured_values import end_of_day_ms, values_in_cluster
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, recommended_day
from spark_jobs.wording.numbers import duration, exact_rate
from spark_jobs.wording.visible_text import visible

# A proposal or a change on one line, whatever the terminal's width.
_WIDTH_MAX = 10_000
_PROPOSAL = ("change", "now", "proposed", "throttled", "with it", "earlier days", "sure", "why")
_CHANGE = ("change", "before", "after", "cluster has", "outcome", "")
_TAKEN_OVER = (
    "kind",
    "current",
    "lower",
    "upper",
    "reason",
    "confidence",
    "clamped_by",
    "throttle_time_ms_before",
    "throttle_time_ms_after",
    "days_seen",
    "backtest_trials",
    "backtest_kept",
)


def print_proposals(warehouse: Path, cluster: str, day: dt.date | None, *, as_json: bool) -> None:
    """Print the proposals of a day (None: the last one), as a table or as one JSON object.

    Raises BadInputError where the warehouse has no recommendations of that day.
    """
    scope = recommended_day(warehouse, cluster, day, IngestSettings().latest_day())
    rows = read_table(scope, "recommendations").to_pylist()
    proposals = proposal_objects(rows)
    counts = dict(sorted(Counter(row["status"] for row in rows).items()))
    if as_json:
        found = {"cluster": cluster, "day": str(scope.day), "recommendations": counts}
        print(json.dumps(found | {"proposals": proposals}))
        return
    typer.echo(f"proposals for the cluster {cluster}, {scope.day} UTC")
    if proposals:
        _print_table(_PROPOSAL, _PROPOSAL[1:6], map(_proposal_cells, proposals))
    said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    typer.echo(said or "no recommendations")


def proposal_objects(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the proposed rows of ``tables.RECOMMENDATIONS`` as JSON has them.

    ``change`` is the name that ``quota-audit apply --only`` takes, and ``exactly`` the one with its
    values; ``before`` is the entity's own value, ``after`` None removes it. In order of the
    throttle time they are about, longest first.
    """
    proposed = [row for row in rows if row["status"] == PROPOSED]
    objects = [
        _alteration_object(alteration)
        | {"exactly": change_key_with_values(alteration)}
        | {name: row[name] for name in _TAKEN_OVER}
        for row, alteration in zip(proposed, proposed_alterations(proposed), strict=True)
    ]
    return sorted(objects, key=lambda o: (-(o["throttle_time_ms_before"] or 0), o["change"]))


def _alteration_object(alteration: QuotaAlteration) -> dict[str, Any]:
    return {
        "change": change_key(alteration),
        "quota_type": alteration.quota_type,
        "user": alteration.user,
        "client_id": alteration.client_id,
        "before": alteration.before,
        "after": alteration.after,
    }


def _proposal_cells(proposal: Mapping[str, Any]) -> Iterable[str]:
    values = (exact_rate(proposal[at], proposal["quota_type"]) for at in ("before", "after"))
    times = (duration(proposal[f"throttle_time_ms_{at}"]) for at in ("before", "after"))
    trials = proposal["backtest_trials"]
    kept = f"{proposal['backtest_kept']} of {trials}" if trials else "–"
    reason = visible(proposal["reason"])
    return proposal["change"], *values, *times, kept, proposal["confidence"], reason


def print_render(
    target: str, warehouse: Path, cluster: str, day: dt.date | None, *, is_rollback: bool
) -> None:
    """Print what applies the proposals of a day (or takes them back), and to stderr the refused.

    Without ``day`` it is the newest with recommendations. Raises BadInputError for an unknown
    target, a day without recommendations, and where every proposal was refused.
    """
    scope = recommended_day(warehouse, cluster, day, IngestSettings().latest_day())
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
    alterations = proposed_alterations(read_table(scope, "recommendations").to_pylist())
    end_ms = end_of_day_ms(day_number(scope.day) * DAY_MS)
    in_force = values_in_cluster(read_table(scope, "quota_changes").to_pylist(), end_ms)
    return render(target, alterations, in_force), len(alterations)


def refusal_line(refusal: RefusedAlteration) -> str:
    """Return a refusal in one line."""
    return one_line(f"refused: {subject(refusal.alteration)}: {refusal.reason}")


def changes_printer(target: ClusterTarget, *, as_json: bool) -> Callable[[ChangeReport], None]:
    """Return the function that prints a report of changes to ``target``."""

    def show(report: ChangeReport) -> None:
        if as_json:
            print(json.dumps(report_object(target, report)))
            return
        for line in _head(target, report):
            typer.echo(line)
        _print_table(_CHANGE, _CHANGE[1:4], _change_cells(report))
        typer.echo(_counts(report))

    return show


def report_object(target: ClusterTarget, report: ChangeReport) -> dict[str, Any]:
    """Return the report as JSON has it; ``outcome`` is a plan's step where nothing was executed."""
    rows = _rows(report)
    return {
        "action": report.wanted.action,
        "executed": bool(report.results),
        "application_id": report.application_id,
        "takes_back": report.wanted.takes_back,
        "cluster": target.cluster,
        "evidence_day": report.wanted.evidence_day,
        "bootstrap_servers": target.bootstrap_servers,
        "kafka_cluster_id": report.facts.cluster_id,
        "down_broker_ids": list(report.facts.down_broker_ids),
        "cut_off": list(report.wanted.cut_off),
        "refused": report.refused,
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "changes": rows,
    }


def _rows(report: ChangeReport) -> list[dict[str, Any]]:
    if report.results:
        return [
            _row(
                r.planned, r.outcome, r.message, r.read_back if r.is_read_back else r.planned.found
            )
            for r in report.results
        ]
    return [_row(change, change.step, change.message, change.found) for change in report.plan]


def _row(
    change: PlannedChange, outcome: str, message: str | None, now: float | None
) -> dict[str, Any]:
    return {
        **_alteration_object(change.alteration),
        "cluster_has": now,
        "outcome": str(outcome),
        "message": message,
        "reason": change.alteration.reason,
    }


def _head(target: ClusterTarget, report: ChangeReport) -> list[str]:
    if report.refused:
        state = "refused: nothing was changed"
    elif report.results:
        state = f"executed as {report.application_id}"
    else:
        state = "dry run: nothing is changed without --execute"
    taken_back = f" of {report.wanted.takes_back}" if report.wanted.takes_back else ""
    lines = [
        f"{report.wanted.action}{taken_back}, {state}",
        f"Kafka cluster {report.facts.cluster_id} at {target.bootstrap_servers}",
    ]
    lines += [
        f"broker {broker_id} is down: it takes the values when it comes back"
        for broker_id in report.facts.down_broker_ids
    ]
    lines += [
        f"{application_id} was cut off: nobody knows which of its changes were made; "
        f"'rollback --change {application_id}' takes back those that were"
        for application_id in report.wanted.cut_off
        if application_id != report.wanted.takes_back
    ]
    return lines


def _change_cells(report: ChangeReport) -> Iterator[Iterable[str]]:
    for row in _rows(report):
        values = (value_text(row[name]) for name in ("before", "after", "cluster_has"))
        # Why it is refused stands below, in the error.
        message = "" if report.refused else one_line(row["message"] or "")
        yield row["change"], *values, row["outcome"], message


def _counts(report: ChangeReport) -> str:
    counts = Counter(row["outcome"] for row in _rows(report))
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _print_table(
    titles: Sequence[str], numbers: Sequence[str], rows: Iterable[Iterable[str]]
) -> None:
    console = Console(width=_WIDTH_MAX, soft_wrap=True, highlight=False)
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    for cells in rows:
        table.add_row(*map(Text, cells))
    console.print(table, width=console.measure(table).maximum)
