from __future__ import annotations

import re
from pathlib import Path

import great_expectations as gx
import pytest

from expectations.suites.rules import COLUMNS_RULE
from expectations.validate.runner import SUITES

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "data-quality.md"


def rules_in_page(table: str) -> dict[str, tuple[str, str]]:
    """Return severity and sentence by rule as the section of ``table`` has them."""
    section = PAGE.read_text("utf-8").split(f"\n### {table}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \| .+ \|$", section, re.MULTILINE)
    listed = re.search(r"`_is_there`: ([\w, \n]+)\.", section)
    assert listed, f"the section of {table} does not list its required columns"
    columns = re.split(r",\s+", listed.group(1))
    there = {f"{c}_is_there": ("critical", f"{c} has a value in every row.") for c in columns}
    return there | {name: (severity, sentence) for name, severity, sentence in rows}


@pytest.mark.parametrize("table", SUITES)
def test_the_page_has_every_rule_with_its_severity_and_sentence(table: str) -> None:
    gx.get_context(mode="ephemeral")
    rules = {
        one.meta["rule"]: (one.severity.value, one.description)
        for one in SUITES[table]().rules.expectations
    }
    severity, sentence = rules.pop(COLUMNS_RULE)
    assert f"`{COLUMNS_RULE}` ({severity}): {sentence}" in PAGE.read_text("utf-8")
    assert rules_in_page(table) == rules
