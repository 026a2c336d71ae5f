"""Decisions of brokers that are newer than what is known: replayed as by the newest, not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.replay.taken_back import rewrite_decisions, without_verdicts
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

BROKER_NOT_KNOWN = "broker_not_known"


def unknown_brokers(scope: RunScope) -> frozenset[int]:
    """Return the brokers of a day that are newer than what is known."""
    rows = read_table(scope, "brokers", ["broker_id", "newer_than_known"]).to_pylist()
    return frozenset(row["broker_id"] for row in rows if row["newer_than_known"])


def leave_unjudged(folder: Path, brokers: Collection[int]) -> Counter[str]:
    """Take back the verdicts on ``brokers`` in the staged files of ``decisions``.

    Returns by how many more or fewer each verdict is given then. What had no bound, and was not
    throttled, stays ``no_quota``.
    """
    return rewrite_decisions(
        sorted(folder.glob("*.parquet")) if brokers else (),
        lambda _, rows: without_verdicts(rows, _is_decided(rows, brokers), BROKER_NOT_KNOWN),
    )


def _is_decided(rows: pa.Table, brokers: Collection[int]) -> pa.Array:
    is_unknown = pc.is_in(rows["broker_id"], pa.array(sorted(brokers), pa.int32()))
    return pc.and_(is_unknown, pc.or_(pc.is_valid(rows["bound"]), pc.is_valid(rows["reason"])))
