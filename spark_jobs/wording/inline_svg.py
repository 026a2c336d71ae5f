"""Matplotlib's SVG file as an element of a page, in colours that the page's style names."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

# Each colour is drawn as a number nobody would choose and then named, so that the page's style
# decides what it looks like: on paper, in the dark, in print.
RATE: Final = "#010101"
BOUND: Final = "#020202"
THROTTLED: Final = "#030303"
OVER: Final = "#040404"
INK: Final = "#050505"
GRID: Final = "#060606"
_COLOURS = {
    RATE: "var(--rate)",
    BOUND: "var(--bound)",
    THROTTLED: "var(--throttled)",
    OVER: "var(--over)",
    INK: "var(--ink-soft)",
    GRID: "var(--line)",
}


def inline_svg(svg: str, label: str) -> Markup:
    """Return the file ``svg`` as an element; ``label`` says in words what there is to see.

    HTML knows the name spaces, and the page has the style and the fonts; ids of groups would
    repeat from picture to picture; a tenth of a point is finer than any screen. What stands
    between tags is text of people, and stays as it is.
    """
    view_box = re.search(r'viewBox="[\d. ]+"', svg)
    assert view_box, "Matplotlib writes a viewBox"
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: _for_pages(tag[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body).strip()
    return Markup(f'<svg {view_box[0]} role="img" aria-label="{escape(label)}">{body}')


def _for_pages(tag: str) -> str:
    tag = re.sub(r'<g id="[^"]*"', "<g", tag)
    tag = re.sub(r"(\d\.\d)\d+", r"\1", tag)
    tag = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r" font-family: [^;\"]*;", "", tag)
    for drawn, named in _COLOURS.items():
        tag = tag.replace(drawn, named)
    return tag
