"""Numbers and texts of a page."""

from __future__ import annotations

import doctest

import pytest
from jinja2 import UndefinedError

from docs.generate.gallery import page


def test_the_doctests_hold() -> None:
    result = doctest.testmod(page)
    assert (result.failed, result.attempted) == (0, 2)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (100, "100"), (1_845_493.5, "1 845 493.5"), (5.00004, "5"), (-0.5, "-0.5")],
)
def test_a_number_has_the_digits_that_say_something(value: float, shown: str) -> None:
    assert page.number(value) == shown


def test_a_number_that_a_page_names_and_nobody_computed_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="pause_ms"):
        page.rendered("wildcard-consumer", rows=[])
