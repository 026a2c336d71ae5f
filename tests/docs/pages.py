"""The project's Markdown pages as their readers see them: code blocks, headings, links."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"
# In the order in which a newcomer meets them: what one page makes, the next one reads.
FIRST = ("docs/tutorial.md", "docs/howto/", "README.md")
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>\S.*?) -->\s*\Z", re.DOTALL)
_parser = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True, slots=True)
class Block:
    """One code block; ``not_run`` is why its commands are not, ``output`` what the page shows."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None
    output: str | None
    is_indented: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return every page, those of a newcomer first."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*.md"),
    ]

    def rank(path: Path) -> tuple[int, str]:
        name = name_of(path)
        places = [i for i, first in enumerate(FIRST) if name.startswith(first)]
        return min(places, default=len(FIRST)), name

    return sorted(found, key=rank)


def name_of(page: Path) -> str:
    """Return a page's path in the project."""
    return page.relative_to(ROOT).as_posix()


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return the code blocks of ``page``; a text block right behind a bash block is its output."""
    return tuple(blocks_of(page.read_text("utf-8"), name_of(page)))


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """Yield the code blocks of a page's text."""
    tokens = [t for t in _parser.parse(text) if t.type in _SEEN or t.type.endswith("_open")]
    for i, token in enumerate(tokens):
        if token.type not in ("fence", "code_block"):
            continue
        before = tokens[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        marker = _NOT_RUN.search(before.content) if before and before.type == "html_block" else None
        is_shown = token.info == "bash" and _is_text(after)
        yield Block(
            page=page,
            line=(token.map or [0])[0] + 1,
            language=token.info,
            text=token.content,
            not_run=marker["why"] if marker else None,
            output=after.content if is_shown and after else None,
            is_indented=token.type == "code_block",
        )


_SEEN = ("fence", "code_block", "html_block", "hr")


def _is_text(token: Token | None) -> bool:
    return token is not None and token.type == "fence" and token.info == "text"


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what a link to a heading of ``page`` may name, as GitHub makes it."""
    tokens = _parser.parse(page.read_text("utf-8"))
    found: dict[str, int] = {}
    for opened, inline in itertools.pairwise(tokens):
        if opened.type == "heading_open":
            text = "".join(t.content for t in inline.children or () if t.type != "html_inline")
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    repeated = {f"{slug}-{i}" for slug, more in found.items() for i in range(1, more + 1)}
    return frozenset(found) | repeated


@cache
def links(page: Path) -> tuple[str, ...]:
    """Return the addresses of all links and pictures of ``page``, in their order."""
    return tuple(
        str(child.attrGet("href") or child.attrGet("src"))
        for token in _parser.parse(page.read_text("utf-8"))
        for child in token.children or ()
        if child.type in ("link_open", "image")
    )


def local_target(page: Path, link: str) -> tuple[Path, str] | None:
    """Return the file and anchor that ``link`` leads to; None where it leaves the project."""
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return None
    address, _, anchor = link.partition("#")
    return (page.parent / address).resolve() if address else page, anchor
