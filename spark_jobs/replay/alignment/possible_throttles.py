"""The least and the most that a sound broker may have thrown, whatever the times of its requests.

Each request was recorded inside of what its line admits. A sample begins with the first request
that is a window later than the beginning of the one before. So each sample began inside of an
interval too, and a request's throttle lies between the least and the most that follow from those
intervals. Such as: requests that count 330 ms of the quota each come every 300 ms, and their lines
admit 4 ms. No more than some 10 ms lie between least and most, and a throttle beyond is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.states import Bools, Floats
from spark_jobs.replay.alignment.events import EXACT, NOTHING, Events, Window
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.sample_beginnings import (
    Beginnings,
    Requests,
    Sorted,
    beginnings,
    first_beginnings,
    intervals_ms,
    summed,
)


def impossible(placed: Placed, events: Events, least_ms: Floats, most_ms: Floats) -> Bools:
    """Return True for each request whose throttle no sound broker throws, in recording order.

    It is beyond the least or the most of :func:`possible_throttles_ms`, such as 0 ms where 700 ms
    are the least. Where another quota may have thrown more, only too short is impossible.
    """
    logged_ms = events.logged_throttle_time_ms[placed.order]
    evidence = events.evidence[placed.order]
    is_short = (logged_ms < least_ms - PROVES_MS) & (evidence != NOTHING)
    is_long = (logged_ms > most_ms + PROVES_MS) & (evidence == EXACT)
    return np.asarray(is_short | is_long)


def possible_throttles_ms(
    placed: Placed,
    events: Events,
    window: Window,
    known: Beginnings,
    is_asked: Bools,
    is_sure: Bools,
    *,
    held_nothing: bool,
) -> tuple[Floats, Floats]:
    """Return the least and the most of each request that is asked (ms), in recording order.

    They are 0 and infinite of others, and without a quota. Where a sample may count of which the
    beginning is not known, the most is infinite, and the least is of what was recorded so shortly
    before that it counts whenever samples began. Of that, ``is_sure`` names those that surely went
    to this sensor: close to a change of quotas a request may have gone to another one.

    ``known`` are those of :func:`known_beginnings`. Where the sensor ``held_nothing``
    before the first request, its first sample began with that.
    """
    is_asked = is_asked & ~np.isnan(events.bound[placed.order])
    if not is_asked.any():
        return np.zeros(len(is_asked)), np.full(len(is_asked), np.inf)
    order = placed.order
    from_ms, until_ms = intervals_ms(placed, events)
    amount = events.amount[order]
    requests = Requests(
        from_ms, until_ms, amount, events.bound[order], events.connection[order], summed(amount)
    )
    earlier = Sorted.of(from_ms, until_ms, amount)
    later = Sorted.of(until_ms, from_ms, amount)
    if held_nothing:
        first = int(later.other_end_ms[0]), int(earlier.other_end_ms[0])
    elif len(known.from_ms):
        first = int(known.from_ms[0]), int(known.until_ms[0])
    else:
        # The first request's sample may have begun before it.
        began_ms = int(later.other_end_ms[0]) - window.window_ms + 1
        first = began_ms, int(earlier.other_end_ms[0])
    rule = _Rule.of(window)
    # What the sensor held before the first request it has counted in the first sample, too.
    oldest = 0 if held_nothing else 1
    least_ms, most_ms = _throttles(requests, earlier, later, first, known, rule, is_asked, oldest)
    sure = np.where(is_sure, amount, 0.0)
    requests = requests._replace(amount=sure, counted=summed(sure))
    earlier = Sorted.of(from_ms, until_ms, sure)
    return np.maximum(least_ms, _always_ms(requests, earlier, rule, is_asked)), most_ms


class _Rule(NamedTuple):
    """How samples are kept."""

    window_ms: int
    expire_age_ms: int
    slots: int
    keeps_overlapping: bool
    longest_ms: int  # what counts began no longer before

    @classmethod
    def of(cls, window: Window) -> _Rule:
        # What began counts for so long, or with overlapping samples what ended.
        longest_ms = window.expire_age_ms - 1
        if window.keeps_overlapping:
            longest_ms += window.window_ms
        return cls(
            window.window_ms, window.expire_age_ms, window.slots, window.keeps_overlapping,
            longest_ms,
        )  # fmt: skip


@njit(cache=True)
def _throttles(
    requests: Requests,
    earlier: Sorted,
    later: Sorted,
    first: tuple[int, int],
    known: Beginnings,
    rule: _Rule,
    is_asked: Bools,
    oldest: int,
) -> tuple[Floats, Floats]:
    """Return the least and the most; of samples before ``oldest``, nothing is known."""
    n = len(requests.from_ms)
    least_ms, most_ms = np.zeros(n), np.full(n, np.inf)
    widest_ms = np.max(requests.until_ms - requests.from_ms)
    last_ms = int(np.max(requests.until_ms[is_asked]))
    whole = beginnings(earlier, later, first, known, rule.window_ms, last_ms)
    for i in range(n):
        if not is_asked[i]:
            continue
        least_ms[i], most_ms[i] = _throttle(
            i, requests, earlier, later, whole, rule, oldest, widest_ms
        )
        # The first sample from a moment on begins inside of a window and what follows it at once:
        # with one of these requests, where all since that moment are among them.
        since_ms = requests.from_ms[i] - rule.expire_age_ms - 3 * rule.window_ms
        surely = np.searchsorted(earlier.at_ms, since_ms + rule.window_ms)
        if since_ms <= first[1] or surely == n:
            continue
        until_ms = earlier.other_end_ms[surely]
        least, most = np.inf, 0.0
        for some in first_beginnings(since_ms, until_ms, requests, later):
            near = beginnings(earlier, later, some, known, rule.window_ms, requests.until_ms[i])
            short, long = _throttle(i, requests, earlier, later, near, rule, 1, widest_ms)
            least, most = min(least, short), max(most, long)
        if least < np.inf:
            least_ms[i], most_ms[i] = max(least_ms[i], least), min(most_ms[i], most)
    return least_ms, most_ms


@njit(cache=True)
def _always_ms(requests: Requests, earlier: Sorted, rule: _Rule, is_asked: Bools) -> Floats:
    """Return the least throttles of requests that are asked, whenever samples began; of others 0.

    An amount is in a sample that began less than a window before it, so it counts for at least the
    time that a sample is kept less a window. And no window is longer than a sample is kept.
    """
    n = len(requests.from_ms)
    least_ms = np.zeros(n)
    widest_ms = np.max(requests.until_ms - requests.from_ms)
    for i in range(n):
        if is_asked[i]:
            since_ms = requests.until_ms[i] - rule.expire_age_ms + rule.window_ms
            before = earlier.counted[np.searchsorted(earlier.at_ms, since_ms)]
            counted, _ = _counted(i, requests, widest_ms)
            least_ms[i] = max(
                (counted - before) * 1000.0 / requests.bound[i] - rule.longest_ms, 0.0
            )
    return least_ms


@njit(cache=True)
def _throttle(
    i: int,
    requests: Requests,
    earlier: Sorted,
    later: Sorted,
    began: Beginnings,
    rule: _Rule,
    oldest: int,
    widest_ms: int,
) -> tuple[float, float]:
    """Return the least and the most of one request; 0 and infinite where they are not known."""
    # The current sample is one of these, and the oldest one of those from ``first`` on.
    surely = np.searchsorted(began.until_ms, requests.from_ms[i], side="right") - 1
    current = np.searchsorted(began.from_ms, requests.until_ms[i], side="right") - 1
    first = max(surely, 0)
    while first > 0 and _may_count(first - 1, surely, requests.from_ms[i], began, rule):
        first -= 1
    if first < oldest:
        return 0.0, np.inf
    # A sample that left began again in its slot, empty, with a request of then.
    empty_ms = requests.from_ms[i] - rule.expire_age_ms
    if surely >= rule.slots - 1:
        last_ms = began.from_ms[surely - rule.slots + 1]
        empty_ms = max(empty_ms, last_ms + rule.expire_age_ms)
    counted = _counted(i, requests, widest_ms)
    counts_ms = requests.from_ms[i] - rule.longest_ms
    least, most = np.inf, 0.0
    for sample in range(first, current + 1):
        begun = (max(began.from_ms[sample], counts_ms), began.until_ms[sample])
        short, long = _with_oldest(
            i, begun, empty_ms, counted, widest_ms, requests, earlier, later, rule
        )
        least, most = min(least, short), max(most, long)
        if _counts(sample, current, requests.until_ms[i], began, requests, later, rule):
            break
    if least == np.inf:
        return 0.0, np.inf
    return max(least, 0.0), most


@njit(cache=True)
def _with_oldest(
    i: int,
    begun: tuple[int, int],
    empty_ms: int,
    counted: tuple[float, float],
    widest_ms: int,
    requests: Requests,
    earlier: Sorted,
    later: Sorted,
    rule: _Rule,
) -> tuple[float, float]:
    """Return the least and the most if the oldest sample began inside of ``begun``.

    Infinite and 0 where no request can have begun it. It is one of those whose interval overlaps;
    what was ``counted`` up to ``i`` counts from that one on. An empty sample that began as early as
    ``empty_ms`` makes the window longer.
    """
    least, most = np.inf, 0.0
    may_leave_ms = requests.until_ms[i] - rule.expire_age_ms + rule.window_ms
    place = np.searchsorted(later.at_ms, begun[0])
    while place < len(later.at_ms) and later.at_ms[place] <= begun[1] + widest_ms:
        m = later.request[place]
        place += 1
        from_ms = max(requests.from_ms[m], begun[0])
        until_ms = min(requests.until_ms[m], begun[1])
        if from_ms > until_ms or requests.from_ms[m] > requests.until_ms[i]:
            continue
        # The sample before it, of the last request before it, may count no more.
        before = np.searchsorted(later.at_ms, from_ms) - 1
        if before >= 0 and later.last_end_ms[before] >= may_leave_ms:
            continue
        total_least = counted[0] - earlier.counted[np.searchsorted(earlier.at_ms, until_ms)]
        total_most = counted[1] - later.counted[np.searchsorted(later.at_ms, from_ms)]
        if requests.from_ms[m] < until_ms:
            total_least += requests.amount[m]
        total_least = max(total_least, requests.amount[i])
        shortest_ms, longest_ms = _window_sizes_ms(
            max(requests.from_ms[i] - until_ms, 0),
            max(requests.until_ms[i] - min(from_ms, empty_ms), 0),
            rule,
        )
        least = min(least, total_least * 1000.0 / requests.bound[i] - longest_ms)
        most = max(most, total_most * 1000.0 / requests.bound[i] - shortest_ms)
    return least, most


@njit(cache=True)
def _counted(i: int, requests: Requests, widest_ms: int) -> tuple[float, float]:
    """Return the amount (bytes) that requests counted up to ``i``, at least and at most.

    Such as 3,000 and 3,500: one of 500 comes on another connection, and may have been recorded
    before or after ``i``, for their intervals overlap.
    """
    least = most = requests.counted[i + 1]
    j = i - 1
    while j >= 0 and requests.from_ms[i] - requests.from_ms[j] <= 2 * widest_ms:
        is_other = requests.connection[j] != requests.connection[i]
        if is_other and requests.until_ms[j] >= requests.from_ms[i]:
            least -= requests.amount[j]
        j -= 1
    j = i + 1
    while j < len(requests.from_ms) and requests.from_ms[j] - requests.until_ms[i] <= 2 * widest_ms:
        is_other = requests.connection[j] != requests.connection[i]
        if is_other and requests.from_ms[j] <= requests.until_ms[i]:
            most += requests.amount[j]
        j += 1
    return least, most


@njit(cache=True)
def _may_count(sample: int, current: int, from_ms: int, began: Beginnings, rule: _Rule) -> bool:
    """Tell if a sample may count at ``from_ms``; ``current`` is the first that may be current."""
    if sample <= current - rule.slots:
        return False
    # It was kept for its beginning, or for its last event, which is before the next beginning.
    last_ms = began.until_ms[sample + 1 if rule.keeps_overlapping else sample]
    return bool(from_ms - last_ms < rule.expire_age_ms)


@njit(cache=True)
def _counts(
    sample: int,
    current: int,
    until_ms: int,
    began: Beginnings,
    requests: Requests,
    later: Sorted,
    rule: _Rule,
) -> bool:
    """Tell if a sample surely counts; ``current`` is the last that may be current."""
    last_ms = began.from_ms[sample]
    if rule.keeps_overlapping and sample + 1 < len(began.from_ms):
        before = np.searchsorted(later.at_ms, began.from_ms[sample + 1])
        if before > 0:
            last_ms = max(last_ms, requests.from_ms[later.request[before - 1]])
    return bool(sample > current - rule.slots and until_ms - last_ms < rule.expire_age_ms)


@njit(cache=True)
def _window_sizes_ms(least_ms: int, most_ms: int, rule: _Rule) -> tuple[int, int]:
    """Return the shortest and the longest window size of elapsed times between two.

    Missing windows are added (``Rate.windowSize``): after a whole window it is one shorter again.
    """
    full_ms = rule.expire_age_ms - rule.window_ms
    if least_ms >= full_ms:
        return least_ms, most_ms
    last_ms = min(most_ms, full_ms - 1)
    shortest_ms, longest_ms = full_ms, full_ms + rule.window_ms - 1
    if least_ms // rule.window_ms == last_ms // rule.window_ms:
        shortest_ms += least_ms % rule.window_ms
        longest_ms = full_ms + last_ms % rule.window_ms
    if most_ms >= full_ms:
        shortest_ms, longest_ms = full_ms, max(longest_ms, most_ms)
    return shortest_ms, longest_ms
