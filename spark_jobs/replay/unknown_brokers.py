"""Decisions of brokers that are newer than what is known: replayed as by the newest, not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.warehouse.parquet import parquet_file, write_parquet
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

NOT_JUDGED, BROKER_NOT_KNOWN = "indeterminate", "broker_not_known"


def unknown_brokers(scope: RunScope) -> frozenset[int]:
    """Return the brokers of a day that are newer than what is known."""
    rows = read_table(scope, "brokers", ["broker_id", "newer_than_known"]).to_pylist()
    return frozenset(row["broker_id"] for row in rows if row["newer_than_known"])


def leave_unjudged(folder: Path, brokers: Collection[int]) -> Counter[str]:
    """Take back the verdicts on ``brokers`` in the staged files of ``decisions``.

    Returns by how many more or fewer each verdict is given then.
    """
    change: Counter[str] = Counter()
    for path in sorted(folder.glob("*.parquet")) if brokers else ():
        with parquet_file(path) as opened:
            rows = opened.read()
        unjudged = without_verdicts(rows, brokers)
        change.update(unjudged["verdict"].to_pylist())
        change.subtract(rows["verdict"].to_pylist())
        staged = path.with_name(f".{path.name}")
        write_parquet(unjudged, "decisions", staged)
        staged.replace(path)
    return change


def without_verdicts(rows: pa.Table, brokers: Collection[int]) -> pa.Table:
    """Return ``rows`` of ``decisions`` that accuse none of ``brokers``, and agree with none.

    What had no bound, and was not throttled, stays ``no_quota``.
    """
    is_unknown = pc.is_in(rows["broker_id"], pa.array(sorted(brokers), pa.int32()))
    is_decided = pc.or_(pc.is_valid(rows["bound"]), pc.is_valid(rows["reason"]))
    is_unknown = pc.and_(is_unknown, is_decided)
    for name, said in (("verdict", NOT_JUDGED), ("reason", BROKER_NOT_KNOWN)):
        place = rows.schema.get_field_index(name)
        texts = rows[name].cast(pa.string())
        changed = pc.if_else(is_unknown, pa.scalar(said), texts).cast(rows.schema.field(name).type)
        rows = rows.set_column(place, rows.schema.field(name), changed)
    return rows
