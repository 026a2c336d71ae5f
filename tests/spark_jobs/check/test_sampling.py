from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.check.sampling import (
    PIECES,
    chosen_files,
    piece_begins,
    share_of_file,
)


def test_of_few_files_all_are_looked_at() -> None:
    assert chosen_files([(1, "a"), (None, "b")], 2) == ["a", "b"]


def test_of_many_files_every_brokers_first_and_last_come_before_any_between() -> None:
    files = [(broker, f"{broker}-{hour:02}") for broker in (1, 2) for hour in range(24)]
    assert chosen_files(files, 4) == ["1-00", "1-23", "2-00", "2-23"]
    assert chosen_files(files, 6) == ["1-00", "1-12", "1-23", "2-00", "2-12", "2-23"]


@given(
    st.lists(st.integers(0, 3), max_size=60).map(sorted),
    st.integers(1, 70),
)
def test_as_many_files_as_allowed_are_chosen_each_once_and_in_order(
    brokers: list[int], files_max: int
) -> None:
    files = [(broker, place) for place, broker in enumerate(brokers)]
    chosen = chosen_files(files, files_max)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(len(files), files_max)


def test_what_small_files_leave_is_shared_by_the_larger_ones() -> None:
    assert share_of_file(1000, 10) == 100
    assert share_of_file(1000 - 10, 9) == 110
    assert share_of_file(0, 5) == 1


@given(st.integers(3, 1 << 40), st.data())
def test_pieces_are_the_beginning_the_middle_and_the_end(size: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(PIECES, size - 1)) if size > PIECES else PIECES
    piece = share // PIECES
    begins = piece_begins(size, share)
    assert begins[0] == 0
    assert begins[-1] + piece == size
    assert all(a + piece <= b for a, b in pairwise(begins))
