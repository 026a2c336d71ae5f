"""The clients of a day as a list that can be searched."""

from __future__ import annotations

from dataclasses import dataclass

from quota_pages.entities import EntityUse, entities_of
from quota_pages.page import Place, render
from quota_pages.whose import team_of
from spark_jobs.publish.facts.owner_facts import TeamOf
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import QUOTA_TYPES

ROWS_MAX = 100


@dataclass(frozen=True, slots=True)
class EntitiesQuery:
    """What is looked for: a text in the names or the owner, a quota type ("" = any), which part."""

    text: str = ""
    quota_type: str = ""
    page: int = 1


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
