"""What every page has in common: its frame, its way through the other pages, its files."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader

from quota_pages.addresses import Addresses
from spark_jobs.publish.page.page_template import page_environment

STATIC = {
    "pages.css": "text/css",
    "chart.js": "text/javascript",
    "echarts.common.min.js": "text/javascript",
}
"""Files that come with the package, and their media types."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""Nothing but what the package brings runs, and nothing is asked of another host."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the pages one is; ``day`` None: on a page about no single day."""

    to: Addresses
    cluster: str | None = None
    day: dt.date | None = None
    tab: str = ""


def render(template: str, place: Place, **facts: Any) -> str:
    """Return a page of ``quota_pages/templates``."""
    return (
        _environment()
        .get_template(template)
        .render(place=place, to=place.to, version=static_version, **facts)
    )


def static_file(name: str) -> bytes | None:
    """Return a file of :data:`STATIC`; None for any other name."""
    return _read(name) if name in STATIC else None


@cache
def _environment() -> Environment:
    report = page_environment()
    own = PackageLoader("quota_pages")
    return report.overlay(
        loader=ChoiceLoader([loader for loader in (own, report.loader) if loader])
    )


@cache
def _read(name: str) -> bytes:
    return (files("quota_pages") / "static" / name).read_bytes()


@cache
def static_version(name: str) -> str:
    """Return the digest of a static file's content, 12 hexadecimal digits."""
    return blake2b(_read(name), digest_size=6).hexdigest()
