"""The command ``proposals``: what the recommendations of a day would change."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.apply.changes.change_key import change_key
from spark_jobs.apply.changes.quota_alteration import PROPOSED, proposed_alterations
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import recommended_day
from spark_jobs.wording.numbers import duration, exact_rate
from spark_jobs.wording.visible_text import visible

# A proposal on one line, whatever the terminal's width.
_WIDTH_MAX = 10_000
_COLUMNS = ("change", "now", "proposed", "throttled", "with it", "earlier days", "sure", "why")
_NUMBERS = _COLUMNS[1:6]
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
    scope = recommended_day(warehouse, cluster, day)
    rows = read_table(scope, "recommendations").to_pylist()
    proposals = proposal_objects(rows)
    counts = dict(sorted(Counter(row["status"] for row in rows).items()))
    if as_json:
        found = {"cluster": cluster, "day": str(scope.day), "recommendations": counts}
        print(json.dumps(found | {"proposals": proposals}))
        return
    typer.echo(f"proposals for the cluster {cluster}, {scope.day} UTC")
    if proposals:
        console = Console(width=_WIDTH_MAX, soft_wrap=True, highlight=False)
        table = _table(proposals)
        console.print(table, width=console.measure(table).maximum)
    said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    typer.echo(said or "no recommendations")


def proposal_objects(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the proposed rows of ``tables.RECOMMENDATIONS`` as JSON has them.

    ``change`` is the name that ``quota-audit apply --only`` takes; ``before`` is the entity's own
    value, ``after`` None removes it. In order of the throttle time they are about, longest first.
    """
    proposed = [row for row in rows if row["status"] == PROPOSED]
    objects = [
        {
            "change": change_key(alteration),
            "quota_type": alteration.quota_type,
            "user": alteration.user,
            "client_id": alteration.client_id,
            "before": alteration.before,
            "after": alteration.after,
            **{name: row[name] for name in _TAKEN_OVER},
        }
        for row, alteration in zip(proposed, proposed_alterations(proposed), strict=True)
    ]
    return sorted(objects, key=lambda o: (-(o["throttle_time_ms_before"] or 0), o["change"]))


def _table(proposals: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=True)
    for proposal in proposals:
        values = (exact_rate(proposal[at], proposal["quota_type"]) for at in ("before", "after"))
        times = (duration(proposal[f"throttle_time_ms_{at}"]) for at in ("before", "after"))
        trials = proposal["backtest_trials"]
        kept = f"{proposal['backtest_kept']} of {trials}" if trials else "–"
        cells = (proposal["change"], *values, *times, kept, proposal["confidence"])
        table.add_row(*map(Text, (*cells, visible(proposal["reason"]))))
    return table
