"""A dataset's rows grouped batch by batch: what is held is one row for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero

Aggregate = tuple[str, str, pc.FunctionOptions | None, str]
"""Column, Acero's function, its options, and what the result is called."""


def grouped(
    data: ds.Dataset,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate] = (),
    where: pc.Expression | None = None,
    also_read: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return a row for each group of ``keys``, of the rows ``where`` (all of them without).

    ``also_read`` are the columns of ``where`` that are neither keys nor aggregated.
    """
    columns = list(dict.fromkeys([*keys, *(column for column, *_ in aggregates), *also_read]))
    scan = acero.ScanNodeOptions(data, columns=columns, filter=where)
    steps = [acero.Declaration("scan", scan)]
    if where is not None:
        # A scan passes over files and row groups only.
        steps.append(acero.Declaration("filter", acero.FilterNodeOptions(where)))
    options = acero.AggregateNodeOptions(list(aggregates), keys=list(keys))
    steps.append(acero.Declaration("aggregate", options))
    rows: list[dict[str, Any]] = acero.Declaration.from_sequence(steps).to_table().to_pylist()
    return rows
