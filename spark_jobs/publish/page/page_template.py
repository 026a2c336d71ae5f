"""The templates of pages, and the words and numbers that they may use."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from spark_jobs.publish.facts.news import shown
from spark_jobs.wording import names, numbers
from spark_jobs.wording.visible_text import shortened, visible


def page_template(name: str) -> Template:
    """Return the template ``name`` of ``publish/page/templates``."""
    return page_environment().get_template(name)


@cache
def page_environment() -> Environment:
    """Return the templates of reports, with the filters and words that every page has."""
    environment = Environment(
        loader=PackageLoader("spark_jobs.publish.page"),
        # Client ids, users and log lines are text of strangers: nothing is HTML unless marked.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": numbers.count,
        "change": numbers.change,
        "duration": numbers.duration,
        "exact_rate": numbers.exact_rate,
        "in_words": names.in_words,
        "iso": numbers.iso,
        "share": numbers.share,
        "shortened": shortened,
        "shown": shown,
        "significant": numbers.significant,
        "time": numbers.time_of_day,
        "value": numbers.rate,
        "visible": visible,
    }
    environment.globals |= {
        "FINDING_KINDS": names.FINDING_KINDS,
        "REASONS": names.REASONS,
        "QUARANTINE_REASONS": names.QUARANTINE_REASONS,
        "SOURCES": names.SOURCES,
        "VERSION_SOURCES": names.VERSION_SOURCES,
        "RATE_PROFILES": names.RATE_PROFILES,
        "entity_name": names.entity_name,
        "plural": names.plural,
    }
    return environment
