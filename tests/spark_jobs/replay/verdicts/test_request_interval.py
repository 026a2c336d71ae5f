"""What a logged throttle says where the request quota is known as an interval."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.verdicts.request_verdicts import (
    RequestQuotaRows,
    RequestShare,
    judge_request_quota,
    judge_request_share,
)

OTHER, AGREE, OPEN, UNDER, OVER = RequestShare


def rows(logged: int, least: int, most: int, other: int) -> RequestQuotaRows:
    return RequestQuotaRows(*(np.array([x], np.int64) for x in (logged, least, most, other)))


@pytest.mark.parametrize(
    ("logged", "least", "most", "other", "share", "own"),
    [
        # The request quota asks for nothing: the other quota alone explains the log, or does not.
        (300, 0, 0, 300, AGREE, AGREE),
        (600, 0, 0, 300, OTHER, AGREE),
        (0, 0, 0, 300, OTHER, AGREE),
        (0, 0, 0, 0, AGREE, AGREE),
        (40, 0, 0, 0, OTHER, AGREE),
        # It has no other quota: all is judged here.
        (300, 0, 0, -1, OVER, OVER),
        (0, 0, 0, -1, AGREE, AGREE),
        (350, 340, 345, -1, AGREE, AGREE),
        (351, 340, 345, -1, OVER, OVER),
        (334, 340, 345, -1, UNDER, UNDER),
        (335, 340, 345, -1, AGREE, AGREE),
        # It asks for more than was logged, whatever the other one does.
        (300, 400, 900, 300, UNDER, UNDER),
        (0, 10, 500, 0, UNDER, UNDER),
        # Between the other quota and its own most: it may have been, exactly or not.
        (500, 0, 900, 300, OPEN, OPEN),
        (0, 0, 900, 0, AGREE, OPEN),
        (500, 0, 900, -1, OPEN, OPEN),
        # The cap of one window is met by no chance.
        (1000, 0, 1000, 300, AGREE, AGREE),
        (1000, 0, 1000, -1, AGREE, AGREE),
        (999, 0, 1000, -1, OPEN, OPEN),
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
    share: RequestShare,
    own: RequestShare,
) -> None:
    row = rows(logged, least, most, other)
    assert RequestShare(judge_request_share(row, tolerance_ms=5)[0]) is share
    assert RequestShare(judge_request_quota(row, tolerance_ms=5)[0]) is own


def test_the_cap_is_the_window_of_the_broker() -> None:
    assert judge_request_quota(rows(2000, 0, 2000, -1), 5, window_ms=2000)[0] == AGREE
    assert judge_request_quota(rows(1000, 0, 2000, -1), 5, window_ms=2000)[0] == OPEN
