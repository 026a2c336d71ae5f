"""docs/architecture.md and its picture say what the sources are."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

from docs.generate.architecture_picture import STEPS, architecture_picture
from quota_dags.steps import STEPS as TASKS
from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.tables import TABLES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([\w/.]+)`", cell))


def test_every_table_has_the_step_that_writes_it() -> None:
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section("The warehouse"), re.M)
    written = [table for _, cell in rows for table in sorted(named(cell))]
    assert sorted(written) == sorted(TABLES)


def test_the_picture_has_the_steps_of_the_dag_in_their_order() -> None:
    commands = [command[0] for command in TASKS.values() if command[0] != "validate"]
    assert [step.command for step in STEPS] == commands
    checked = [step.command for step in STEPS if step.is_checked]
    followed = [
        before[0] for before, after in itertools.pairwise(TASKS.values()) if after[0] == "validate"
    ]
    assert checked == followed


def test_the_picture_names_rooms_and_tables_that_there_are() -> None:
    for step in STEPS:
        assert set(step.tables) <= set(TABLES) | {"report.html"}, step.command
    assert {"ingested", "replayed", "judged"} <= set(STAGES)


def test_the_picture_reads_without_eyes_and_in_the_dark() -> None:
    root = ElementTree.fromstring(architecture_picture())
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    for step in STEPS:
        assert step.command in (desc.text or "")
    style = root.findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    for name in re.findall(r"\.(\w+) \{ (?:fill|stroke): #", light):
        assert f".{name} " in dark, f".{name} has no colour in the dark"
