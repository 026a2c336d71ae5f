"""Pictures as SVG files: the same bytes on every run, for light and dark pages.

A picture has its own ground, so it can be read wherever it stands; where the reader's system is
dark, its own style sheet turns the colours. They are Okabe and Ito's, which colour-blind readers
can tell apart, and no line differs from another by its colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from spark_jobs.wording.svg import quiet_axes, svg_of, svg_style

WIDTH_IN = 7.2
INK, SOFT, GRID, PAPER = "#24292f", "#57606a", "#d8dee4", "#fdfdfd"
BLUE, RED, GREEN, PURPLE = "#0072b2", "#d55e00", "#00805d", "#a5558d"
_DARK = {
    INK: "#e6edf3",
    SOFT: "#adb5be",
    GRID: "#3a424b",
    PAPER: "#15191e",
    BLUE: "#56b4e9",
    RED: "#ff9d5c",
    GREEN: "#3fd6ac",
    PURPLE: "#e2a5cb",
}


def picture(
    name: str,
    label: str,
    draw: Callable[[list[Axes]], None],
    heights_in: tuple[float, ...] = (2.6,),
) -> str:
    """Return the picture that ``draw`` makes on axes of ``heights_in``, stacked, as an SVG file.

    ``label`` says in words what there is to see; ``name`` must differ from picture to picture.
    """
    with svg_style(name, text=INK, labels=SOFT):
        figure = Figure(
            figsize=(WIDTH_IN, sum(heights_in)),
            layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
        )
        FigureCanvasSVG(figure)
        grid = figure.add_gridspec(len(heights_in), 1, height_ratios=heights_in)
        every = [figure.add_subplot(grid[i, 0]) for i in range(len(heights_in))]
        for axes in every:
            _dress(axes)
        draw(every)
        svg = svg_of(figure, facecolor=PAPER)
    return _finished(svg, label)


def bound_line(axes: Axes, value: float, text: str) -> None:
    """Draw a limit across, with its name above its right end."""
    axes.axhline(value, color=INK, linewidth=1.2, dashes=(4, 3))
    axes.annotate(
        text, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-2, 3),
        textcoords="offset points", ha="right", va="bottom", fontsize=8.5, color=INK,
    )  # fmt: skip


def legend(
    axes: Axes,
    where: Literal["upper left", "upper right", "lower left"] = "upper right",
    columns: int = 1,
) -> None:
    """Name the lines, on the picture's ground so that no line runs through the names."""
    axes.legend(
        loc=where, ncols=columns, fontsize=8.5, labelcolor=INK,
        facecolor=PAPER, edgecolor=PAPER, framealpha=0.9,
    )  # fmt: skip


def _dress(axes: Axes) -> None:
    axes.set_facecolor(PAPER)
    quiet_axes(axes, grid=GRID, labels=SOFT)


def _finished(svg: str, label: str) -> str:
    """Return Matplotlib's file with its label and its dark colours.

    A hundredth of a point is finer than any screen, and coarser than what differs by processor.
    """
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    dark = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    head = f'<svg role="img" aria-label="{escape(label)}" '
    body = re.sub(r"(\.\d\d)\d+", r"\1", svg[svg.index("<svg ") :])
    body = body.replace("<svg ", head, 1).replace("</defs>", f"</defs>{dark}", 1)
    return re.sub(r"[ \t]+\n", "\n", body)
