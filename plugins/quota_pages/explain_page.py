"""The page that explains a request, with the form that asks for it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from pathlib import Path

from quota_pages.addresses import Addresses
from quota_pages.audits import published_audit
from quota_pages.page import Place, render
from spark_jobs.errors import BadInputError
from spark_jobs.explain.explain_request import Asked, explained
from spark_jobs.explain.explanation import Explanation
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import CLUSTER_PATTERN

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
_ANYTHING = ("user", "client_id", "line")
_LENGTH_MAX = 32_767
"""No string of Kafka is longer."""


def explain_answer(warehouse: Path, form: Mapping[str, str], to: Addresses) -> tuple[str, int]:
    """Return the page and its HTTP status: 200, or 400 where the question has no answer.

    ``form`` has texts by the names of ``FIELDS``; other names are passed over.
    """
    asked = {name: form.get(name, "").strip()[:_LENGTH_MAX] for name, _, _ in FIELDS}
    if not any(asked[name] for name in _ANYTHING):
        return explanation_page(_place(warehouse, asked, to), asked), 200
    try:
        found = explained(warehouse, _cluster(asked), _day(asked), _asked(asked))
    except BadInputError as error:
        return explanation_page(Place(to), asked, error=str(error)), 400
    return explanation_page(_place(warehouse, asked, to), asked, found), 200


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


def _place(warehouse: Path, form: Mapping[str, str], to: Addresses) -> Place:
    """Return the place of the audit asked about; one outside of audits where there is none."""
    try:
        cluster, day = _cluster(form), _day(form)
    except BadInputError:
        return Place(to)
    if day is None or published_audit(RunScope(warehouse, cluster, day)) is None:
        return Place(to)
    return Place(to, cluster, day, "explain")


def _asked(form: Mapping[str, str]) -> Asked:
    broker = form["broker"]
    if broker and not re.fullmatch(r"\d{1,9}", broker):
        raise BadInputError(f"Broker {broker[:40]!r}: expected the number of a broker, or nothing.")
    return Asked(
        line=form["line"] or None,
        user=form["user"] or None,
        client_id=form["client_id"] or None,
        at=form["at"] or None,
        broker_id=int(broker) if broker else None,
    )


def _cluster(form: Mapping[str, str]) -> str:
    """Return the cluster, whose name is part of a path and never leads out of it."""
    cluster = form["cluster"] or "default"
    if not re.fullmatch(CLUSTER_PATTERN, cluster):
        raise BadInputError(f"Cluster {cluster!r}: there is none of such a name.")
    return cluster


def _day(form: Mapping[str, str]) -> dt.date | None:
    try:
        return dt.date.fromisoformat(form["day"]) if form["day"] else None
    except ValueError as error:
        raise BadInputError(
            f"Day {form['day']!r}: expected one like 2026-11-21, or nothing."
        ) from error
