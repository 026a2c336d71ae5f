"""The picture of docs/architecture.md says what the sources are."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docs.generate.architecture_picture import STEPS, architecture_picture
from spark_jobs.warehouse.tables import TABLES

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_has_the_steps_of_the_pipeline_and_what_is_checked() -> None:
    assert [step.command for step in STEPS] == [
        *["ingest", "resolve", "replay", "judge", "recommend", "publish"],
    ]
    checked = [step.command for step in STEPS if step.is_checked]
    assert checked == ["ingest", "replay", "recommend"]


def test_the_picture_names_all_rooms_and_tables_of_a_step() -> None:
    rooms = {step.command: step.rooms for step in STEPS}
    assert rooms["resolve"] == ("timeline",)
    assert all(rooms.values())
    tables = [table for step in STEPS for table in step.tables]
    assert {*tables, "whatif", "applied_changes"} == {*TABLES, "reports"}


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
