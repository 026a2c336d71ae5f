"""Where the throttles before and after a request prove the state of its sensor."""

from __future__ import annotations

from itertools import product

import numpy as np

from spark_jobs.quota.constants import CHANGE_MS, PROVES_MS
from spark_jobs.quota.kernels import RateReplay
from spark_jobs.quota.states import Bools, Floats, Int64s
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed

NEIGHBOURS = 4
# A line that was written late may stand after one whose request was recorded later.
OUT_OF_TURN_MS = 60
AMONG_MIN = 3


def proven(
    placed: Placed,
    events: Events,
    replayed: RateReplay,
    window: Window,
    reach_ms: int,
    is_neither: Bools | bool = False,
    is_lie: Bools | bool = False,
) -> Bools:
    """Return True for each request whose nearest throttles on both sides are mostly replayed.

    ``replayed`` and the result are in recording order. Up to NEIGHBOURS throttles on each side
    count, those within ``reach_ms``; the request itself does not. Where a neighbour is off by as
    much as the request itself, a sample began at another time, and where it is off the other way by
    what stands between, or is what the throttle lacks, the two may have been recorded in the other
    order, unless one connection sent them: then nothing is proven. Nor is it close to a change of
    the quota, unless its throttle ``is_neither`` that of before nor of after; nor where the search
    explains a throttle that the replay, of one time out of those that it left, does not. A throttle
    that is known as a lie counts on no side.
    """
    logged_ms = events.logged_throttle_time_ms[placed.order]
    is_own = events.evidence[placed.order] == EXACT
    # A time before its line's is one that its throttle asked for: it fits whatever the state is.
    early_ms = events.earliest_ms[placed.order] - placed.recorded_at_ms
    is_own &= (early_ms <= PROVES_MS) & np.logical_not(is_lie)
    replayed_ms = replayed.throttle_time_ms
    tells = is_own & ((logged_ms > 0) | (replayed_ms > 0)) & ~np.isnan(events.bound[placed.order])
    off_ms = logged_ms - replayed_ms
    at_ms = placed.recorded_at_ms
    # Requests as often as this begin a sample in each window.
    may_lack = _may_lack_windows(at_ms, window, window.window_ms // 2)
    lacks = _may_lack_windows(at_ms, window, window.expire_age_ms)
    own_connection = events.connection[placed.order]
    at = np.flatnonzero(tells)
    good = np.abs(off_ms[at]) <= PROVES_MS
    times = placed.recorded_at_ms[at]
    share_ms = events.amount[placed.order] * 1000.0 / events.bound[placed.order]
    rows = np.arange(len(tells))
    on_sides = []
    for nearest, step in ((np.searchsorted(at, rows) - 1, -1), (np.searchsorted(at, rows + 1), 1)):
        near = nearest[:, None] + step * np.arange(NEIGHBOURS)[None, :]
        is_there = (near >= 0) & (near < len(at))
        near = np.clip(near, 0, max(len(at) - 1, 0))
        if len(at):
            distance_ms = np.abs(times[near] - placed.recorded_at_ms[:, None])
            is_there &= distance_ms <= reach_ms
            apart_ms = np.abs(off_ms[at][near] - off_ms[:, None])
            # While windows are missing, a sample counted longer adds or lacks whole ones.
            rest_ms = apart_ms % window.window_ms
            rest_ms = np.minimum(rest_ms, window.window_ms - rest_ms)
            is_alike = np.where(may_lack[:, None], rest_ms, apart_ms) <= PROVES_MS
            is_alike &= ~good[near]
            # Nothing is thrown below nothing: throttles of 0 do not tell how far off they are.
            is_alike &= (logged_ms[at][near] > 0) & (logged_ms[:, None] > 0)
            is_swapped = _in_other_order(rows, at[near], placed, off_ms, share_ms) & ~good[near]
            is_swapped &= own_connection[at[near]] != own_connection[:, None]
            is_excused = is_there & (is_alike | is_swapped)
            on_sides.append((is_there, is_there & good[near], is_excused))
    if not on_sides:
        return np.zeros(len(tells), bool)
    is_wrong = np.abs(off_ms) > PROVES_MS
    enough = sum(side_good.sum(1) for _, side_good, _ in on_sides) >= 2
    mostly = np.ones(len(tells), bool)
    alike = np.zeros(len(tells), bool)
    for is_there, side_good, side_alike in on_sides:
        mostly &= 2 * side_good.sum(1) >= is_there.sum(1)
        alike |= side_alike.any(1)
    alike |= _lacks_a_follower(placed, events, own_connection, off_ms)
    jumps = lacks & _is_near_whole_window(placed, events, replayed, window)
    alike |= _waited_with_its_time(placed, events, own_connection, off_ms, jumps, window)
    throws = (logged_ms > 0) & np.logical_not(is_lie)
    alike |= _is_near_wrong_state(placed, off_ms, tells, throws, window.window_ms)
    # A time before those recorded ahead of it: the order that was found is not that of the times.
    alike |= np.maximum.accumulate(at_ms) - at_ms > PROVES_MS
    is_right = tells & (logged_ms > 0) & ~is_wrong
    may_meet_other = _may_meet_other_quota(at_ms, events.bound[placed.order], is_right)
    alike |= may_meet_other & np.logical_not(is_neither)
    # The search has times that explain it: the broker may have had those.
    alike |= placed.status != UNEXPLAINED
    accused = np.flatnonzero(is_wrong & enough & mostly & ~alike)
    alike[accused] = _is_swapped_in_a_burst(accused, is_wrong, placed, events, off_ms, share_ms)
    alike[accused] |= _is_off_as_a_late_one(accused, placed, events, off_ms, share_ms, window)
    is_proven = enough & mostly & ~(alike & is_wrong)
    open_rows = is_wrong & tells & ~is_proven
    return np.asarray(is_proven & ~(is_wrong & _is_among(open_rows, tells, placed, window)))


def _may_meet_other_quota(at_ms: Int64s, bound: Floats, is_right: Bools) -> Bools:
    """Return True within CHANGE_MS of a change of the quota that no throttle between tells of.

    A broker that has thrown what the new quota asks for has it in force; before that, or after the
    last throttle of the quota of before, the change may have come later, or sooner, than located.
    """
    n = len(at_ms)
    is_same = (bound[1:] == bound[:-1]) | (np.isnan(bound[1:]) & np.isnan(bound[:-1]))
    begins = np.append(0, np.flatnonzero(~is_same) + 1)
    quota = np.searchsorted(begins, np.arange(n), side="right") - 1
    first, last = begins[quota], np.append(begins[1:], n)[quota] - 1
    right = np.append(0, np.cumsum(is_right))
    is_after = (first > 0) & (at_ms - at_ms[first] < CHANGE_MS)
    is_before = (last < n - 1) & (at_ms[last] - at_ms < CHANGE_MS)
    is_after &= right[:-1] == right[first]
    is_before &= right[1:] == right[last + 1]
    return np.asarray(is_after | is_before)


def _is_among(doubted: Bools, tells: Bools, placed: Placed, window: Window) -> Bools:
    """Return True where a third of the throttles around, and AMONG_MIN of them, are in doubt.

    After a stop of the broker many threads record at once, in an order that nobody can tell.
    """
    at_ms, reach_ms = placed.recorded_at_ms, window.window_ms // 4
    first = np.searchsorted(at_ms, at_ms - reach_ms)
    stop = np.searchsorted(at_ms, at_ms + reach_ms, side="right")
    doubts, all_told = (
        total[stop] - total[first]
        for total in (np.append(0, np.cumsum(doubted)), np.append(0, np.cumsum(tells)))
    )
    return np.asarray((doubts >= AMONG_MIN) & (3 * doubts >= all_told))


def _is_off_as_a_late_one(
    accused: Int64s,
    placed: Placed,
    events: Events,
    off_ms: Int64s,
    share_ms: Floats,
    window: Window,
) -> Bools:
    """Return True for each of the accused that is off as one beside it would be at its line.

    That one's line was taken to be late, such as by 18 ms: it is explained so, and would be off by
    40 ms otherwise, as the accused one is. Then the state may be another one, and no line late.
    """
    at_ms = placed.recorded_at_ms
    from_ms = events.earliest_ms[placed.order]
    until_ms = np.maximum(events.latest_ms[placed.order], from_ms)
    late = np.flatnonzero(from_ms - at_ms > PROVES_MS)
    held_ms = np.append(0.0, np.cumsum(share_ms))
    stop = np.searchsorted(np.maximum.accumulate(at_ms), from_ms[late], side="right")
    passed_ms = held_ms[np.maximum(stop, late + 1)] - held_ms[late + 1]
    least_ms, most_ms = (
        (off_ms + line_ms - at_ms)[late] - passed_ms for line_ms in (from_ms, until_ms)
    )
    own_ms = off_ms[accused][:, None]
    is_alike = (least_ms - PROVES_MS <= own_ms) & (own_ms <= most_ms + PROVES_MS)
    is_alike &= np.abs(at_ms[late] - at_ms[accused][:, None]) <= window.window_ms
    return np.asarray(is_alike.any(1))


def _is_swapped_in_a_burst(
    accused: Int64s,
    is_wrong: Bools,
    placed: Placed,
    events: Events,
    off_ms: Int64s,
    share_ms: Floats,
) -> Bools:
    """Return True for each of the accused that is off as if another one had its place.

    Many requests may be recorded in a millisecond: the other one is not always next to it. One that
    was not throttled may have been due far less than nothing, before those of its own time.
    """
    found = np.zeros(len(accused), bool)
    if not len(accused):
        return found
    order, wrong = placed.order, np.flatnonzero(is_wrong)
    connection, logged_ms = events.connection[order], events.logged_throttle_time_ms[order]
    earliest_ms, latest_ms = events.earliest_ms[order] - PROVES_MS, events.latest_ms[order]
    in_turn_ms = np.maximum.accumulate(placed.recorded_at_ms)[wrong]
    for i, row in enumerate(accused.tolist()):
        around_ms = placed.recorded_at_ms[row] + np.array([-OUT_OF_TURN_MS, OUT_OF_TURN_MS + 1])
        near = wrong[slice(*np.searchsorted(in_turn_ms, around_ms))]
        others = near[connection[near] != connection[row]]
        below = (earliest_ms[others] <= latest_ms[row]) & (latest_ms[others] >= earliest_ms[row])
        below &= logged_ms[row] == 0
        found[i] = _in_other_order(
            np.array([row]), others[np.newaxis], placed, off_ms, share_ms, below
        ).any()
    return found


def _in_other_order(
    rows: Int64s,
    neighbours: Int64s,
    placed: Placed,
    off_ms: Int64s,
    share_ms: Floats,
    may_be_below: Bools | bool = False,
) -> Bools:
    """Return True where row [n] and neighbour [n, k] may have been recorded in the other order.

    A request recorded ahead of others lacks their amounts, and they have its amount too much. A
    neighbour off by more than all amounts between is wrong for another reason, and excuses nobody.
    ``may_be_below`` are pairs whose request may lack more than its throttle tells.
    """
    at_ms = placed.recorded_at_ms
    distance_ms = np.abs(at_ms[neighbours] - at_ms[rows][:, None])
    own_off_ms, own_share_ms = off_ms[rows][:, None], share_ms[rows][:, None]
    up_to_ms = np.cumsum(np.nan_to_num(share_ms))
    between_ms = np.abs(up_to_ms[rows][:, None] - up_to_ms[neighbours])
    is_later = neighbours > rows[:, None]
    # What stands between, with the request and without its neighbour, and the other way round.
    passed_ms = between_ms + np.where(is_later, own_share_ms - share_ms[neighbours], 0.0)
    overtaken_ms = passed_ms + share_ms[neighbours] - own_share_ms
    about_ms = PROVES_MS + distance_ms
    is_its_amount = np.abs(np.abs(own_off_ms) - share_ms[neighbours]) <= about_ms
    is_all_amounts = np.abs(np.abs(own_off_ms) - overtaken_ms) <= about_ms
    is_all_amounts |= may_be_below & (overtaken_ms >= np.abs(own_off_ms) - about_ms)
    return np.asarray(
        (distance_ms <= OUT_OF_TURN_MS)
        & (off_ms[neighbours] * own_off_ms < 0)
        & (np.abs(off_ms[neighbours]) <= passed_ms + about_ms)
        & (is_its_amount | is_all_amounts)
    )


def _lacks_a_follower(placed: Placed, events: Events, connection: Int64s, off_ms: Int64s) -> Bools:
    """Return True where one of the next requests, counted earlier, explains a longer throttle."""
    n = len(off_ms)
    amount, bound = events.amount[placed.order], events.bound[placed.order]
    found = np.zeros(n, bool)
    for step in range(1, NEIGHBOURS + 1):
        follower = np.minimum(np.arange(n) + step, n - 1)
        later_ms = placed.recorded_at_ms[follower] - placed.recorded_at_ms
        share_ms = amount[follower] * 1000.0 / bound
        with np.errstate(invalid="ignore"):
            is_its = np.abs(off_ms - share_ms) <= PROVES_MS + later_ms
        is_other = connection[follower] != connection
        found |= is_other & (later_ms <= OUT_OF_TURN_MS) & is_its & (off_ms > 0)
    return found


def _may_lack_windows(at_ms: Int64s, window: Window, gap_ms: int) -> Bools:
    """Return True for each request whose window has a gap of more than ``gap_ms``, or the begin."""
    has_gap = np.diff(at_ms, prepend=at_ms[:1]) > gap_ms
    begun_ms = np.maximum.accumulate(np.where(has_gap, at_ms, at_ms[0])) if len(at_ms) else at_ms
    return np.asarray(at_ms - begun_ms < window.expire_age_ms)


def _is_near_whole_window(
    placed: Placed, events: Events, replayed: RateReplay, window: Window
) -> Bools:
    """Return True where a request may have been recorded on the other side of a whole window.

    While windows are missing, only what is over whole ones counts (``Rate.windowSize``).
    """
    at_ms, over_ms = placed.recorded_at_ms, replayed.window_size_ms % window.window_ms
    before_ms = at_ms - events.earliest_ms[placed.order]
    after_ms = events.latest_ms[placed.order] - at_ms
    is_near = over_ms <= before_ms + PROVES_MS
    return np.asarray(is_near | (window.window_ms - over_ms <= after_ms + PROVES_MS))


def _waited_with_its_time(
    placed: Placed,
    events: Events,
    connection: Int64s,
    off_ms: Int64s,
    jumps: Bools,
    window: Window,
) -> Bools:
    """Return True where a thread that was stopped after it had read its time explains a throttle.

    A handler reads the clock first and records after it (``KafkaApis.handleProduceRequest``). What
    other threads record in between is counted, though it has later times. Where the window's length
    ``jumps`` as a whole one is over, the time read may be that of before.
    """
    n = len(off_ms)
    at_ms, bound = placed.recorded_at_ms, events.bound[placed.order]
    earliest_ms, latest_ms = events.earliest_ms[placed.order], events.latest_ms[placed.order]
    amounts = events.amount[placed.order]
    found, rows = np.zeros(n, bool), np.arange(n)
    for direction in (1, -1):
        others = [np.clip(rows + direction * step, 0, n - 1) for step in range(1, NEIGHBOURS + 1)]
        meets = [
            (other == rows + direction * step)
            & (connection[other] != connection)
            & (earliest_ms[other] <= latest_ms)
            & (latest_ms[other] >= earliest_ms)
            for step, other in enumerate(others, start=1)
        ]
        # Any of those that may have been recorded meanwhile.
        for taken in product((False, True), repeat=NEIGHBOURS):
            overlaps = np.ones(n, bool)
            more_ms = np.zeros(n)
            for is_taken, other, may_be in zip(taken, others, meets, strict=True):
                if is_taken:
                    overlaps &= may_be
                    more_ms += direction * amounts[other] * 1000.0 / bound
            for jump_ms in (0, window.window_ms, -window.window_ms):
                left_ms = off_ms - more_ms - jump_ms
                fits = left_ms >= at_ms - latest_ms - PROVES_MS
                fits &= left_ms <= at_ms - earliest_ms + PROVES_MS
                found |= overlaps & fits & (jumps | (jump_ms == 0))
    return found


def _is_near_wrong_state(
    placed: Placed, off_ms: Int64s, tells: Bools, throws: Bools, window_ms: int
) -> Bools:
    """Return True next to throttles in a row that miss by as much as each other.

    Single lies are off by anything; a sample that begins or ends elsewhere moves all that rests on
    it by one amount, until it leaves: then the next ones may be off by another. A throttle that is
    replayed in between says that the state is right again. One of 0 may be off by more.
    """
    at_ms, n = placed.recorded_at_ms, len(off_ms)
    is_right = tells & (np.abs(off_ms) <= PROVES_MS)
    missed = np.flatnonzero((placed.status == UNEXPLAINED) & (np.abs(off_ms) > PROVES_MS) & throws)
    apart_ms = np.abs(np.diff(off_ms[missed]))
    is_alike = (apart_ms <= PROVES_MS) & (np.diff(at_ms[missed]) <= window_ms)
    is_alike &= np.diff(np.cumsum(is_right)[missed]) == 0
    is_shared = np.zeros(n, bool)
    is_shared[missed[:-1][is_alike]] = is_shared[missed[1:][is_alike]] = True
    known = np.flatnonzero(is_shared | is_right)
    if not len(known):
        return is_shared
    rows, found = np.arange(n), np.zeros(n, bool)
    for nearest in (np.searchsorted(known, rows, "right") - 1, np.searchsorted(known, rows)):
        is_there = (nearest >= 0) & (nearest < len(known))
        place = known[np.clip(nearest, 0, len(known) - 1)]
        found |= is_there & is_shared[place] & (np.abs(at_ms[place] - at_ms) <= window_ms)
    return found
