"""Columns that say the same of every row."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.repeated import joined, repeated, taken


def test_a_repeated_value_takes_no_memory_however_it_is_taken_or_joined() -> None:
    column = repeated(np.nan, 3)
    for each in (column, taken(column, np.array([2, 0])), joined([column, column])):
        assert np.isnan(each).all()
        assert each.strides == (0,)


@pytest.mark.parametrize("rows", [[2, 0], []])
def test_a_column_of_several_values_is_taken_row_by_row(rows: list[int]) -> None:
    column = np.array([4, 5, 6])
    assert taken(column, np.array(rows, int)).tolist() == column[rows].tolist()


def test_columns_that_repeat_another_value_are_joined_row_by_row() -> None:
    assert joined([repeated(0, 2), repeated(7, 1)]).tolist() == [0, 0, 7]
    assert joined([repeated(0, 2), np.array([0, 1])]).tolist() == [0, 0, 0, 1]
    assert joined([repeated(0, 0), repeated(7, 1)]).tolist() == [7]
