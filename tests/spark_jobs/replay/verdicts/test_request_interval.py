"""What a logged throttle says where the request quota is known as an interval."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.verdicts.request_verdicts import (
    RequestShare,
    SharedRows,
    judge_request_quota,
    judge_request_share,
)

OTHER, AGREE, OPEN, UNDER, OVER = RequestShare


def rows(logged: int, least: int, most: int, other: int, window: int = 1000) -> SharedRows:
    return SharedRows(
        is_request_quota=np.array([False]),
        is_unrecorded=np.array([False]),
        logged_ms=np.array([logged]),
        replayed_ms=np.array([other]),
        throttle_min_ms=np.array([least]),
        throttle_max_ms=np.array([most]),
        is_interval_known=np.array([True]),
        throttle_likely_min_ms=np.array([least]),
        throttle_likely_max_ms=np.array([most]),
        other_ms=np.array([other]),
        window_ms=np.array([window]),
    )


@pytest.mark.parametrize(
    ("logged", "least", "most", "other", "share", "own"),
    [
        # The request quota asks for nothing: the other quota alone explains the log, or does not.
        (300, 0, 0, 300, AGREE, AGREE),
        (600, 0, 0, 300, OTHER, AGREE),
        (0, 0, 0, 300, OTHER, AGREE),
        (0, 0, 0, 0, AGREE, AGREE),
        (40, 0, 0, 0, OTHER, AGREE),
        # It has no other quota.
        (300, 0, 0, -1, None, OVER),
        (0, 0, 0, -1, None, AGREE),
        (350, 340, 345, -1, None, AGREE),
        (351, 340, 345, -1, None, OVER),
        (334, 340, 345, -1, None, UNDER),
        (335, 340, 345, -1, None, AGREE),
        # It asks for more than was logged, whatever the other one does.
        (300, 400, 900, 300, UNDER, UNDER),
        (0, 10, 500, 0, UNDER, UNDER),
        # Between the other quota and its own most: it may have been, exactly or not.
        (500, 0, 900, 300, OPEN, OPEN),
        (0, 0, 900, 0, AGREE, OPEN),
        (500, 0, 900, -1, None, OPEN),
        # The cap of one window is met by no chance.
        (1000, 0, 1000, 300, AGREE, AGREE),
        (1000, 0, 1000, -1, None, AGREE),
        (999, 0, 1000, -1, None, OPEN),
        # Longer than it can ask for.
        (1200, 0, 1000, 1200, AGREE, AGREE),
        (1500, 0, 1000, 1200, OTHER, AGREE),
        # The other quota asks for more than was logged.
        (500, 0, 900, 800, OTHER, OPEN),
    ],
)
def test_the_larger_of_both_quotas_is_logged(
    logged: int,
    least: int,
    most: int,
    other: int,
    share: RequestShare | None,
    own: RequestShare,
) -> None:
    row = rows(logged, least, most, other)
    assert share is None or judge_request_share(row, tolerance_ms=5)[0] == share
    assert RequestShare(judge_request_quota(row, tolerance_ms=5)[0]) is own


def test_the_cap_is_the_window_of_the_broker() -> None:
    assert judge_request_quota(rows(2000, 0, 2000, -1, window=2000), 5)[0] == AGREE
    assert judge_request_quota(rows(1000, 0, 2000, -1, window=2000), 5)[0] == OPEN
