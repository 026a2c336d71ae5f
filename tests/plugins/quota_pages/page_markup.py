"""What of a page a browser would run, and the characters that a person cannot see."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_BRINGS_IN = {"img", "iframe", "object", "embed", "base", "audio", "video", "math", "b", "i"}


def unseen(text: str) -> list[str]:
    """Return the control, invisible and direction-changing characters of ``text``."""
    return sorted(set(_UNSEEN.findall(text)))


def foreign_markup(page: str) -> list[str]:
    """Return the elements and attributes of ``page`` that no template of this project writes."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BRINGS_IN:
            self.found.append(f"<{tag}>")
        if tag == "script" and not _is_own_script(dict(attrs)):
            self.found.append(f"<script {attrs}>")
        for name, value in attrs:
            is_address = name in ("href", "src", "action", "formaction")
            if name.startswith("on") or (is_address and "script:" in (value or "").lower()):
                self.found.append(f"{tag} {name}={value}")


def _is_own_script(attributes: dict[str, str | None]) -> bool:
    source = attributes.get("src") or ""
    return attributes.get("type") == "application/json" or source.startswith("/static/")
