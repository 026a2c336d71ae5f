"""What tests of pages share: where a page is, names that attack it, and what every page must be."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

from quota_pages.addresses import Addresses
from quota_pages.page import Place
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY

HOSTILE = '<script>alert("x")</script>\u202e&{{ 7*7 }}\n\'"../../etc'
LONG = "n" * 30_000
_VOID = {"meta", "link", "br", "input"}


def place_of(scope: RunScope) -> Place:
    """Return the place of a page about ``scope``."""
    return Place(Addresses("/quota-audit"), scope.cluster, scope.day)


def here(rest: str) -> str:
    """Return an address below the default day."""
    return f"/quota-audit/clusters/default/{DAY}/{rest}"


class Page(HTMLParser):
    """A page as its elements; it raises where tags do not close, ids repeat or headings skip."""

    def __init__(self, page: str | None) -> None:
        assert page is not None, "there is no page"
        super().__init__(convert_charrefs=True)
        self.source = page
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"never closed: {self._open}"
        self._check()

    @property
    def text(self) -> str:
        """Return the text of the page, white space folded."""
        return " ".join("".join(self._text).split())

    @property
    def links(self) -> list[str]:
        """Return where the page leads to, in its order."""
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a"]

    def count(self, tag: str) -> int:
        """Return how many elements ``tag`` there are."""
        return sum(found == tag for found, _ in self.tags)

    def table(self, number: int) -> list[list[str]]:
        """Return the rows of a table, each the text of its cells."""
        found = re.findall(r"<table.*?</table>", self.source, re.DOTALL)[number]
        rows = re.findall(r"<tr.*?</tr>", found, re.DOTALL)
        return [
            [_plain(cell) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)]
            for row in rows
        ]

    def _check(self) -> None:
        ids = [attrs["id"] for _, attrs in self.tags if "id" in attrs]
        assert len(ids) == len(set(ids)), "an id is there twice"
        levels = [int(tag[1]) for tag, _ in self.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        pairs = pairwise(levels)
        assert all(after <= before + 1 for before, after in pairs), f"headings skip: {levels}"
        assert self.count("caption") == self.count("table"), "a table without a caption"
        assert all("scope" in attrs for tag, attrs in self.tags if tag == "th")
        assert self.count("script") == 0
        assert not any(name.startswith("on") for _, attrs in self.tags for name in attrs)
        assert "\u202e" not in self.source
        assert all(link.startswith(("/quota-audit/", "#")) for link in self.links), self.links

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the tag was the last to be opened."""
        assert self._open[-1:] == [tag], f"</{tag}> closes {self._open[-3:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        """Keep what is shown."""
        if "style" not in self._open:
            self._text.append(data)


def _plain(cell: str) -> str:
    parser = _Text()
    parser.feed(cell)
    return " ".join(" ".join(parser.parts).split())


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)
