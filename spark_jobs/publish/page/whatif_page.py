"""The what-if page: what clients would have got under each policy, as one HTML document.

Clients that wait longest get a picture: bars of their throttle time under each policy. Every bar
has its policy's name before it and its seconds behind it, so that no colour tells one from another.
The hatched part is what the client waited for others.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from spark_jobs.publish.facts.whatif import (
    FIGURES,
    Client,
    Replay,
    Row,
    by_replay,
    client_of,
    modes_of,
    replays_of,
    seconds,
    totals,
)
from spark_jobs.publish.page import whatif_words as words
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.publish.page.whatif_tables import clients_tables, harm_tables, totals_tables
from spark_jobs.publish.page.whatif_words import KINDS, MODES, answer
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import plural
from spark_jobs.wording.svg import GRID, INK, OVER, RATE, inline_svg, svg_of, svg_style
from spark_jobs.wording.visible_text import shortened, visible

WHATIF_PAGE_NAME = "whatif.html"
PICTURES_MAX = 10


class WhatifPolicy(NamedTuple):
    """A policy that was replayed; ``configuration`` is what it was given, None where nothing."""

    label: str
    policy: str
    title: str
    configuration: str | None


def render_whatif(
    rows: Sequence[Row],
    scope: RunScope,
    policies: Sequence[WhatifPolicy],
    settings: ReportSettings | None = None,
) -> str:
    """Return the page of ``rows``: the same text for the same rows, in whatever order.

    ``policies`` are in the order to show them.
    """
    settings = settings or ReportSettings()
    replays = replays_of(rows, [policy.label for policy in policies])
    return page_template("whatif.html.j2").render(
        scope=scope,
        policies=policies,
        answer=answer(rows, replays),
        modes=modes_of(replays),
        totals=totals_tables(rows, replays),
        harm=harm_tables(rows, replays, settings.table_rows_max),
        pictures=client_pictures(rows, replays, min(PICTURES_MAX, settings.pictures_max)),
        clients=clients_tables(rows, replays, settings.table_rows_max),
        figures=FIGURES,
        client_of=client_of,
        words=words,
        shortened=shortened,
    )


def configuration_text(
    config: Mapping[str, object], topics: Sequence[Mapping[str, object]] = ()
) -> str | None:
    """Return a policy's configuration as lines of text, keys as given; None where it has none.

    >>> print(configuration_text({"retries": 2, "quotas": [{"user": "a", "rate": 5}]}))
    retries = 2
    quotas:
      user = "a", rate = 5
    """
    found = {**config, "topics": [*topics]} if topics else config
    lines = (line for key, value in found.items() for line in _configured_lines(key, value))
    return "\n".join(lines) or None


def _configured_lines(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield f"{key}:"
        yield from (f"  {_pair(name, each)}" for name, each in value.items())
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        yield f"{key}:"
        yield from (f"  {', '.join(_pair(*pair) for pair in each.items())}" for each in value)
    else:
        yield _pair(key, value)


def _pair(key: str, value: object) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False, default=str)}"


@dataclass(frozen=True, slots=True)
class ClientPicture:
    """One client's throttle times, on all brokers, and where they are from."""

    client: str
    where: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class ClientPictures:
    """The pictures of the clients that are throttled most, of ``clients_total`` that are."""

    pictures: tuple[ClientPicture, ...]
    clients_total: int
    has_harm: bool


def client_pictures(
    rows: Sequence[Row], replays: Sequence[Replay], pictures_max: int
) -> ClientPictures:
    """Return a picture for each of the clients that some policy throttles longest."""
    by_client: dict[Client, list[Row]] = {}
    for row in rows:
        by_client.setdefault(client_of(row), []).append(row)
    groups = {client: _groups(of_client, replays) for client, of_client in by_client.items()}
    longest = {client: _longest_ms(of_client) for client, of_client in groups.items()}
    throttled = sorted(
        (client for client in by_client if longest[client]),
        key=lambda client: (-longest[client], client.sort_key),
    )
    shown = throttled[:pictures_max]
    pictures = tuple(
        ClientPicture(
            client.name,
            _where(by_client[client]),
            bars_picture(groups[client], _label(client, groups[client]), repr(client)),
        )
        for client in shown
    )
    has_harm = any(row["harm_time_ms"] for client in shown for row in by_client[client])
    return ClientPictures(pictures, len(throttled), has_harm)


def _groups(rows: Sequence[Row], replays: Sequence[Replay]) -> Groups:
    has_modes = len(modes_of(replays)) > 1
    bars: dict[str, list[Bar]] = {}
    for replay, of_replay in by_replay(rows, replays).items():
        found = totals(of_replay)
        bar = Bar(replay.label, found["throttle_time_ms"], found["harm_time_ms"])
        bars.setdefault(MODES[replay.mode].name if has_modes else "", []).append(bar)
    return bars


def _longest_ms(groups: Groups) -> float:
    return max(bar.throttle_time_ms for bars in groups.values() for bar in bars)


def _where(rows: Sequence[Row]) -> str:
    throttled = [row for row in rows if row["throttle_time_ms"]]
    brokers = sorted({row["broker_id"] for row in throttled})
    kinds = [words for kind, words in KINDS.items() if any(r["kind"] == kind for r in throttled)]
    where = f"{plural(len(brokers), 'broker')} {', '.join(map(str, brokers))}"
    return f"{' and '.join(kinds)}, {where}"


def _label(client: Client, groups: Groups) -> str:
    parts = [
        f"{f'{title}: ' if title else ''}{', '.join(map(_in_words, bars))}"
        for title, bars in groups.items()
    ]
    return f"Throttle time of {client.name}. {'; '.join(parts)}."


def _in_words(bar: Bar) -> str:
    words = f"{shortened(visible(bar.label))} {seconds(bar.throttle_time_ms)} s"
    return f"{words}, {seconds(bar.harm_time_ms)} s of it for others" if bar.harm_time_ms else words


_WIDTH_IN, _LINE_IN, _MARGIN_IN = 4.4, 0.21, 0.06
_NAMES_IN = 2.1
_BAR_HEIGHT = 0.62
_NAME_LENGTH_MAX = 26
# Share of the width that the longest bar takes; its seconds stand in the rest.
_LONGEST_BAR = 0.66


@dataclass(frozen=True, slots=True)
class Bar:
    """The throttle time of one policy, and how much of it was harm."""

    label: str
    throttle_time_ms: float
    harm_time_ms: float


Groups = Mapping[str, Sequence[Bar]]
"""The bars of one client by their mode's name, which is empty where there is but one mode."""


def bars_picture(groups: Groups, label: str, salt: str) -> Markup:
    """Return the picture of ``groups``, below each other, as inline SVG.

    ``label`` says in words what there is to see; ``salt`` differs from picture to picture.
    """
    longest_ms = _longest_ms(groups)
    assert longest_ms > 0, "a client that nothing throttles has no picture"
    lines: list[Bar | str] = []
    for title, bars in groups.items():
        lines += [title, *bars] if title else bars
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
