"""What a history that explains more proves, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates.judgement import ALIKE_MS, Judgement
from spark_jobs.replay.rates.other_histories import OtherHistory

ORDER = np.arange(3)


def judgement(
    replayed_ms: list[int], row: list[int], explained: list[bool], impossible: int = 0
) -> Judgement:
    """Return three requests, all proven, whose other history has them in the order ``row``.

    No times give the throttles of the last ones, ``impossible`` of them.
    """
    nothing = np.zeros(3, bool)
    placed = Placed(ORDER, ORDER, ORDER, nothing)
    other = OtherHistory(np.array(row), ORDER, np.array(explained))
    is_impossible = np.arange(3) >= 3 - impossible
    return Judgement(placed, np.array(replayed_ms), ~nothing, is_impossible, nothing, other)


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


def test_a_throttle_that_no_times_give_stays_wrong_where_it_is_replayed_otherwise() -> None:
    judged = judgement([10, 500, 900], row=[0, 1, 2], explained=[False] * 3, impossible=1)
    is_proven, is_explained = judged.holds(ORDER, np.array([11, 400, 700]))
    assert is_proven.tolist() == [True, False, False]
    assert is_explained.tolist() == [False, True, False]
