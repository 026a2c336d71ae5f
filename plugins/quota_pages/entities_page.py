"""The clients of a day, and the page that lists them: by which quota, how much throttled, whose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from quota_pages.addresses import entity_id
from quota_pages.kept_tables import stamp_of
from quota_pages.page import Place, render
from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.owner_facts import TeamOf, teams_on
from spark_jobs.publish.read_facts import owners_of
from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS
from spark_jobs.wording.names import NamedEntity

DAYS_KEPT_MAX = 40
"""A list has a row per client and quota type, not per broker: a thousand clients are 1 MB."""
_DAY_MS = ROLLUP_SPANS_MS[-1]
_MEASURED = ["rate", "bound_min", "bound_max", "throttled_requests", "throttle_time_ms"]
_OVER_BROKERS = {
    "bound_min": "min",
    "bound_max": "max",
    "use": "max",
    "throttled_requests": "sum",
    "throttle_time_ms": "sum",
}
ROWS_MAX = 100


@dataclass(frozen=True, slots=True)
class EntitiesQuery:
    """What is looked for: a text in the names or the owner, a quota type ("" = any), which part."""

    text: str = ""
    quota_type: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class EntityUse(NamedEntity):
    """One client's day under one quota type, over all brokers."""

    entity_id: str
    quota_type: str
    quota_user: str
    quota_client_id: str
    brokers: int
    bound_min: float | None
    bound_max: float | None
    use: float | None  # the highest rate, as a share of its broker's bound
    throttled_requests: int
    throttle_time_ms: int


def entities_of(scope: RunScope) -> tuple[EntityUse, ...]:
    """Return the clients of a day, the longest throttled first, then the closest to their bound.

    Kept for DAYS_KEPT_MAX days, until the day is audited again.
    """
    stamp = stamp_of(scope.partition_dir("rate_rollups"))
    return () if stamp is None else _entities(scope, stamp)


@lru_cache(maxsize=DAYS_KEPT_MAX)
def _entities(scope: RunScope, _stamp: tuple[int, int]) -> tuple[EntityUse, ...]:
    columns = [*ENTITY_COLUMNS, *_MEASURED]
    rows = read_table(scope, "rate_rollups", columns, ds.field("span_ms") == _DAY_MS)
    rows = rows.append_column("use", pc.divide(rows["rate"], rows["bound_max"]))
    summed = rows.group_by(list(ENTITY_COLUMNS)).aggregate(
        [([], "count_all"), *_OVER_BROKERS.items()]
    )
    names = [*ENTITY_COLUMNS, "brokers", *_OVER_BROKERS]
    return tuple(sorted(map(_entity, summed.rename_columns(names).to_pylist()), key=_rank))


def _entity(row: dict[str, Any]) -> EntityUse:
    if row["quota_type"] == "controller_mutation_rate":
        row["use"] = None
    return EntityUse(entity_id=entity_id(row["quota_user"], row["quota_client_id"]), **row)


def _rank(one: EntityUse) -> tuple[Any, ...]:
    kind = QUOTA_TYPES.index(one.quota_type) if one.quota_type in QUOTA_TYPES else len(QUOTA_TYPES)
    return (
        -one.throttle_time_ms, one.bound_max is None, -(one.use or 0.0), one.quota_user,
        one.quota_client_id, kind,
    )  # fmt: skip


def entities_page(place: Place, scope: RunScope, query: EntitiesQuery) -> str:
    """Return the list of the day's clients that ``query`` asks for."""
    teams = team_of(scope)
    found = [one for one in entities_of(scope) if _is_asked_for(one, query, teams)]
    pages = max(-(-len(found) // ROWS_MAX), 1)
    page = min(max(query.page, 1), pages)
    return render(
        "entities.html.j2",
        place,
        query=query,
        found=len(found),
        shown=found[(page - 1) * ROWS_MAX : page * ROWS_MAX],
        page=page,
        pages=pages,
        quota_types=QUOTA_TYPES,
        team_of=teams,
    )


def _is_asked_for(one: EntityUse, query: EntitiesQuery, teams: TeamOf) -> bool:
    if query.quota_type and one.quota_type != query.quota_type:
        return False
    text = query.text.casefold()
    team = teams(one.quota_user, one.quota_client_id) or ""
    return any(text in name.casefold() for name in (one.quota_user, one.quota_client_id, team))


def team_of(scope: RunScope) -> TeamOf:
    """Return the lookup of the team that owns a client on the day of ``scope``.

    It finds nobody where the owners' file cannot be read: the day's own page says why.
    """
    try:
        return teams_on(owners_of(scope.warehouse), scope.day)
    except BadInputError:
        return teams_on(None, scope.day)
