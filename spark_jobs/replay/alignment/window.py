"""A sensor's requests window after window: bounded memory, and room to go back.

The evidence for the start of a sample comes while it is the oldest one, a whole rate window later,
and for which request the sample began with, when that one's sample leaves, another window later. So
of what was searched, all but the last part is fixed; that part is searched again together
with what follows. Where the best of few hypotheses leaves a run of throttles unexplained, the
same requests are searched again with more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.replay.alignment.contradictions import agreeing
from spark_jobs.replay.alignment.events import EXACT, Events, Samples, Window
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed, place
from spark_jobs.replay.alignment.repairs import repaired
from spark_jobs.replay.alignment.search import Found, search

WIDTHS = (64, 256, 1024, 4096)
# So many steps are taken at most: long windows are searched less widely. About a tenth of them are
# kept at once, 64 bytes each.
STEPS_MAX = 1 << 24
# Where more of the throttles than this are unexplained, the broker held to something else.
_HOPELESS_SHARE = 0.6
_FAILURES_MAX = 3
# Samples begin and end this much after they were due, when requests are rare.
_LAG_WINDOWS = 2


@dataclass(frozen=True, slots=True)
class Aligned:
    """The first ``fixed`` requests of a window in recording order, with their times."""

    placed: Placed
    fixed: int
    width: int


def align_window(events: Events, samples: Samples, window: Window, *, is_last: bool) -> Aligned:
    """Return the record times of ``events``, which begin with the samples as given.

    Unless the window is the last of its sensor, only what no later request can change is fixed:
    rows ``placed.order[:fixed]`` are the first ``fixed`` events, in another order maybe.
    """
    found, best, used = _widely(events, samples, window)
    events, found, best = agreeing(events, samples, window, found, best, used)
    share = _share_unexplained(best, events)
    if share > 0.0:
        # One request that is late may have moved all samples until the throttles begin.
        failures_max = _FAILURES_MAX if share < _HOPELESS_SHARE else 1
        width = min(used, WIDTHS[1])
        events, found, placed = repaired(events, samples, window, found, best, width, failures_max)
        if placed is not best:
            events, _, best = agreeing(events, samples, window, found, placed, width)
    fixed = len(best.order) if is_last else _fixed(best, events, window)
    return Aligned(best, fixed, used)


def _widely(events: Events, samples: Samples, window: Window) -> tuple[Found, Placed, int]:
    """Return the best of as many hypotheses as it takes to explain all, and how many those were."""
    best = search(events, samples, window, WIDTHS[0], takes_late=False)
    placed, used = place(events, samples, window, best), WIDTHS[0]
    # Most logs ask for no late line at a sample's edge, and looking for them takes longer.
    for width in WIDTHS:
        share = _share_unexplained(placed, events)
        if share == 0.0 or (share >= _HOPELESS_SHARE and width > WIDTHS[1]):
            break
        if width * len(events.amount) > STEPS_MAX:
            break
        found = search(events, samples, window, width)
        if found.cost < best.cost - 1.0:
            best, used = found, width
            placed = place(events, samples, window, best)
    return best, placed, used


def _share_unexplained(placed: Placed, events: Events) -> float:
    """Return the share of what asks for an explanation, throttles and misses, that has none."""
    logged = events.logged_throttle_time_ms[placed.order] > 0
    is_unexplained = placed.status == UNEXPLAINED
    is_evidence = (logged & (events.evidence[placed.order] == EXACT)) | is_unexplained
    return float(is_unexplained.sum() / max(is_evidence.sum(), 1))


def _fixed(placed: Placed, events: Events, window: Window) -> int:
    """Return the number of requests, from the first on, that later ones cannot move."""
    n = len(placed.order)
    lag_ms = 2 * window.expire_age_ms + _LAG_WINDOWS * window.window_ms
    until_ms = placed.recorded_at_ms[-1] - lag_ms
    is_cut = placed.is_cut()
    is_past = placed.recorded_at_ms < until_ms
    cuts = np.flatnonzero(is_cut & is_past)
    if len(cuts):
        return int(cuts[-1]) + 1
    # More requests than fit into a window before the evidence for the first of them: fix half.
    cuts = np.flatnonzero(is_cut[: n // 2 + 1])
    return int(cuts[-1]) + 1 if len(cuts) else n
