"""Which sensors get a picture, and the pictures: each over time, as SVG inside the page.

The SVG carries no text of clients but its escaped label, no colour of its own, and nothing that
differs from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from spark_jobs.judge.decision_counts import SensorUse
from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.timelines import SensorHistory
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.wording.names import counted, entity_name
from spark_jobs.wording.numbers import (
    byte_step,
    duration,
    rate,
    significant,
    time_of_day,
    unit_of,
    utc,
)
from spark_jobs.wording.svg import (
    BOUND,
    GRID,
    INK,
    OVER,
    RATE,
    THROTTLED,
    inline_svg,
    quiet_axes,
    svg_of,
    svg_style,
)

# Of clients that nobody throttled, the few closest to their quota are worth a look.
_CLOSEST_MAX = 4
# A client that was there for less than this share of the log gets its own time axis.
_OWN_SPAN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class SensorPicture:
    """One sensor's picture and what it shows in words."""

    anchor: str
    sensor: SensorKey
    caption: str
    svg: Markup
    has_finding: bool


def sensor_pictures(
    facts: AuditFacts, histories: Mapping[SensorKey, SensorHistory]
) -> tuple[SensorPicture, ...]:
    """Return the pictures of sensors with these histories, in their order."""
    if not histories:
        return ()
    whole = (
        min(int(h.start_ms[0]) for h in histories.values()),
        max(h.end_ms for h in histories.values()),
    )
    return tuple(
        _drawn(facts, number, history, whole)
        for number, history in enumerate(histories.values(), start=1)
    )


def pictured_sensors(facts: AuditFacts) -> list[SensorKey]:
    """Return the sensors worth a picture: those with findings, then the most throttled.

    Where there are neither, those closest to their quota.
    """
    found = _with_findings(facts)
    sensors = dict.fromkeys(s for s in found if s in facts.uses)
    sensors |= dict.fromkeys(throttled.sensor for throttled in facts.throttled)
    return list(sensors) or [use.sensor for use in facts.never_throttled[:_CLOSEST_MAX]]


def _with_findings(facts: AuditFacts) -> list[SensorKey]:
    worth = (f.sensor for f in facts.findings if f.severity != "info")
    return [sensor for sensor in worth if sensor is not None]


def _drawn(
    facts: AuditFacts, number: int, history: SensorHistory, whole: tuple[int, int]
) -> SensorPicture:
    sensor = history.sensor
    own = (int(history.start_ms[0]), history.end_ms)
    is_short = own[1] - own[0] < _OWN_SPAN_SHARE * (whole[1] - whole[0])
    use = facts.uses[sensor]
    broker = facts.broker(sensor.broker_id)
    window_ms = broker.remembers_ms(sensor.quota_type) if broker else 0
    full = use.bound_max * window_ms / 1000 if window_ms and use.bound_max else None
    throttled = next((t for t in facts.throttled if t.sensor == sensor), None)
    caption = " ".join(_sentences(facts, history, throttled, is_short))
    if window_ms and history.step_ms > 1000:
        caption += f" The broker looks {duration(window_ms)} back."
    whose = entity_name(*sensor.tags)
    label = f"{whose}, {sensor.quota_type} on broker {sensor.broker_id}. {caption}"
    svg = picture(history, own if is_short else whole, window_ms, full, label)
    return SensorPicture(f"picture-{number}", sensor, caption, svg, sensor in _with_findings(facts))


def _sentences(
    facts: AuditFacts,
    history: SensorHistory,
    throttled: ThrottledSensor | None,
    is_short: bool,
) -> Iterable[str]:
    use = facts.uses[history.sensor]
    yield _peak(use)
    if throttled is None:
        yield "Never throttled."
    elif throttled.refused:
        yield f"{counted(throttled.refused, 'mutation')} refused."
    else:
        yield (
            f"{counted(throttled.requests, 'request')} throttled, "
            f"{duration(throttled.throttle_time_ms)} of delay in total."
        )
    if history.step_ms > 1000:
        extreme = "peak" if use.tokens_min is None else "lowest"
        yield f"Each point is the {extreme} of {duration(history.step_ms)}."
    if is_short:
        day = facts.scope.day
        first, last = (time_of_day(t, day) for t in (int(history.start_ms[0]), history.end_ms))
        yield f"Shown from {first} to {last}, when it was there."


