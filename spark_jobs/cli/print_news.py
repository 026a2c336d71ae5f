"""The command ``news``: a day's message, or the messages of each owner."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.news import News, news_of
from spark_jobs.publish.facts.news_words import LISTED_MAX, news_text, owner_text
from spark_jobs.publish.follow.owners import Owner
from spark_jobs.publish.news_record import news_json
from spark_jobs.warehouse.scope import RunScope, days_of


def print_news(
    warehouse: Path,
    cluster: str,
    day: dt.date | None,
    *,
    owner: str | None,
    by_owner: bool,
    lists_all: bool,
    as_json: bool = False,
) -> None:
    """Print what is new on ``day`` (None: the last audited one); see :func:`news_text`.

    Raises BadInputError where the day was not audited, no such owner is known, or a file of
    acknowledgements or owners cannot be read. JSON says the last itself: a program asks once, and
    the day's news matter more.
    """
    news = news_of(audited_day(warehouse, cluster, day))
    listed_max = len(news.changes) if lists_all else LISTED_MAX
    if as_json:
        sys.stdout.write(f"{news_json(news, listed_max)}\n")
        return
    if news.errors:
        raise BadInputError("\n".join(news.errors))
    if owner is not None:
        sys.stdout.write(owner_text(news, _owner(news, owner)))
    elif by_owner:
        whose: list[Owner | None] = [*(news.owners.teams() if news.owners else ()), None]
        sys.stdout.write("\n".join(owner_text(news, one) for one in whose))
    else:
        sys.stdout.write(news_text(news, listed_max))


def audited_day(warehouse: Path, cluster: str, day: dt.date | None) -> RunScope:
    """Return the published audit of ``day``; None: of the last one.

    Raises BadInputError where there is none.
    """
    days = days_of(warehouse, cluster, "findings")
    if not days:
        raise BadInputError(
            f"{warehouse} holds no audited day of cluster {cluster!r}: audit one with "
            "'quota-audit run ARCHIVE --warehouse …', or name another with --cluster."
        )
    if day is not None and day not in days:
        raise BadInputError(
            f"{day} of cluster {cluster!r} was not audited: {warehouse} has {len(days)} days from "
            f"{days[0]} to {days[-1]}."
        )
    return RunScope(warehouse, cluster, day or days[-1])


def _owner(news: News, team: str) -> Owner:
    teams = news.owners.teams() if news.owners else ()
    found = next((one for one in teams if one.team == team), None)
    if found is None:
        known = ", ".join(sorted({one.team for one in teams})) or "none, as there is no owners file"
        raise BadInputError(f"No owner has the name {team!r}. Known are: {known}.")
    return found
