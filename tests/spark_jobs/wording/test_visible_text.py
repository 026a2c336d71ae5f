from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.wording.visible_text import without_formulas

MARKS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212")


@given(st.text("=+-@\t\r\n\v\f\x1c\x85\u2028; \xa0\u3000\uff1d\uff0b\uff0d\uff20\u2212a'1"))
def test_no_line_of_a_cell_begins_like_a_formula(text: str) -> None:
    safe = without_formulas(text)
    # Where a semicolon or a tab separates cells, it does so in a text that a comma's quotes hold.
    cells = [cell for line in safe.splitlines() for cell in re.split("[;\t]", line)]
    assert not any(cell.lstrip().startswith(MARKS) for cell in cells)
    assert not any(line.startswith("\t") for line in safe.splitlines())
    assert safe.replace("'", "") == text.replace("'", "")


@given(st.text("abc1 \n=+-", min_size=1))
def test_a_text_without_a_formula_is_as_it_was(text: str) -> None:
    plain = "\n".join(f"a{line}" for line in text.split("\n"))
    assert without_formulas(plain) == plain


def test_a_long_name_takes_the_time_of_its_length() -> None:
    for text in ("\n" * 300_000, "\t" * 300_000, ";  " * 100_000, " " * 300_000, "\n " * 150_000):
        began_s = time.process_time()
        without_formulas(text)
        assert time.process_time() - began_s < 1
