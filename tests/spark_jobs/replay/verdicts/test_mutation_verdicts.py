"""The throttle of a mutation's response is judged once, at the last topic of its request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.replay.verdicts.mutation_throttle import (
    AGREE,
    LATE_LINE,
    NOT_JUDGED,
    OVER_THROTTLED,
    REQUEST_QUOTA,
    UNDER_THROTTLED,
)
from spark_jobs.replay.verdicts.verdicts import (
    REQUEST_QUOTA_INTERVAL,
    SAMPLE_TIMING,
    Verdicts,
    with_throttles,
)

Verdict = tuple[str, str | None]
RIGHT: Verdict = ("agree", None)
CODES = {
    UNDER_THROTTLED: ("under_throttled", None),
    OVER_THROTTLED: ("over_throttled", None),
    REQUEST_QUOTA: ("indeterminate", REQUEST_QUOTA_INTERVAL),
    LATE_LINE: ("indeterminate", SAMPLE_TIMING),
    AGREE: RIGHT,
    NOT_JUDGED: RIGHT,
}


def judged(admissions: list[Verdict], throttles: list[int], request: list[int]) -> list[Verdict]:
    columns = [[verdict for verdict, _ in admissions], [reason for _, reason in admissions]]
    given_in = Verdicts(*(np.array(column, object) for column in columns))
    found = with_throttles(given_in, np.array(throttles, np.int64), np.array(request, np.int64))
    assert [given_in.verdict.tolist(), given_in.reason.tolist()] == columns
    return list(zip(found.verdict.tolist(), found.reason.tolist(), strict=True))


@pytest.mark.parametrize("code", list(CODES))
def test_a_throttle_accuses_the_last_topic_of_its_request(code: int) -> None:
    found = judged([RIGHT] * 4, [code] * 3 + [AGREE], [0, 0, 0, 1])
    assert found == [RIGHT, RIGHT, CODES[code], RIGHT]


@pytest.mark.parametrize(
    "admission",
    [
        ("wrongly_admitted", None),
        ("wrongly_refused", None),
        ("indeterminate", "partitions_unknown"),
        ("no_quota", None),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_throttle_accuses_nobody_where_one_admission_is_not_right(
    admission: Verdict, place: int
) -> None:
    admissions = [RIGHT] * 3
    admissions[place] = admission
    found = judged(admissions, [OVER_THROTTLED] * 3, [5, 5, 6])
    assert found == [*admissions[:2], CODES[OVER_THROTTLED]]


REQUESTS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([RIGHT, RIGHT, ("wrongly_admitted", None), ("no_quota", None)]),
            st.sampled_from(list(CODES)),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=6,
)


@given(REQUESTS)
def test_a_request_is_accused_once_at_most_and_only_with_right_admissions(
    requests: list[list[tuple[Verdict, int]]],
) -> None:
    rows = [(verdict, code, n) for n, topics in enumerate(requests) for verdict, code in topics]
    found = judged([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    expected = []
    for topics in requests:
        admissions = [admission for admission, _ in topics]
        if set(admissions) == {RIGHT}:
            admissions[-1] = CODES[topics[-1][1]]
        expected += admissions
    assert found == expected
