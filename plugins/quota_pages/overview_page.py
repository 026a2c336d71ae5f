"""The first page: every cluster and day, what each audit found, and which needs a look."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from quota_pages.audits import PublishedAudit, published_audits
from quota_pages.page import Place, render
from spark_jobs.publish.audit_outcome import AuditOutcome
from spark_jobs.wording.numbers import count

DAYS_MAX = 31
CHART_CLUSTERS_MAX = 8


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster's audits by day, aligned with the page's days; None: not audited."""

    cluster: str
    audits: tuple[PublishedAudit | None, ...]


def overview_page(place: Place, warehouse: Path, dag_id: str) -> str:
    """Return the page over the last DAYS_MAX audited days of all clusters."""
    audits = published_audits(warehouse)
    days = tuple(sorted({audit.day for audit in audits})[-DAYS_MAX:])
    shown = [audit for audit in audits if audit.day in days]
    rows = _rows(shown, days)
    return render(
        "overview.html.j2",
        place,
        days=days,
        rows=rows,
        clusters={row.cluster: _newest_first(row) for row in rows},
        left_out=len(audits) - len(shown),
        chart=throttle_chart(rows, days) if any(audit.outcome for audit in shown) else None,
        warehouse=warehouse,
        dag_id=dag_id,
        news_in_words=news_in_words,
    )


def news_in_words(found: AuditOutcome) -> str:
    """Return the numbers of problems new, worse or gone since the audited day before, in words.

    >>> from types import SimpleNamespace
    >>> news_in_words(SimpleNamespace(new=2, worse=0, gone=1))
    '2 new, 1 gone'
    """
    numbers = {"new": found.new, "worse": found.worse, "gone": found.gone}
    return ", ".join(f"{count(number)} {name}" for name, number in numbers.items() if number)


def throttle_chart(rows: list[ClusterRow], days: tuple[dt.date, ...]) -> dict[str, Any]:
    """Return throttle seconds by day and cluster, those with most by name, the rest as one."""
    seconds = {row.cluster: [_throttle_s(audit) for audit in row.audits] for row in rows}
    ranked = sorted(seconds, key=lambda cluster: (-sum(v or 0 for v in seconds[cluster]), cluster))
    series = [{"name": name, "values": seconds[name]} for name in ranked[:CHART_CLUSTERS_MAX]]
    rest = ranked[CHART_CLUSTERS_MAX:]
    if rest:
        of_rest = (seconds[name] for name in rest)
        together = [sum(v or 0 for v in of_day) for of_day in zip(*of_rest, strict=True)]
        series.append({"name": f"{len(rest)} others", "values": together})
    return {"kind": "days", "days": [day.isoformat() for day in days], "series": series}


def _rows(audits: list[PublishedAudit], days: tuple[dt.date, ...]) -> list[ClusterRow]:
    by_cluster = sorted(audits, key=lambda audit: audit.cluster)
    rows = []
    for cluster, group in groupby(by_cluster, key=lambda audit: audit.cluster):
        of_day = {audit.day: audit for audit in group}
        rows.append(ClusterRow(cluster, tuple(of_day.get(day) for day in days)))
    return rows


def _newest_first(row: ClusterRow) -> list[PublishedAudit]:
    return [audit for audit in reversed(row.audits) if audit is not None]


def _throttle_s(audit: PublishedAudit | None) -> float | None:
    return audit.outcome.throttle_time_ms / 1000 if audit and audit.outcome else None
