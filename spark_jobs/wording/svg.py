"""Pictures by Matplotlib: the same SVG on every run, as an element of a page in its colours."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@contextmanager
def svg_style(salt: str, *, text: str, labels: str = "black") -> Iterator[None]:
    """Draw with Matplotlib's defaults and ours, whatever the machine's matplotlibrc says.

    ``salt`` must differ from picture to picture; ``text`` and ``labels`` (of axes) are colours.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.fonttype"] = "none"
        mpl.rcParams["svg.hashsalt"] = salt
        mpl.rcParams["font.size"] = 9.0
        mpl.rcParams["text.color"] = text
        mpl.rcParams["axes.labelcolor"] = labels
        yield


def quiet_axes(axes: Axes, *, grid: str, labels: str) -> None:
    """Leave of the axes a line at the bottom and one for each value, in the colours named."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(grid)
    axes.grid(axis="y", color=grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=labels)


def svg_of(figure: Figure, **options: Any) -> str:
    """Return a figure as SVG without anything that tells when or by what it was written."""
    written = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=no_metadata, **options)
    return written.getvalue()


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
