"""Which day's recommendations are meant."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.warehouse import RunScope, days_of


def recommended_day(warehouse: Path, cluster: str, day: dt.date | None) -> RunScope:
    """Return the scope of ``day``, or (None) of the last day with recommendations.

    Raises BadInputError where the warehouse has no recommendations of that day.
    """
    days = days_of(warehouse, cluster, "recommendations")
    if not days or day not in (None, *days):
        when = f" for {day}" if day else ""
        there = ", ".join(map(str, days)) or "none"
        raise BadInputError(
            f"{warehouse} holds no recommendations of the cluster {cluster!r}{when}; the days "
            f"there are: {there}. Run 'quota-audit run' on an archive first, or give another --day."
        )
    return RunScope(warehouse, cluster, day or days[-1])
