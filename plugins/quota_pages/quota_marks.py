"""The quota changes that may have moved a sensor's bound, for marks in its chart."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import pyarrow.dataset as ds

from quota_pages.history import Wanted
from quota_pages.kept_tables import read_kept
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import DEFAULT
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.numbers import rate

MARKS_MAX = 200
_COLUMNS = ["quota_user", "quota_client_id", "bound", "broker_id", "valid_from_ms",
            "valid_until_ms"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuotaMark:
    """One moment at which a value was set or removed; ``broker_id`` None: on every broker."""

    at_ms: int
    broker_id: int | None
    text: str


def quota_marks(scope: RunScope, wanted: Wanted) -> list[QuotaMark]:
    """Return the changes in the range, in order, of every entity that may limit the sensor.

    Those are the client's own and the defaults at its levels (Kafka:
    ``ClientQuotaManager.quotaEntity``).
    """
    where = (
        (ds.field("quota_type") == wanted.quota_type)
        & _part("quota_user", wanted.quota_user)
        & _part("quota_client_id", wanted.quota_client_id)
    )
    rows = read_kept(scope, "quota_changes", _COLUMNS, where).to_pylist()
    key = itemgetter("quota_user", "quota_client_id", "broker_id")
    begun = {(key(row), row["valid_from_ms"]) for row in rows}
    marks = []
    for row in rows:
        user, client_id, broker_id = key(row)
        name, until_ms = entity_name(user, client_id), row["valid_until_ms"]
        value = rate(row["bound"], wanted.quota_type)
        marks.append(QuotaMark(row["valid_from_ms"], broker_id, f"{name}: {value}"))
        if until_ms is not None and (key(row), until_ms) not in begun:
            marks.append(QuotaMark(until_ms, broker_id, f"{name}: removed"))
    inside = [mark for mark in marks if wanted.from_ms <= mark.at_ms < wanted.until_ms]
    return sorted(inside, key=lambda mark: (mark.at_ms, mark.text))[:MARKS_MAX]


def _part(column: str, name: str) -> ds.Expression:
    field = ds.field(column)
    if not name:
        return field.is_null()
    return field.isin([name, DEFAULT])
