"""What all pictures have in common: the same SVG on every run, and quiet axes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
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
