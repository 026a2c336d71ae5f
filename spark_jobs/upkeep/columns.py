"""Rows of an older version as columns of a newer one: what they lack is null."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.errors import BadInputError


def with_columns_of(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows`` with the columns of ``schema``, fields of structs included; others are left.

    Raises BadInputError where a column is missing that must have a value.
    """
    missing = [f.name for f in schema if not f.nullable and f.name not in rows.schema.names]
    if missing:
        raise BadInputError(
            f"columns are missing that nothing can stand for: {', '.join(missing)}. The table is "
            "older than can be migrated: audit its day again."
        )
    columns = [
        _as_type(rows[field.name].combine_chunks(), field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(wanted):
        known = {field.name for field in values.type}
        fields = [
            _as_type(pa.compute.struct_field(values, child.name), child.type)
            if child.name in known
            else pa.nulls(len(values), child.type)
            for child in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=values.is_null())
    return values.cast(wanted)
