"""The what-if page: what clients would have got under each policy, as one HTML document."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_jobs.publish.facts.whatif import FIGURES, Row, modes_of, replays_of
from spark_jobs.publish.page import whatif_words as words
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.publish.page.whatif_pictures import client_pictures
from spark_jobs.publish.page.whatif_tables import clients_tables, harm_tables, totals_tables
from spark_jobs.publish.page.whatif_words import answer
from spark_jobs.settings import ReportSettings
from spark_jobs.wording.visible_text import shortened

WHATIF_PAGE_NAME = "whatif.html"
PICTURES_MAX = 10


class WhatifPolicy(NamedTuple):
    """A policy that was replayed; ``configuration`` is what it was given, None where nothing."""

    label: str
    policy: str
    title: str
    configuration: str | None


@dataclass(frozen=True, slots=True)
class WhatifFacts:
    """What a what-if page tells besides figures; the policies in the order to show them."""

    cluster: str
    day: dt.date
    policies: tuple[WhatifPolicy, ...]


def render_whatif(
    rows: Sequence[Row], facts: WhatifFacts, settings: ReportSettings | None = None
) -> str:
    """Return the page of ``rows``: the same text for the same rows, in whatever order."""
    settings = settings or ReportSettings()
    replays = replays_of(rows, [policy.label for policy in facts.policies])
    return page_template("whatif.html.j2").render(
        facts=facts,
        answer=answer(rows, replays),
        modes=modes_of(replays),
        labels_with_rows={replay.label for replay in replays},
        totals=totals_tables(rows, replays),
        harm=harm_tables(rows, replays, settings.table_rows_max),
        pictures=client_pictures(rows, replays, min(PICTURES_MAX, settings.pictures_max)),
        clients=clients_tables(rows, replays, settings.table_rows_max),
        figures=FIGURES,
        words=words,
        shortened=shortened,
    )


def configuration_text(
    config: Mapping[str, object], topics: Sequence[Mapping[str, object]] = ()
) -> str | None:
    """Return a policy's configuration as lines of text, keys as given; None where it has none.

    >>> print(configuration_text({"retries": 2, "quotas": [{"user": "a", "rate": 5}]}))
    retries = 2
    quotas:
      user = "a", rate = 5
    """
    found = {**config, "topics": [*topics]} if topics else config
    return "\n".join(line for key, value in found.items() for line in _lines(key, value)) or None


def _lines(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield f"{key}:"
        yield from (f"  {_pair(name, each)}" for name, each in value.items())
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        yield f"{key}:"
        yield from (f"  {', '.join(_pair(*pair) for pair in each.items())}" for each in value)
    else:
        yield _pair(key, value)


def _pair(key: str, value: object) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False, default=str)}"
