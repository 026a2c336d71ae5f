"""What a history that explains more proves, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates.judgement import ALIKE_MS, Judgement
from spark_jobs.replay.rates.other_histories import OtherHistory

ORDER = np.arange(3)


def judgement(replayed_ms: list[int], row: list[int], explained: list[bool]) -> Judgement:
    """Return three requests, all proven, whose other history has them in the order ``row``."""
    nothing = np.zeros(3, bool)
    placed = Placed(ORDER, ORDER, ORDER, nothing)
    other = OtherHistory(np.array(row), ORDER, np.array(explained))
    return Judgement(placed, np.array(replayed_ms), ~nothing, nothing, other)


@pytest.mark.parametrize(("apart_ms", "is_proven"), [(ALIKE_MS, True), (ALIKE_MS + 1, False)])
def test_a_better_history_proves_only_what_both_replay_alike(
    apart_ms: int, *, is_proven: bool
) -> None:
    # The second request came first: it is held against what it was due before it was moved.
    before = judgement([10, 500, 90], row=[1, 0, 2], explained=[False] * 3)
    after = judgement([500 + apart_ms, 10, 90], row=[0, 1, 2], explained=[False] * 3).after(before)
    assert after.is_proven.tolist() == [is_proven, True, True]


def test_what_either_history_explains_stays_explained() -> None:
    before = judgement([10, 500, 90], row=[1, 0, 2], explained=[True, False, False])
    after = judgement([500, 10, 90], row=[0, 1, 2], explained=[False, False, True]).after(before)
    assert after.other.is_explained.tolist() == [False, True, True]
