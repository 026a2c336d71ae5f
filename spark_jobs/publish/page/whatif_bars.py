"""One client's throttle time under each policy, as bars in an SVG that stands inside the page.

Every bar has its policy's name before it and its seconds behind it, so that no colour tells one
from another. The hatched part is what the client waited for others.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from spark_jobs.wording.inline_svg import GRID, INK, OVER, RATE, inline_svg
from spark_jobs.wording.svg_style import svg_of, svg_style
from spark_jobs.wording.visible_text import shortened, visible

_WIDTH_IN, _LINE_IN, _MARGIN_IN = 4.4, 0.21, 0.06
_NAMES_IN = 2.1
_BAR_HEIGHT = 0.62
_NAME_LENGTH_MAX = 26
# Of the width that bars have: what the longest leaves for its seconds.
_LONGEST_BAR = 0.66


@dataclass(frozen=True, slots=True)
class Bar:
    """The throttle time of one policy, and how much of it was harm."""

    label: str
    throttle_time_ms: float
    harm_time_ms: float


@dataclass(frozen=True, slots=True)
class BarGroup:
    """The bars of one mode; ``title`` is empty where there is but one mode."""

    title: str
    bars: tuple[Bar, ...]


def bars_picture(groups: Sequence[BarGroup], label: str, salt: str) -> Markup:
    """Return the picture of ``groups``, below each other, as inline SVG.

    ``label`` says in words what there is to see; ``salt`` differs from picture to picture.
    """
    longest_ms = max(bar.throttle_time_ms for group in groups for bar in group.bars)
    assert longest_ms > 0, "a client that nothing throttles has no picture"
    lines = [line for group in groups for line in _lines(group)]
    height_in = len(lines) * _LINE_IN + 2 * _MARGIN_IN
    # Names may hold what Matplotlib takes for a formula, or has no glyph to measure by.
    with svg_style(salt, text=INK), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font", category=UserWarning
        )
        mpl.rcParams["text.parse_math"] = False
        mpl.rcParams["hatch.linewidth"] = 1.2
        figure = Figure(figsize=(_WIDTH_IN, height_in))
        FigureCanvasSVG(figure)
        axes = figure.add_axes(
            (_NAMES_IN / _WIDTH_IN, 0, 1 - _NAMES_IN / _WIDTH_IN, 1), frameon=False
        )
        _dress(axes, len(lines), longest_ms)
        for place, line in enumerate(lines):
            _draw(axes, place, line)
        svg = svg_of(figure, transparent=True)
    return inline_svg(svg, label)


def _lines(group: BarGroup) -> list[Bar | str]:
    return [*([group.title] if group.title else []), *group.bars]


def _dress(axes: Axes, lines: int, longest_ms: float) -> None:
    axes.set_xlim(0, longest_ms / _LONGEST_BAR)
    margin = _MARGIN_IN / _LINE_IN
    axes.set_ylim(lines - 0.5 + margin, -0.5 - margin)
    axes.axvline(0, color=GRID, linewidth=1)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw(axes: Axes, place: int, line: Bar | str) -> None:
    if isinstance(line, str):
        _write_before(axes, place, line, style="italic")
        return
    _write_before(axes, place, shortened(visible(line.label), _NAME_LENGTH_MAX))
    harm_ms = min(line.harm_time_ms, line.throttle_time_ms)
    own_ms = line.throttle_time_ms - harm_ms
    if harm_ms:
        axes.barh(
            place, harm_ms, height=_BAR_HEIGHT, facecolor="none", edgecolor=OVER, hatch="/////",
            linewidth=0.8,
        )  # fmt: skip
    if own_ms:
        axes.barh(place, own_ms, left=harm_ms, height=_BAR_HEIGHT, color=RATE)
    axes.annotate(
        _seconds(line.throttle_time_ms), (line.throttle_time_ms, place), xytext=(4, 0),
        textcoords="offset points", va="center",
    )  # fmt: skip


def _write_before(axes: Axes, place: int, text: str, **options: Any) -> None:
    axes.annotate(
        text, (0, place), xycoords=("axes fraction", "data"), xytext=(-5, 0),
        textcoords="offset points", ha="right", va="center", **options,
    )  # fmt: skip


def _seconds(milliseconds: float) -> str:
    """Return a time in seconds, as exact as a bar can be read.

    >>> _seconds(245_642), _seconds(8), _seconds(0)
    ('245.6 s', '0.008 s', '0 s')
    """
    if not milliseconds:
        return "0 s"
    return f"{milliseconds / 1000:,.{1 if milliseconds >= 100 else 3}f} s"
