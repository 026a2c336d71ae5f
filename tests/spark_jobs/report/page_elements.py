"""The report as its elements: what a browser would make of the text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "use", "path", "img", "input", "hr"}


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