def _peak(use: SensorUse) -> str:
    bound = bound_in_words(use)
    if use.tokens_min is not None:
        left = f"At the lowest {significant(use.tokens_min)} partitions left to spend"
        return f"{left}, with a quota of {bound}."
    return f"Peak {rate(use.rate_max, use.sensor.quota_type)}, quota {bound}."


def bound_in_words(use: SensorUse) -> str:
    """Return the bound that was in force, or the range where it changed."""
    quota_type = use.sensor.quota_type
    if use.bound_min is None:
        return "none"
    if use.bound_min == use.bound_max:
        return rate(use.bound_min, quota_type)
    return f"{rate(use.bound_min, quota_type)} to {rate(use.bound_max, quota_type)}"


WIDTH_IN, HEIGHT_IN = 4.8, 2.2
TIME_TICKS_MAX = 5
_WINDOW_SHARE_MIN = 0.02
_RULER_Y = 1.08
_MANY_DOTS = 20
# After this long without a request the default window is empty: no line is drawn across.
_BROKEN_AFTER_MS = 11_000
_TIME_STEPS_S = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600,
)  # fmt: skip

_BOUND_LINE: dict[str, Any] = {"color": BOUND, "linewidth": 1.5, "dashes": (4, 2)}
_OVER_AREA: dict[str, Any] = {"color": OVER, "linewidth": 0, "alpha": 0.3, "interpolate": True}


def picture(
    history: SensorHistory,
    span_ms: tuple[int, int],
    window_ms: int,
    full_tokens: float | None,
    label: str,
) -> Markup:
    """Return the picture of ``history`` as inline SVG over ``span_ms`` (first, last; epoch ms).

    ``window_ms`` is how long the broker remembers, drawn as a ruler where that is long enough to
    be seen; ``full_tokens`` is the size of a full token bucket where known; ``label`` says in
    words what the picture shows, for people who do not see it.
    """
    with svg_style(repr(history.sensor), text=INK):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        _dress(axes, span_ms)
        if history.sensor.quota_type == "controller_mutation_rate":
            _draw_tokens(axes, history, full_tokens)
        else:
            _draw_rate(axes, history)
        _draw_window(axes, window_ms)
        svg = svg_of(figure, transparent=True)
    return inline_svg(svg, label)


def _dress(axes: Axes, span_ms: tuple[int, int]) -> None:
    quiet_axes(axes, grid=GRID, labels=INK)
    axes.tick_params(axis="x", length=3, color=GRID)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    first_s, last_s = span_ms[0] / 1000, span_ms[1] / 1000
    padding_s = max((last_s - first_s) * 0.02, 0.5)
    axes.set_xlim(first_s - padding_s, last_s + padding_s)
    ticks = time_ticks_s(first_s, last_s)
    pattern = "%H:%M:%S" if last_s - first_s < 600 else "%H:%M"
    axes.set_xticks(ticks, labels=[utc(tick * 1000).strftime(pattern) for tick in ticks])


