"""The report as its elements: what a browser would make of the text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "use", "path", "img", "input", "hr"}
# Attributes through which a page or an SVG in it loads something.
LOADING = ("src", "srcset", "data", "action", "poster", "background", "xlink:href")


def outside_references(page: str) -> list[str]:
    """Return what the page would load or run, and where its links lead outside itself."""
    elements = PageElements(page)
    running = {"script", "iframe", "img", "object", "embed"}
    addresses = [value for name in (*LOADING, "href") for value in elements.attributes(name)]
    return [
        *(tag for tag, _ in elements.tags if tag in running),
        *(value for value in addresses if not value.startswith(("#", "data:,"))),
        *re.findall(r"@import|@font-face|url\((?!#)", page),
    ]


class PageElements(HTMLParser):
    """Collects tags with attributes, the text of the page, and tags that were never closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.mismatched: list[str] = []
        self._text: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        """Return the text of the page, white space folded."""
        return " ".join(" ".join(self._text).split())

    def attributes(self, name: str) -> list[str]:
        """Return the values of the attribute ``name`` on any tag."""
        return [a[name] or "" for _, a in self.tags if name in a]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag not in VOID:
            self.mismatched.append(tag)

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self._text.append(data)
