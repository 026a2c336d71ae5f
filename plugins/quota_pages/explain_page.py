"""The explanation of one request as a page with the form that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quota_pages.page import Place, render

if TYPE_CHECKING:
    from spark_jobs.explain.explanation import Explanation

FIELDS = (
    ("cluster", "Cluster", "default"),
    ("day", "Day", "newest"),
    ("user", "User", ""),
    ("client_id", "Client-id", ""),
    ("broker", "Broker", "any"),
    ("at", "At", "end of the day"),
    ("line", "Or a line of the log", "broker=1/kafka-request.log:120"),
)
"""Name, label and what is meant where nothing is filled in, of each field of the form."""


def explanation_page(
    place: Place,
    asked: Mapping[str, str],
    found: Explanation | None = None,
    error: str | None = None,
) -> str:
    """Return the page; ``asked`` is what the form was filled in with, by the names of FIELDS."""
    filled_in = {name: asked.get(name, "") for name, _, _ in FIELDS}
    return render(
        "explain.html.j2", place, fields=FIELDS, asked=filled_in, found=found, error=error
    )
