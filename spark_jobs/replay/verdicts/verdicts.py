"""One verdict per decision: what the log says against what the rule says.

The record time of a request is known to an interval only, and a sample starts at the event that
opened it. Where the throttles before and after a request are explained by one choice of record
times (``alignment``), the state of the sensor is proven, and a throttle that still differs
is wrong. Elsewhere it may differ by as much as the sample boundaries can move, and such a
difference accuses nobody: it is ``indeterminate`` with reason ``sample_timing``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.constants import LATE_LINE_MS
from spark_jobs.replay.verdicts.fetch_attempt import ODD_ATTEMPTS, Attempt
from spark_jobs.replay.verdicts.mutation_throttle import (
    LATE_LINE,
    OVER_THROTTLED,
    REQUEST_QUOTA,
    UNDER_THROTTLED,
)

SIZE_NOT_LOGGED = "size_not_logged"
PARTITIONS_UNKNOWN = "partitions_unknown"
REQUEST_QUOTA_INTERVAL = "request_quota_interval"
LIKELY_REQUEST_TIME = "likely_request_time"
"""Of a decision that agrees by what request times likely were: nothing else is said by that."""
STATE_UNKNOWN = "state_unknown"
QUOTA_CHANGE_IN_FLIGHT = "quota_change_in_flight"
UNLOGGED_CHANGE = "unlogged_change"
"""Of what another quota explains since a broker went down, which may have changed it unlogged."""
SAMPLE_TIMING = "sample_timing"
LINES_MISSING = "lines_missing"
ATTEMPT_NOT_LOGGED = "attempt_not_logged"
THROTTLED_WITHOUT_QUOTA = "throttled_without_quota"

PROVEN_CHANGE_MS = 30


RATE_VERDICTS: tuple[tuple[str, str | None], ...] = (
    ("indeterminate", QUOTA_CHANGE_IN_FLIGHT),
    ("no_quota", THROTTLED_WITHOUT_QUOTA),
    ("no_quota", None),
    ("indeterminate", SIZE_NOT_LOGGED),
    ("indeterminate", REQUEST_QUOTA_INTERVAL),
    ("agree", None),
    ("indeterminate", ATTEMPT_NOT_LOGGED),
    ("agree", None),
    ("indeterminate", REQUEST_QUOTA_INTERVAL),
    ("indeterminate", STATE_UNKNOWN),
    ("indeterminate", QUOTA_CHANGE_IN_FLIGHT),
    ("indeterminate", LINES_MISSING),
    ("indeterminate", SAMPLE_TIMING),
    ("under_throttled", None),
    ("over_throttled", None),
)
"""Verdict and reason of each check of :func:`rate_verdicts`, and of what passes none."""
_ACCUSING = [code for code, (verdict, _) in enumerate(RATE_VERDICTS) if verdict in WRONG_VERDICTS]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far log and replay may differ before somebody is blamed; milliseconds."""

    throttle_ms: int
    warm_up_ms: int  # at least; a sensor that remembers for longer is unknown for longer
    # A change is in force on a broker some ms after the controller's answer, unknown how many.
    change_ms: int


@dataclass(frozen=True, slots=True)
class RateRows:
    """Windowed-rate decisions as arrays of one length."""

    bound: np.ndarray  # NaN: none in force
    amount_known: np.ndarray  # bool
    is_unrecorded: np.ndarray  # bool
    attempt: np.ndarray  # fetch_attempt.Attempt, of un-recorded amounts
    is_request_quota: np.ndarray  # bool
    has_request_bound: np.ndarray  # bool
    logged_ms: np.ndarray
    replayed_ms: np.ndarray
    boundary_amount: np.ndarray  # value of the oldest live sample: may have been in or out
    purge_margin_ms: np.ndarray  # from its record time to when a sample left, or will leave
    keeps_overlapping: np.ndarray  # bool: a sample is kept until its last event left the window
    window_ms: np.ndarray
    known_for_ms: np.ndarray
    change_distance_ms: np.ndarray
    is_proven: np.ndarray  # bool: the throttles around prove the sensor's state
    is_explained: np.ndarray  # bool: by another history than the one that is replayed
    is_impossible: np.ndarray  # bool: no times that lines admit give its throttle
    is_neither: np.ndarray  # bool: no quota beside a change gives its throttle
    line_lag_max_ms: np.ndarray  # how late the line may be
    lost_requests: np.ndarray  # so many may be missing from what the rate rests on
    lost_amount_max: np.ndarray  # and they were of so much together, or less


