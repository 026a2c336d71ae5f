"""What the documents work out is what the policies say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docs.generate.gallery.catalogue import every_example, front_page
from docs.generate.gallery.example import Example
from spark_jobs.whatif.policies.catalogue import POLICIES

EXAMPLES = every_example()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one.policy}: {one.says}")
def test_a_policy_gives_what_its_document_says(example: Example) -> None:
    assert example.run() == example.expected


def test_every_policy_has_an_example() -> None:
    assert {example.policy for example in EXAMPLES} == set(POLICIES)


def test_an_example_that_differs_is_shown_and_counted() -> None:
    wrong = replace(EXAMPLES[0], expected="c 6, d 4")
    page = front_page([], [wrong, EXAMPLES[1]])
    assert "2 examples, 1 differ" in page
    assert "| c 6, d 4 | c 5, d 5 | NO |" in page