def time_ticks_s(first_s: float, last_s: float) -> list[int]:
    """Return at most ``TIME_TICKS_MAX`` round moments from ``first_s`` to ``last_s``, epoch s.

    >>> time_ticks_s(0.4, 89.9)
    [15, 30, 45, 60, 75]
    """
    for step in _TIME_STEPS_S:
        ticks = list(range(int(-(-first_s // step)) * step, int(last_s) + 1, step))
        if len(ticks) <= TIME_TICKS_MAX:
            return ticks
    return []


def _draw_rate(axes: Axes, history: SensorHistory) -> None:
    highest = float(np.nanmax(np.concatenate([history.rate, history.bound, [0.0]]))) or 1.0
    is_bytes = unit_of(history.sensor.quota_type) == "B/s"
    divisor, unit = byte_step(highest) if is_bytes else (1.0, unit_of(history.sensor.quota_type))
    times, rate, bound = _with_breaks(history, history.rate / divisor, history.bound / divisor)
    _shade_throttled(axes, history)
    axes.fill_between(times, rate, bound, where=rate > bound, **_OVER_AREA)
    axes.plot(times, rate, color=RATE, linewidth=1.6, marker="o", markersize=_dot(history))
    ends = np.append(history.start_ms, history.end_ms) / 1000
    steps = np.append(history.bound, history.bound[-1:]) / divisor
    axes.plot(ends, steps, drawstyle="steps-post", **_BOUND_LINE)
    axes.set_ylim(0, highest / divisor * 1.12)
    _say_unit(axes, unit)


def _draw_tokens(axes: Axes, history: SensorHistory, full_tokens: float | None) -> None:
    times, tokens = _with_breaks(history, history.tokens)
    axes.axhline(0, color=INK, linewidth=1.2)
    if full_tokens is not None:
        axes.axhline(full_tokens, **_BOUND_LINE)
    axes.fill_between(times, tokens, 0, where=tokens < 0, **_OVER_AREA)
    axes.plot(times, tokens, color=RATE, linewidth=1.6, marker="o", markersize=_dot(history))
    refused = history.is_throttled & ~np.isnan(history.tokens)
    axes.plot(
        history.start_ms[refused] / 1000, history.tokens[refused], linestyle="none", marker="x",
        color=OVER, markeredgewidth=1.5, markersize=6 if refused.sum() < _MANY_DOTS else 3.5,
    )  # fmt: skip
    axes.margins(y=0.12)
    _say_unit(axes, "partitions left to spend")


def _draw_window(axes: Axes, window_ms: int) -> None:
    first_s, last_s = axes.get_xlim()
    length = window_ms / 1000 / (last_s - first_s)
    if not _WINDOW_SHARE_MIN <= length <= 0.5:
        return
    ruler: dict[str, Any] = {"color": INK, "transform": axes.transAxes, "clip_on": False}
    axes.plot([1 - length, 1], [_RULER_Y, _RULER_Y], linewidth=1.2, marker="|", **ruler)
    axes.text(
        1 - length - 0.012, _RULER_Y, f"window {duration(window_ms)}", ha="right", va="center",
        fontsize=8.0, transform=axes.transAxes,
    )  # fmt: skip


def _dot(history: SensorHistory) -> float:
    """Return the size of dots: few points need them to be seen, many need none."""
    return 2.5 if len(history.start_ms) < _MANY_DOTS else 0.0


def _shade_throttled(axes: Axes, history: SensorHistory) -> None:
    flags = history.is_throttled
    follows = np.diff(history.start_ms, prepend=history.start_ms[0]) == history.step_ms
    begins = np.flatnonzero(flags & ~(follows & np.roll(flags, 1)))
    ends = np.flatnonzero(flags & ~np.roll(follows & flags, -1))
    starts_s = history.start_ms[begins] / 1000
    lengths_s = (history.start_ms[ends] + history.step_ms) / 1000 - starts_s
    spans = list(zip(starts_s.tolist(), lengths_s.tolist(), strict=True))
    axes.broken_barh(
        spans, (0, 1), transform=axes.get_xaxis_transform(), color=THROTTLED, linewidth=0
    )


def _with_breaks(history: SensorHistory, *series: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return times (s) and ``series`` with a NaN wherever nothing happened for a whole window."""
    gap_ms = max(_BROKEN_AFTER_MS, 2 * history.step_ms)
    at = np.flatnonzero(np.diff(history.start_ms) > gap_ms) + 1
    times = np.insert(history.start_ms / 1000, at, np.nan)
    return times, *(np.insert(values, at, np.nan) for values in series)


def _say_unit(axes: Axes, unit: str) -> None:
    axes.set_title(unit, loc="left", fontsize=9.0, pad=6)
