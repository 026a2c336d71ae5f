"""Which files of a large archive are looked at, and how much of each.

Small archives are looked at whole. Else every broker's first and last file are, and others evenly
between; of a file the beginning, the middle and the end, each as long, where it can be read from
there: packed files cannot, so of those it is the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import TypeVar

FILES_MAX = 1000
"""So many files are opened."""
SAMPLE_BYTES = 256 << 20
"""So many unpacked bytes of all files together: some ten seconds of reading."""
PIECES = 3

_File = TypeVar("_File")


def chosen_files(files: Sequence[tuple[Hashable, _File]], files_max: int) -> list[_File]:
    """Return at most ``files_max`` of (broker, file), given in order: evenly of every broker.

    The first and the last of a broker are chosen before any between.

    >>> chosen_files([(1, "a"), (1, "b"), (1, "c"), (2, "d")], 3)
    ['a', 'c', 'd']
    """
    if len(files) <= files_max:
        return [file for _, file in files]
    of_broker: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, (broker, _) in enumerate(files):
        of_broker[broker].append(index)
    rounds = zip_longest(*(_spread(indexes) for indexes in of_broker.values()))
    ranked = [index for one in rounds for index in one if index is not None]
    return [files[index][1] for index in sorted(ranked[:files_max])]


def share_of_file(left_bytes: int, files_left: int) -> int:
    """Return the bytes to read of the next file; small files leave more to later ones."""
    return max(1, left_bytes // max(files_left, 1))


def piece_begins(size_bytes: int, share_bytes: int) -> list[int]:
    """Return the offsets of the pieces of a plain file that is larger than its share.

    >>> piece_begins(1_000, 300)
    [0, 450, 900]
    """
    piece = share_bytes // PIECES
    return [(size_bytes - piece) * part // (PIECES - 1) for part in range(PIECES)]


def _spread(indexes: Sequence[int]) -> list[int]:
    """Return ``indexes`` in an order whose every beginning is spread evenly over them."""
    order = dict.fromkeys([0, len(indexes) - 1])
    step = 1.0
    while len(order) < len(indexes):
        step /= 2
        whole = round(1 / step)
        order |= dict.fromkeys(round(k * step * (len(indexes) - 1)) for k in range(1, whole, 2))
        if whole > 2 * len(indexes):
            order |= dict.fromkeys(range(len(indexes)))
    return [indexes[i] for i in order]
