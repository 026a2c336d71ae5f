"""Where one request ends and the next begins among the rows of a sensor."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_REQUEST = ("connection", "correlation_id", "source_file", "source_line")


def request_changes(rows: pa.RecordBatch) -> np.ndarray:
    """Return, for each row but the first, whether it is of another request than the row before."""
    changed = np.zeros(max(len(rows) - 1, 0), bool)
    if not len(rows):
        return changed
    for name in _REQUEST:
        column = rows[name]
        changed |= pc.not_equal(column.slice(1), column.slice(0, len(rows) - 1)).to_numpy(
            zero_copy_only=False
        )
    return changed
