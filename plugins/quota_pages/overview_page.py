"""The first page: every cluster and day, what each audit found, and which needs a look."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from quota_pages.audits import PublishedAudit, published_audits
from quota_pages.page import Place, render
from spark_jobs.publish.audit_outcome import AuditOutcome
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import possible_days
from spark_jobs.wording.numbers import count

DAYS_MAX = 31
CHART_CLUSTERS_MAX = 8


ByDay = list[PublishedAudit | None]
"""One cluster's audits, aligned with the page's days; None: not audited."""


def overview_page(place: Place, warehouse: Path, dag_id: str) -> str:
    """Return the page over the last DAYS_MAX audited days of all clusters.

    Days of the future stand apart: a wrong clock made them.
    """
    audits = published_audits(warehouse)
    latest = IngestSettings().latest_day()
    possible = possible_days({audit.day for audit in audits}, latest)
    days = tuple(sorted(possible)[-DAYS_MAX:])
    shown = [audit for audit in audits if audit.day in days]
    future = [audit for audit in audits if audit.day not in possible]
    rows = _rows(shown, days)
    return render(
        "overview.html.j2",
        place,
        days=days,
        rows=rows,
        clusters={name: [a for a in reversed(by_day) if a] for name, by_day in rows.items()},
        future=future,
        left_out=len(audits) - len(shown) - len(future),
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


def throttle_chart(rows: dict[str, ByDay], days: tuple[dt.date, ...]) -> dict[str, Any]:
    """Return throttle seconds by day and cluster, those with most by name, the rest as one."""
    seconds = {name: [_throttle_s(audit) for audit in by_day] for name, by_day in rows.items()}
    ranked = sorted(seconds, key=lambda cluster: (-sum(v or 0 for v in seconds[cluster]), cluster))
    series = [{"name": name, "values": seconds[name]} for name in ranked[:CHART_CLUSTERS_MAX]]
    rest = ranked[CHART_CLUSTERS_MAX:]
    if rest:
        of_rest = (seconds[name] for name in rest)
        together = [sum(v or 0 for v in of_day) for of_day in zip(*of_rest, strict=True)]
        series.append({"name": f"{len(rest)} others", "values": together})
    return {"kind": "days", "days": [day.isoformat() for day in days], "series": series}


def _rows(audits: list[PublishedAudit], days: tuple[dt.date, ...]) -> dict[str, ByDay]:
    found = {(audit.cluster, audit.day): audit for audit in audits}
    names = sorted({audit.cluster for audit in audits})
    return {name: [found.get((name, day)) for day in days] for name in names}


def _throttle_s(audit: PublishedAudit | None) -> float | None:
    return audit.outcome.throttle_time_ms / 1000 if audit and audit.outcome else None
