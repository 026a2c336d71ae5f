"""Columns of tables from numbers: names as dictionaries, so that no row carries text of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.warehouse.tables import STR

_CODED = pa.dictionary(pa.int32(), STR)


def coded(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with its columns of text as dictionaries: the same in a Parquet file."""
    return pa.schema([f.with_type(_CODED) if f.type == STR else f for f in schema])


def table_of(
    columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema, n: int
) -> pa.Table:
    """Return ``n`` rows of ``schema``; columns that are not given are null."""
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in schema]
    cast = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(cast, schema=schema)


def named_sensors(codes: SensorCodes, sensor: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Return quota_user and quota_client_id of sensors."""
    return (
        named([user for user, _ in codes.names], sensor),
        named([client_id for _, client_id in codes.names], sensor),
    )


def named(names: Sequence[str | None], code: np.ndarray) -> pa.DictionaryArray:
    """Return the name of each ``code``: a null for a negative code and for a name of None."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    place: dict[str | None, int] = {name: i for i, name in enumerate(distinct)}
    # The last one is what a negative code looks up.
    of_code = np.array([*(place.get(name, -1) for name in names), -1], np.int32)
    index = of_code[code]
    has_nulls = len(distinct) < len(names) or len(index) == 0 or index.min() < 0
    indices = pa.array(index, mask=index < 0) if has_nulls else pa.array(index)
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, STR))


def constant(name: str, n: int) -> pa.DictionaryArray:
    """Return ``name``, n times."""
    return named([name], np.zeros(n, np.int32))


def finite(values: np.ndarray) -> pa.Array:
    """Return ``values`` with a null for each NaN or infinity."""
    return pa.array(values, mask=~np.isfinite(values))
