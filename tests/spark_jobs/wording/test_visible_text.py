from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.wording.visible_text import without_formulas

MARKS = ("=", "+", "-", "@", "\t", "\r")


@given(st.text("=+-@\t\r\na'1"))
def test_no_line_of_a_cell_begins_like_a_formula(text: str) -> None:
    safe = without_formulas(text)
    lines = safe.replace("\r", "\n").split("\n")
    assert not any(line.startswith(MARKS) for line in lines)
    assert safe.replace("'", "") == text.replace("'", "")


@given(st.text("abc1 \n=+", min_size=1))
def test_a_text_without_a_formula_is_as_it_was(text: str) -> None:
    plain = "\n".join(f"a{line}" for line in text.split("\n"))
    assert without_formulas(plain) == plain
