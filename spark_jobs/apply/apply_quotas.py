"""The commands apply and rollback: which changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from spark_jobs.apply.applied_changes import read_applications
from spark_jobs.apply.change_quotas import ChangeReport, Target, WantedChanges, change_quotas
from spark_jobs.apply.changes.applied_rows import APPLY, ROLLBACK, forecasts_of
from spark_jobs.apply.changes.change_key import chosen_changes, parse_selection
from spark_jobs.apply.changes.history import (
    application_to_take_back,
    cut_off_applications,
    taken_back,
)
from spark_jobs.apply.changes.quota_alteration import proposed_alterations
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import recommended_day


def apply_quotas(
    target: Target,
    day: dt.date | None,
    only: list[str],
    *,
    allow_delete: bool,
    show: Callable[[ChangeReport], None],
) -> None:
    """Apply what was proposed for a day (None: the last one with recommendations).

    ``only`` names entities, or changes, as :func:`parse_selection` takes them; empty = all.
    Raises BadInputError where nothing is proposed, and what :func:`change_quotas` raises.
    """
    selections = [parse_selection(text) for text in only]
    scope = recommended_day(target.warehouse, target.cluster, day)
    rows = read_table(scope, "recommendations").to_pylist()
    alterations = chosen_changes(proposed_alterations(rows), selections)
    if not alterations:
        raise BadInputError(
            f"Nothing is proposed for {scope.day} of the cluster {target.cluster!r} in "
            f"{target.warehouse}, so there is nothing to apply. Run 'quota-audit recommend', or "
            "give another --day."
        )
    wanted = WantedChanges(
        action=APPLY,
        alterations=alterations,
        evidence_day=str(scope.day),
        allow_delete=allow_delete,
        forecasts=forecasts_of(rows),
        cut_off=cut_off_applications(read_applications(target.warehouse, target.cluster)),
    )
    change_quotas(target, wanted, show)


def rollback_quotas(
    target: Target, application_id: str | None, *, show: Callable[[ChangeReport], None]
) -> None:
    """Take back an application (None: the last one that stands).

    It deletes what the application had created, and nothing else. Raises BadInputError where there
    is nothing to take back, and what :func:`change_quotas` raises.
    """
    history = read_applications(target.warehouse, target.cluster)
    application = application_to_take_back(history, application_id)
    wanted = WantedChanges(
        action=ROLLBACK,
        alterations=taken_back(application),
        evidence_day=application.common("evidence_day"),
        allow_delete=True,
        takes_back=application.application_id,
        kafka_cluster_id=application.common("kafka_cluster_id"),
        cut_off=cut_off_applications(history),
    )
    change_quotas(target, wanted, show)
