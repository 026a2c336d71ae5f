"""What is new on a day, read from the findings of the days before and the files people keep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.news import News
from spark_jobs.publish.facts.quality import worst_quality
from spark_jobs.publish.follow.changes import Change, DayFindings, changes_of
from spark_jobs.publish.follow.kept_files import (
    Acknowledgement,
    Owners,
    read_acknowledgements,
    read_owners,
)
from spark_jobs.publish.follow.problem import Problem, WorseWhen, problems_of
from spark_jobs.publish.read_quality import stages_of
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.settings import FollowSettings
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS

_DAY_MS = ROLLUP_SPANS_MS[-1]


def followed_days(scope: RunScope, settings: FollowSettings | None = None) -> list[DayFindings]:
    """Return the audited days up to and with that of ``scope``, oldest first."""
    settings = settings or FollowSettings()
    earliest = scope.day - dt.timedelta(days=settings.history_days)
    known = days_of(scope.warehouse, scope.cluster, "findings")
    days = [day for day in known if earliest <= day < scope.day]
    scopes = [*(scope.on(day) for day in days), scope]
    found = [problems_of(read_table(one, "findings").to_pylist(), scope.cluster) for one in scopes]
    ever = {problem.sensor for problems in found for problem in problems.values()}
    return [
        DayFindings(one.day, problems, _seen(one, problems, ever))
        for one, problems in zip(scopes, found, strict=True)
    ]


def changes_on(
    days: list[DayFindings],
    acknowledgements: Sequence[Acknowledgement],
    settings: FollowSettings | None = None,
) -> list[Change]:
    """Return the change of each problem on the last of ``days``, what is worst first."""
    settings = settings or FollowSettings()
    worse_when = WorseWhen(settings.worse_ratio, settings.worse_decisions)
    return changes_of(days, acknowledgements, worse_when)


def acknowledged_path(warehouse: Path, settings: FollowSettings) -> Path:
    """Return the path of the file of acknowledgements, written or not."""
    return settings.acknowledged or warehouse / "acknowledged.yaml"


def acknowledgements_of(
    warehouse: Path, settings: FollowSettings | None = None
) -> list[Acknowledgement]:
    """Return the acknowledgements; none where there is no file.

    Raises BadInputError where the file cannot be read.
    """
    settings = settings or FollowSettings()
    path = acknowledged_path(warehouse, settings)
    text = _text(path)
    return [] if text is None else read_acknowledgements(text, str(path))


def owners_of(warehouse: Path, settings: FollowSettings | None = None) -> Owners | None:
    """Return the owners of clients; None where no file names them.

    Raises BadInputError where the file cannot be read, or was named and is not there.
    """
    settings = settings or FollowSettings()
    path = settings.owners or warehouse / "owners.yaml"
    text = _text(path)
    if text is None and settings.owners is not None:
        raise BadInputError(
            f"There is no file {path}, which QUOTA_AUDIT_FOLLOW_OWNERS names. Write it, or leave "
            "the setting out."
        )
    return None if text is None else read_owners(text, str(path))


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None


def _seen(
    scope: RunScope, problems: Mapping[str, Problem], ever: Iterable[SensorKey]
) -> frozenset[SensorKey]:
    """Return those of the sensors ``ever`` in trouble that counted something on the day."""
    missing = set(ever) - {problem.sensor for problem in problems.values()}
    if not missing:
        return frozenset(ever)
    of_day = (ds.field("span_ms") == _DAY_MS) & _is_any_of(missing)
    rows = read_table(scope, "rate_rollups", [*SENSOR_COLUMNS], of_day).to_pylist()
    return frozenset(SensorKey(**row) for row in rows) | (set(ever) - missing)


def _is_any_of(sensors: set[SensorKey]) -> ds.Expression:
    """Return a condition that keeps at least the rows of these sensors."""
    users = pa.array(sorted({sensor.quota_user for sensor in sensors}))
    client_ids = pa.array(sorted({sensor.quota_client_id for sensor in sensors}))
    return ds.field("quota_user").isin(users) & ds.field("quota_client_id").isin(client_ids)


Kept = TypeVar("Kept")


def news_of(scope: RunScope, settings: FollowSettings | None = None) -> News:
    """Return the news of the day of ``scope``, as it is published."""
    scope = scope.pinned()
    days = followed_days(scope, settings)
    acknowledgements, why_none_is_known = _or_none(acknowledgements_of, scope.warehouse, settings)
    owners, why_none_owns = _or_none(owners_of, scope.warehouse, settings)
    stages = stages_of(scope)
    return News(
        cluster=scope.cluster,
        day=scope.day,
        before=days[-2].day if len(days) > 1 else None,
        changes=changes_on(days, acknowledgements or (), settings),
        data_quality=worst_quality(stages),
        broken_rules=tuple(
            f"{table.table}: {rule.rule}" for stage in stages for table, rule in stage.broken_rules
        ),
        owners=owners,
        errors=tuple(why for why in (why_none_is_known, why_none_owns) if why is not None),
    )


def _or_none(
    read: Callable[[Path, FollowSettings | None], Kept],
    warehouse: Path,
    settings: FollowSettings | None,
) -> tuple[Kept | None, str | None]:
    """Return a file's content, or its error: no file that people keep may stop a day's news."""
    try:
        return read(warehouse, settings), None
    except BadInputError as error:
        return None, str(error)
