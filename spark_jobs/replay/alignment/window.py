"""A sensor's requests window after window: bounded memory, and room to go back.

The evidence for the start of a sample comes while it is the oldest one, a whole rate window later.
So of what was searched, all but the last part is fixed; that part is searched again together
with what follows. Where the best of few hypotheses leaves a run of throttles unexplained, the
same requests are searched again with more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.replay.alignment.events import EXACT, Events, Samples, Window
from spark_jobs.replay.alignment.explanation import EXPLAINED, NOT_ASKED
from spark_jobs.replay.alignment.placement import Placed, place
from spark_jobs.replay.alignment.search import search

WIDTHS = (64, 256, 1024)
# So many steps are kept at most (64 bytes each): long windows are searched less widely.
STEPS_MAX = 2_200_000
# One wrong throttle is the broker's; so many in a row are a wrong state.
RUN_OF_UNEXPLAINED = 3
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
    best: Placed | None = None
    best_cost = np.inf
    used = WIDTHS[0]
    for width in WIDTHS:
        if best is not None and width * len(events.amount) > STEPS_MAX:
            break
        found = search(events, samples, window, width)
        if found.cost < best_cost - 1.0:
            best, best_cost, used = place(events, samples, window, found), found.cost, width
        assert best is not None
        if not has_run_of_unexplained(best, events):
            break
    assert best is not None
    fixed = len(best.order) if is_last else _fixed(best, events, window)
    return Aligned(best, fixed, used)


def has_run_of_unexplained(placed: Placed, events: Events) -> bool:
    """Return True if throttles in a row stay unexplained, as they do after a wrong state."""
    logged = events.logged_throttle_time_ms[placed.order] > 0
    unexplained = (placed.status != EXPLAINED) & (placed.status != NOT_ASKED)
    is_evidence = (logged & (events.evidence[placed.order] == EXACT)) | unexplained
    failed = unexplained[is_evidence]
    if len(failed) < RUN_OF_UNEXPLAINED:
        return False
    return bool(np.lib.stride_tricks.sliding_window_view(failed, RUN_OF_UNEXPLAINED).all(1).any())


def _fixed(placed: Placed, events: Events, window: Window) -> int:
    """Return the number of requests, from the first on, that later ones cannot move."""
    n = len(placed.order)
    lag_ms = window.expire_age_ms + _LAG_WINDOWS * window.window_ms
    until_ms = placed.recorded_at_ms[-1] - lag_ms
    # Nothing before may be waiting for its turn: the first k recorded are the first k events.
    is_cut = np.maximum.accumulate(placed.order) == np.arange(n)
    is_past = placed.recorded_at_ms < until_ms
    cuts = np.flatnonzero(is_cut & is_past)
    if len(cuts):
        return int(cuts[-1]) + 1
    # More requests than fit into a window before the evidence for the first of them: fix half.
    cuts = np.flatnonzero(is_cut[: n // 2 + 1])
    return int(cuts[-1]) + 1 if len(cuts) else n
