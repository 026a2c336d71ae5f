"""Verdicts taken back from staged decisions, of which more is known once all are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.warehouse.parquet import parquet_file, write_parquet

NOT_JUDGED = "indeterminate"


def rewrite_decisions(
    paths: Iterable[Path], rewritten: Callable[[Path, pa.Table], pa.Table]
) -> Counter[str]:
    """Replace files of ``decisions`` by what ``rewritten`` makes of each one's rows.

    Returns by how many more or fewer each verdict is given then.
    """
    change: Counter[str] = Counter()
    for path in paths:
        with parquet_file(path) as opened:
            rows = opened.read()
        others = rewritten(path, rows)
        change.update(others["verdict"].to_pylist())
        change.subtract(rows["verdict"].to_pylist())
        staged = path.with_name(f".{path.name}")
        write_parquet(others, "decisions", staged)
        staged.replace(path)
    return change


def without_verdicts(rows: pa.Table, taken_back: pa.Array, reason: str) -> pa.Table:
    """Return ``rows`` of ``decisions``; those of the mask cannot be decided, for ``reason``."""
    for name, said in (("verdict", NOT_JUDGED), ("reason", reason)):
        place = rows.schema.get_field_index(name)
        texts = rows[name].cast(pa.string())
        changed = pc.if_else(taken_back, pa.scalar(said), texts).cast(rows.schema.field(name).type)
        rows = rows.set_column(place, rows.schema.field(name), changed)
    return rows
