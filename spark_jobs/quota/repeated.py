"""One value for every row, held once: most columns of a quiet broker say nothing of any row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def repeated(value: object, n: int) -> np.ndarray:
    """Return ``value`` n times, as a read-only array that takes no memory.

    >>> repeated(7, 3).tolist(), repeated(7, 3).strides
    ([7, 7, 7], (0,))
    """
    return np.broadcast_to(np.asarray(value), n)


def taken(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the entries of ``column`` at these places; of one that repeats, repeated again."""
    return repeated(column[0], len(rows)) if _is_repeated(column) else column[rows]


def joined(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return ``columns`` one after the other; the same value all through stays repeated."""
    first = columns[0]
    if all(map(_is_repeated, columns)) and len({column[0].tobytes() for column in columns}) == 1:
        return repeated(first[0], sum(map(len, columns)))
    return np.concatenate(columns)


def _is_repeated(column: np.ndarray) -> bool:
    return len(column) > 0 and column.strides == (0,)
