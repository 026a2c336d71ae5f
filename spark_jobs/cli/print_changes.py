"""What apply and rollback print: a table for people, or one JSON object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.apply.apply_quotas import ChangeReport, ClusterTarget
from spark_jobs.apply.changes.carry_out import CarriedOutChange
from spark_jobs.apply.changes.change_key import change_key
from spark_jobs.apply.changes.change_plan import PlannedChange, value_text
from spark_jobs.apply.changes.wording import one_line

# A change on one line, whatever the terminal's width.
_WIDTH_MAX = 10_000
_COLUMNS = ("change", "before", "after", "cluster has", "outcome", "")


def changes_printer(target: ClusterTarget, *, as_json: bool) -> Callable[[ChangeReport], None]:
    """Return what prints a report of ``target``."""

    def show(report: ChangeReport) -> None:
        if as_json:
            print(json.dumps(report_object(target, report)))
            return
        for line in _head(target, report):
            typer.echo(line)
        console = Console(width=_WIDTH_MAX, soft_wrap=True, highlight=False)
        table = _table(report)
        console.print(table, width=console.measure(table).maximum)
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
        return [_row(r.planned, str(r.outcome), r.message, _now(r)) for r in report.results]
    return [_row(c, str(c.step), c.message, c.found) for c in report.plan]


def _now(result: CarriedOutChange) -> float | None:
    return result.read_back if result.is_read_back else result.planned.found


def _row(
    change: PlannedChange, outcome: str, message: str | None, now: float | None
) -> dict[str, Any]:
    alteration = change.alteration
    return {
        "change": change_key(alteration),
        "quota_type": alteration.quota_type,
        "user": alteration.user,
        "client_id": alteration.client_id,
        "before": alteration.before,
        "after": alteration.after,
        "cluster_has": now,
        "outcome": outcome,
        "message": message,
        "reason": alteration.reason,
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


def _table(report: ChangeReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        justify: Any = "right" if title in _COLUMNS[1:4] else "left"
        table.add_column(title, justify=justify, no_wrap=True)
    for row in _rows(report):
        values = (value_text(row[name]) for name in ("before", "after", "cluster_has"))
        # Why it is refused stands below, in the error.
        message = "" if report.refused else one_line(row["message"] or "")
        table.add_row(*map(Text, (row["change"], *values, row["outcome"], message)))
    return table


def _counts(report: ChangeReport) -> str:
    counts = Counter(row["outcome"] for row in _rows(report))
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