@dataclass(frozen=True, slots=True)
class MutationRows:
    """Token-bucket decisions as arrays of one length."""

    bound: np.ndarray
    amount_known: np.ndarray
    is_state_known: np.ndarray
    logged_admitted: np.ndarray
    replayed_admitted: np.ndarray
    tokens_before: np.ndarray
    early_max_ms: np.ndarray  # so much earlier than replayed it may have been recorded
    late_max_ms: np.ndarray  # and so much later
    is_order_open: np.ndarray  # bool: recorded before or after another, and it matters
    is_amid_debt: np.ndarray  # bool: admitted after another of its request was refused
    is_past_known: np.ndarray  # bool: nothing that may have come before the log counts
    change_distance_ms: np.ndarray


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdict and reason (None where there is none) per row; object arrays of text."""

    verdict: np.ndarray
    reason: np.ndarray


def rate_verdicts(rows: RateRows, tolerances: Tolerances) -> np.ndarray:
    """Return the verdicts of windowed-rate decisions (producer, consumer, request time).

    Places in RATE_VERDICTS (int8), one per row. ``replayed_ms`` of a throttled fetch is the
    throttle of the nearest size it can have had. Checks run from the most to the least certain; the
    first that applies decides.
    """
    no_bound = np.isnan(rows.bound)
    difference = rows.logged_ms - rows.replayed_ms
    same_decision = (rows.logged_ms > 0) == (rows.replayed_ms > 0)
    agrees = same_decision & (np.abs(difference) <= tolerances.throttle_ms)
    # Two samples that are kept for their last events may have begun almost two windows apart.
    may_be_kept = rows.keeps_overlapping & (rows.purge_margin_ms <= LATE_LINE_MS)
    with np.errstate(invalid="ignore", divide="ignore"):
        boundary_ms = rows.boundary_amount / rows.bound * 1000.0
        lost_ms = rows.lost_amount_max / rows.bound * 1000.0
    # A sample began at most a window before its first request here, so the oldest one leaves no
    # sooner: until then a throttle is shorter only by what its window is longer.
    may_have_left = rows.purge_margin_ms <= rows.window_ms + rows.line_lag_max_ms
    boundary_ms = np.where((difference > 0) | may_have_left, boundary_ms, 0.0)
    # What is missing was counted, and may have begun a sample: a throttle is longer by no more.
    lost_ms = lost_ms + rows.window_ms + tolerances.throttle_ms
    may_be_lost = np.where(rows.is_proven, (difference > 0) & (difference <= lost_ms), True)
    # A late line makes the request look later than it was, and its throttle longer.
    is_late_line = difference <= np.maximum(rows.line_lag_max_ms, tolerances.throttle_ms)
    is_late_line &= difference >= -tolerances.throttle_ms
    off_ms = np.abs(difference) - tolerances.throttle_ms - boundary_ms
    is_within_slack = (off_ms <= rows.window_ms * (1 + may_be_kept)) & ~rows.is_impossible
    # Nor is it known when the samples began that the sensor held before.
    is_within_past = (off_ms <= rows.window_ms * (1 + rows.keeps_overlapping)) & ~rows.is_impossible
    explained_by_timing = np.where(rows.is_proven, is_late_line, is_within_slack)
    by_request_quota = (rows.is_request_quota | rows.has_request_bound) & (
        # It never throttles longer than one window (ClientRequestQuotaManager.maxThrottleTimeMs).
        ((difference > 0) & (rows.logged_ms <= rows.window_ms)) | rows.is_request_quota
    )
    is_odd_attempt = np.isin(rows.attempt, ODD_ATTEMPTS)
    unexplained_throttle = no_bound & ~rows.has_request_bound & ~rows.is_request_quota
    change_ms = np.where(rows.is_proven, PROVEN_CHANGE_MS, tolerances.change_ms)
    applies = (
        # One was in force until just before, or is from just after on.
        unexplained_throttle
        & (rows.logged_ms > 0)
        & (rows.change_distance_ms < tolerances.change_ms),
        unexplained_throttle & (rows.logged_ms > 0),
        no_bound,
        ~rows.amount_known & ~rows.is_unrecorded,
        rows.is_unrecorded & rows.has_request_bound,
        rows.is_unrecorded & (rows.attempt == Attempt.PLAUSIBLE),
        rows.is_unrecorded & ~is_odd_attempt,
        ~rows.is_unrecorded & agrees,
        by_request_quota,
        # What a sensor held before makes a throttle longer, whatever those after it prove, or its
        # window longer by a sample.
        (rows.known_for_ms < tolerances.warm_up_ms)
        & ((difference > 0) | (~rows.is_proven & (is_within_past | rows.is_unrecorded))),
        # A request whose line is late may have been recorded before the change.
        (rows.change_distance_ms < change_ms + rows.line_lag_max_ms)
        & ~(rows.is_proven & rows.is_neither),
        may_be_lost & (rows.lost_requests > 0),
        np.where(rows.is_unrecorded, is_late_line, explained_by_timing) | rows.is_explained,
        difference < 0,
    )
    # The last ones first, so that the first that applies is what stays.
    code = np.full(len(rows.bound), len(applies), np.int8)
    for place in range(len(applies) - 1, -1, -1):
        code[applies[place]] = place
    return code


def is_accusing(codes: np.ndarray) -> np.ndarray:
    """Return a bool per code of :func:`rate_verdicts`: True where the broker is accused."""
    return np.isin(codes, _ACCUSING)


def judge_mutations(rows: MutationRows, tolerances: Tolerances) -> Verdicts:
    """Return the verdicts of controller-mutation decisions (admitted or refused per topic)."""
    agrees = rows.logged_admitted == rows.replayed_admitted
    # Tokens refill at the bound per second: earlier there are fewer, which refuses, later more.
    moved_ms = np.where(rows.logged_admitted, rows.late_max_ms, rows.early_max_ms)
    moved_tokens = rows.bound * (moved_ms + tolerances.throttle_ms) / 1000.0
    return first_that_applies(
        len(rows.bound),
        (np.isnan(rows.bound), "no_quota", None),
        # Whatever the state is, it cannot do both.
        (
            rows.is_amid_debt & (rows.change_distance_ms >= tolerances.change_ms),
            "wrongly_admitted",
            None,
        ),
        (~rows.is_state_known, "indeterminate", STATE_UNKNOWN),
        (agrees & rows.amount_known, "agree", None),
        (~rows.amount_known, "indeterminate", PARTITIONS_UNKNOWN),
        # Before the log began a bucket may have been emptier than full, never fuller.
        (
            ~rows.logged_admitted & ~rows.is_past_known,
            "indeterminate",
            STATE_UNKNOWN,
        ),
        (
            rows.change_distance_ms < tolerances.change_ms,
            "indeterminate",
            QUOTA_CHANGE_IN_FLIGHT,
        ),
        (
            rows.is_order_open | (np.abs(rows.tokens_before) <= moved_tokens),
            "indeterminate",
            SAMPLE_TIMING,
        ),
        (rows.logged_admitted, "wrongly_admitted", None),
        (np.ones(len(rows.bound), bool), "wrongly_refused", None),
    )


def with_throttles(verdicts: Verdicts, throttles: np.ndarray, request: np.ndarray) -> Verdicts:
    """Return the verdicts of mutations with those of their responses' throttles.

    ``throttles`` are the codes of ``judge_mutation_throttles``, ``request`` numbers the requests.
    A throttle accuses the last topic of its request, and only where the admission of every topic
    is right: a wrong one is accused already, and spoils the throttle.
    """
    verdict, reason = verdicts.verdict.copy(), verdicts.reason.copy()
    # The first of each from behind: with ZooKeeper others may have come between its topics.
    is_last = np.zeros(len(request), bool)
    is_last[len(request) - 1 - np.unique(request[::-1], return_index=True)[1]] = True
    doubted = np.unique(request[verdict != "agree"])
    judged = is_last & ~np.isin(request, doubted)
    verdict[judged & (throttles == UNDER_THROTTLED)] = "under_throttled"
    verdict[judged & (throttles == OVER_THROTTLED)] = "over_throttled"
    for code, why in ((REQUEST_QUOTA, REQUEST_QUOTA_INTERVAL), (LATE_LINE, SAMPLE_TIMING)):
        open_rows = judged & (throttles == code)
        verdict[open_rows], reason[open_rows] = "indeterminate", why
    return Verdicts(verdict, reason)


def first_that_applies(
    n: int, *rules: tuple[np.ndarray, np.ndarray | str, np.ndarray | str | None]
) -> Verdicts:
    """Return, per row, verdict and reason of the first of ``rules`` that applies.

    A rule has one verdict and reason for all rows, or an array of them. The last one must apply to
    every row.
    """
    verdict = np.full(n, None, object)
    reason = np.full(n, None, object)
    open_rows = np.ones(n, bool)
    for applies, name, why in rules:
        now = open_rows & applies
        verdict[now] = name[now] if isinstance(name, np.ndarray) else name
        reason[now] = why[now] if isinstance(why, np.ndarray) else why
        open_rows &= ~now
    assert not open_rows.any(), "the last rule of a verdict must apply to every row"
    return Verdicts(verdict, reason)
