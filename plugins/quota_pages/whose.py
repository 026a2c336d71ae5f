"""Whose clients are, as pages say it beside their names."""

from __future__ import annotations

from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.followed import owners_of
from spark_jobs.publish.facts.owner_facts import TeamOf, teams_on
from spark_jobs.warehouse.scope import RunScope


def team_of(scope: RunScope) -> TeamOf:
    """Return who owns clients on a day.

    Nobody where the owners' file cannot be read: the day's own page says why.
    """
    try:
        return teams_on(owners_of(scope.warehouse), scope.day)
    except BadInputError:
        return teams_on(None, scope.day)
