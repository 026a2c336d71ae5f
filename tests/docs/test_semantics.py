"""Each rule of docs/semantics.md names where Kafka has it and a test that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, pages

SEMANTICS = ROOT / "docs" / "semantics.md"
# A test is named by the words of its name, linked to its file.
_FUNCTION = re.compile(r"\[(?P<name>[\w ]+)\]\((?P<file>[\w/.]+/test_\w+\.py)\)")
_FILE = re.compile(r"`(?P<path>(?:tests/[\w/]+/)?test_\w+\.py)`")


def rows() -> list[tuple[dict[str, str], int]]:
    """Return each table row by its columns' names, with its line."""
    found: list[tuple[dict[str, str], int]] = []
    head: list[str] = []
    for number, line in enumerate(SEMANTICS.read_text("utf-8").splitlines(), start=1):
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not head:
            head = cells
        elif not line.startswith("|---"):
            assert len(cells) == len(head), f"docs/semantics.md:{number}: {len(cells)} cells"
            found.append((dict(zip(head, cells, strict=True)), number))
    return found


def test_there_are_rules() -> None:
    assert sum("Kafka" in row for row, _ in rows()) > 30


@pytest.mark.parametrize(
    ("row", "line"), rows(), ids=lambda x: str(x) if isinstance(x, int) else ""
)
def test_a_rule_names_its_source_and_its_test(row: dict[str, str], line: int) -> None:
    where = f"docs/semantics.md:{line}"
    if "Kafka" in row:
        assert re.search(r"`[A-Z]\w+|KIP-\d+|^the same", row["Kafka"]), (
            f"{where}: no class of Kafka"
        )
    named = row.get("test", "") + row.get("tests", "")
    assert _FUNCTION.search(named) or _FILE.search(named), f"{where}: names no test"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for found in _FUNCTION.finditer(text):
        path = (page.parent / found["file"]).resolve()
        name = "test_" + found["name"].replace(" ", "_")
        assert path.is_file(), f"{name_of(page)} names {found[0]}: there is no such file"
        held = f"def {name}(" in path.read_text("utf-8")
        assert held, f"{name_of(page)} names {found[0]}: there is no {name}"
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for found in _FILE.finditer(text):
        whole, name = found["path"], Path(found["path"]).name
        exists = (ROOT / whole).is_file() if "/" in whole else name in names
        assert exists, f"{name_of(page)} names {found[0]}: there is no such file"
