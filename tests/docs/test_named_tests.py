"""A test that docs/security.md names is there: its words are the words of a test in that file."""

from __future__ import annotations

import ast
import itertools
import re
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "security.md"


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of a file's tests, without ``test_``."""
    tree = ast.parse(path.read_text("utf-8"))
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(name.removeprefix("test_") for name in names if name.startswith("test_"))


def named_tests() -> list[tuple[str, Path]]:
    """Return what each link to a file of tests says, and the file."""
    tokens = MarkdownIt("commonmark").enable("table").parse(PAGE.read_text("utf-8"))
    found = []
    for token in tokens:
        children = token.children or []
        for opened, text in itertools.pairwise(children):
            href = str(opened.attrGet("href")) if opened.type == "link_open" else ""
            if href.startswith("../tests/"):
                found.append((text.content, (PAGE.parent / href).resolve()))
    return found


def test_every_named_test_is_there() -> None:
    named = named_tests()
    assert len(named) > 80
    missing = [
        f"{path.relative_to(ROOT)}: {words}"
        for words, path in named
        if re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") not in names_in(path)
    ]
    assert missing == []


def test_every_claim_of_a_table_names_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    claims = [row for row in rows if not re.match(r"\| (input|what happens) \|", row)]
    assert len(claims) > 50
    assert [row for row in claims if "](../tests/" not in row] == []
